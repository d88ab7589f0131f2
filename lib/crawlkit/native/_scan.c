/* Scans of bytes and addresses that every page needs, in C. Each has a Python twin beside its caller, which is used where
 * this module is not built. Nothing here allocates by what it reads, and each scan is linear. */

#define PY_SSIZE_T_CLEAN
#include "_guard.h"

PyDoc_STRVAR(is_utf8_doc, "is_utf8(raw)\n\nWhether bytes are UTF-8 (RFC 3629: shortest forms, no surrogates, at most U+10FFFF).");

/* Behind the character beyond ASCII that `at` begins with; NULL: it is none. */
static const byte *character_end(const byte *at, const byte *end) {
    byte c = *at, low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80, high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    int more = c < 0xC2 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : 0;
    if (!more || end - at <= more || at[1] < low || at[1] > high) return NULL;
    for (int i = 2; i <= more; i++)
        if ((at[i] & 0xC0) != 0x80) return NULL;
    return at + more + 1;
}

/* The first byte from `at` on that is beyond ASCII, or the end. */
static const byte *beyond_ascii(const byte *at, const byte *end) {
#ifdef __SSE2__
    for (; end - at >= 64; at += 64) {
        const __m128i *bytes = (const __m128i *)(const void *)at, first = _mm_loadu_si128(bytes), second = _mm_loadu_si128(bytes + 1), third = _mm_loadu_si128(bytes + 2), fourth = _mm_loadu_si128(bytes + 3);
        if (!_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(first, second), _mm_or_si128(third, fourth)))) continue;
        const uint64_t low = (uint64_t)_mm_movemask_epi8(first) | (uint64_t)_mm_movemask_epi8(second) << 16, high = (uint64_t)_mm_movemask_epi8(third) | (uint64_t)_mm_movemask_epi8(fourth) << 16;
        return at + __builtin_ctzll(low | high << 32);
    }
#endif
    for (uint64_t word; end - at >= 8 && (memcpy(&word, at, 8), !(word & 0x8080808080808080u));) at += 8;
    while (at < end && *at < 0x80) at++;
    return at;
}

static PyObject *is_utf8(PyObject *self, PyObject *argument) {
    Py_buffer raw;
    if (PyObject_GetBuffer(argument, &raw, PyBUF_SIMPLE)) return NULL;
    const byte *at = raw.buf, *end = at + raw.len;
    while (at && (at = beyond_ascii(at, end)) < end)
        while (at && at < end && *at >= 0x80) at = character_end(at, end);
    int whole = at == end;
    PyBuffer_Release(&raw);
    return PyBool_FromLong(whole);
}

PyDoc_STRVAR(opens_doc, "opens(raw, name)\n\nWhether bytes hold '<' and this name (in lower case), in whatever case.");

static PyObject *opens(PyObject *self, PyObject *args) {
    Py_buffer raw;
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y*y#", &raw, &name, &length)) return NULL;
    const byte *at = raw.buf, *end = at + raw.len;
    int found = 0;
    while (!found && raw.len > length && (at = memchr(at, '<', (size_t)(end - at))) && end - ++at >= length)
        found = same_name(at, (const byte *)name, (size_t)length);
    PyBuffer_Release(&raw);
    return PyBool_FromLong(found);
}

/* Characters of a path that is its own canonical spelling (urls.py, _UNIFORM_PATH), but for ";", which may start a session id. */
static int is_plain(byte c) {
    static const char plain[128] = {
        ['!'] = 1, ['$'] = 1, ['&'] = 1, ['\''] = 1, ['('] = 1, [')'] = 1, ['*'] = 1, ['+'] = 1, [','] = 1, ['-'] = 1, ['.'] = 1, ['/'] = 1, [':'] = 1, ['='] = 1, ['@'] = 1, ['['] = 1, [']'] = 1, ['_'] = 1, ['|'] = 1, ['~'] = 1,
    };
    return is_letter(c) || (c >= '0' && c <= '9') || (c < 128 && plain[c]);
}

static int hex_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* Whether an escape is as the canonical form writes it: in upper case, of a character that needs it (RFC 3986 2.3, 6.2.2). */
static int is_plain_escape(const char *at, const char *end) {
    int high, low, c;
    if (end - at < 3 || *at != '%' || (high = hex_of(at[1])) < 0 || (low = hex_of(at[2])) < 0) return 0;
    c = high << 4 | low;
    return !(is_letter((byte)c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~');
}

/* End of a host that begins at `at` and is in its canonical spelling already; 0: let the parser look. */
static Py_ssize_t plain_host(const char *text, Py_ssize_t at, Py_ssize_t length) {
    Py_ssize_t label = at, start = at;
    for (; at < length && text[at] != '/'; at++) {
        char c = text[at];
        if (c == '.') {
            if (at == label) return 0;
            label = at + 1;
        } else if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) {
            return 0;
        } else if (c == '-' && at - label == 3 && memcmp(text + label, "xn-", 3) == 0) {
            return 0;
        }
    }
    /* the last label begins with a letter: no IPv4 address, which other spellings than 1.2.3.4 would be changed to */
    return at - start > 253 || at == label || !(text[label] >= 'a' && text[label] <= 'z') ? 0 : at;
}

typedef struct { const char *at; Py_ssize_t name, length; } parameter_t;
enum { MAX_REFERENCE = 2000, MAX_PARAMETERS = 64, MAX_NAME_CHARS = 200 };

/* What references are resolved against: plain_url_doc. */
typedef struct { PyObject *whole, *origin, *folder, *names, *prefixes; } base_t;

/* Whether a parameter of this name is removed; -1: an error is set. */
static int is_removed(const char *name, Py_ssize_t n, const base_t *base) {
    if (!PySet_GET_SIZE(base->names) && !PyTuple_GET_SIZE(base->prefixes)) return 0;
    PyObject *low = PyUnicode_New(n, 127);
    if (!low) return -1;
    char *to = (char *)PyUnicode_1BYTE_DATA(low);
    for (Py_ssize_t i = 0; i < n; i++) to[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 0x20) : name[i];
    int removed = PySet_Contains(base->names, low);
    for (Py_ssize_t i = 0; !removed && i < PyTuple_GET_SIZE(base->prefixes); i++) removed = (int)PyUnicode_Tailmatch(low, PyTuple_GET_ITEM(base->prefixes, i), 0, n, -1);
    Py_DECREF(low);
    return removed;
}

static int is_after(const parameter_t *a, const parameter_t *b) {
    int order = memcmp(a->at, b->at, (size_t)(a->name < b->name ? a->name : b->name));
    return order > 0 || (order == 0 && a->name > b->name);
}

/* Writes a query whose characters are as they stay: parameters by name, without those that are removed and empty ones. Its length;
 * -1: canonicalize() has to look, or an error is set. `out` has room for `length`. */
static Py_ssize_t canonical_query(const char *at, Py_ssize_t length, const base_t *base, char *out) {
    parameter_t kept[MAX_PARAMETERS];
    Py_ssize_t n = 0, size = 0;
    const char *end = at + length;
    for (const char *c = at; c < end; c++) {
        if (is_plain((byte)*c) ? *c != '\'' : *c == '?') continue;
        if (!is_plain_escape(c, end)) return -1;
        c += 2;
    }
    for (const char *next; at < end; at = next + 1) {
        if (!(next = memchr(at, '&', (size_t)(end - at)))) next = end;
        if (next == at) continue;
        const char *equals = memchr(at, '=', (size_t)(next - at));
        parameter_t found = {at, (equals ? equals : next) - at, next - at};
        if (n == MAX_PARAMETERS || found.name > MAX_NAME_CHARS) return -1;
        int removed = is_removed(at, found.name, base);
        if (removed < 0) return -1;
        if (removed) continue;
        Py_ssize_t place = n++;
        for (; place && is_after(&kept[place - 1], &found); place--) kept[place] = kept[place - 1];
        kept[place] = found;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (i) out[size++] = '&';
        memcpy(out + size, kept[i].at, (size_t)kept[i].length);
        size += kept[i].length;
    }
    return size;
}

static int is_end_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r'; }

/* Bytes of the dot segments that a relative path begins with (URL Standard 4.4, path state); each ".." takes a segment from the end of the folder. */
static Py_ssize_t without_dots(const char *text, Py_ssize_t length, const char *folder, Py_ssize_t *folder_length) {
    Py_ssize_t at = 0;
    while (at < length && text[at] == '.') {
        const Py_ssize_t dots = length - at > 1 && text[at + 1] == '.' ? 2 : 1, next = at + dots;
        if (next < length && text[next] != '/') break;
        if (dots == 2 && *folder_length > 1)
            for (--*folder_length; *folder_length > 1 && folder[*folder_length - 1] != '/';) --*folder_length;
        at = next < length ? next + 1 : next;
    }
    return at;
}

/* plain_url_doc; a new reference, None among them. */
static PyObject *resolved(PyObject *reference, const base_t *base) {
    char query[MAX_REFERENCE];
    if (!PyUnicode_IS_COMPACT_ASCII(reference)) Py_RETURN_NONE;
    const char *text = (const char *)PyUnicode_1BYTE_DATA(reference);
    Py_ssize_t length = PyUnicode_GET_LENGTH(reference), query_length = 0;
    while (length && is_end_space(*text)) text++, length--;
    const char *hash = memchr(text, '#', (size_t)length);
    if (hash) length = hash - text;
    else while (length && is_end_space(text[length - 1])) length--;
    if (!length) return Py_NewRef(base->whole);
    if (length > MAX_REFERENCE) Py_RETURN_NONE;
    int scheme = length > 8 && memcmp(text, "https://", 8) == 0 ? 8 : length > 7 && memcmp(text, "http://", 7) == 0 ? 7 : 0, network = !scheme && length > 1 && memcmp(text, "//", 2) == 0;
    Py_ssize_t path = scheme || network ? plain_host(text, scheme ? scheme : 2, length) : 0;
    if ((scheme || network) && !path) Py_RETURN_NONE;
    /* before the text: nothing, the base's scheme, its origin, or that and its folder; behind it "/" where there is no path */
    PyObject *folder = path || text[0] == '/' ? NULL : base->folder;
    if (!PyUnicode_IS_COMPACT_ASCII(base->origin) || (folder && !PyUnicode_IS_COMPACT_ASCII(folder))) Py_RETURN_NONE;
    Py_ssize_t middle = folder ? PyUnicode_GET_LENGTH(folder) : 0;
    if (folder) {
        const Py_ssize_t up = without_dots(text, length, (const char *)PyUnicode_1BYTE_DATA(folder), &middle);
        text += up, length -= up;
    }
    int first = folder != NULL;
    for (Py_ssize_t i = path; i < length; i++) {
        char c = text[i];
        if (c == '?' && i > path && base->names != Py_None) {
            query_length = canonical_query(text + i + 1, length - i - 1, base, query);
            if (query_length < 0 && PyErr_Occurred()) return NULL;
            if (query_length < 0) Py_RETURN_NONE;
            length = i;
            break;
        }
        if (!is_plain((byte)c)) {
            if (!is_plain_escape(text + i, text + length)) Py_RETURN_NONE;
            i += 2;
            continue;
        }
        if ((c == '.' && (i == 0 || text[i - 1] == '/')) || (first && c == ':')) Py_RETURN_NONE;
        first = first && c != '/';
    }
    const char *origin = (const char *)PyUnicode_1BYTE_DATA(base->origin), *colon = memchr(origin, ':', (size_t)PyUnicode_GET_LENGTH(base->origin));
    Py_ssize_t head = scheme ? 0 : network ? (colon ? colon - origin + 1 : 0) : PyUnicode_GET_LENGTH(base->origin);
    int bare = !folder && path == length;
    PyObject *out = PyUnicode_New(head + middle + length + bare + (query_length > 0) + query_length, 127);
    if (!out) return NULL;
    char *to = (char *)PyUnicode_1BYTE_DATA(out);
    memcpy(to, origin, (size_t)head);
    if (folder) memcpy(to + head, PyUnicode_1BYTE_DATA(folder), (size_t)middle);
    memcpy(to += head + middle, text, (size_t)length);
    to += length;
    if (bare) *to++ = '/';
    if (query_length) *to++ = '?', memcpy(to, query, (size_t)query_length);
    return out;
}

/* The base from arguments as plain_url_doc says them. */
static int take_base(PyObject *const *args, base_t *base) {
    *base = (base_t){args[0], args[1], args[2], args[3], args[4]};
    if ((PyUnicode_Check(args[0]) || args[0] == Py_None) && PyUnicode_Check(args[1]) && PyUnicode_Check(args[2]) && (args[3] == Py_None || PyFrozenSet_Check(args[3])) && PyTuple_Check(args[4])) return 0;
    PyErr_Format(PyExc_TypeError, "a base is a string or None, two strings, a frozenset or None, and a tuple");
    return -1;
}

PyDoc_STRVAR(plain_url_doc,
"plain_url(reference, whole, origin, folder, names, prefixes)\n\n"
"Canonical form of a reference that is canonical in itself but for the base and the order of its parameters: most are. `whole` is the\n"
"base's canonical form (None: not known), `origin` and `folder` (path up to its last \"/\") are its parts; `names` and `prefixes` of query\n"
"parameters that are removed (names None: no query is read). None: canonicalize() has to look. Spaces at the ends and a fragment are cut.");

static PyObject *plain_url(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    base_t base;
    if (n != 6 || !PyUnicode_Check(args[0])) return PyErr_Format(PyExc_TypeError, "plain_url takes a string and a base");
    return take_base(args + 1, &base) ? NULL : resolved(args[0], &base);
}

PyDoc_STRVAR(plain_urls_doc,
"plain_urls(known, items, field, whole, origin, folder, names, prefixes)\n\n"
"URLs of the references at place `field` of tuples, without those refused. `known` (a dict, or a subclass that fills itself): reference ->\n"
"(URL, None or why it is refused); what plain_url resolves is put there.");

static PyObject *plain_urls(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    base_t base;
    if (n != 8 || !PyDict_Check(args[0]) || !PyList_Check(args[1]) || !PyLong_Check(args[2])) return PyErr_Format(PyExc_TypeError, "plain_urls takes a dict, a list, a number and a base");
    const Py_ssize_t field = PyLong_AsSsize_t(args[2]);
    if ((field < 0 && PyErr_Occurred()) || take_base(args + 3, &base)) return NULL;
    PyObject *out = PyList_New(0);
    for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(args[1]); i++) {
        PyObject *item = PyList_GET_ITEM(args[1], i), *found = NULL;
        PyObject *reference = PyTuple_Check(item) && field >= 0 && field < PyTuple_GET_SIZE(item) ? Py_NewRef(PyTuple_GET_ITEM(item, field)) : NULL;
        if (!reference || !PyUnicode_Check(reference)) {
            PyErr_SetString(PyExc_TypeError, "items are tuples with a string at this place");
        } else if (!(found = Py_XNewRef(PyDict_GetItemWithError(args[0], reference))) && !PyErr_Occurred()) {
            PyObject *url = resolved(reference, &base);
            if (url == Py_None) {
                found = PyObject_GetItem(args[0], reference);
            } else if (url && (found = PyTuple_Pack(2, url, Py_None))) {
                PyObject_GC_UnTrack(found); /* nothing in it for the collector to follow */
                if (PyDict_SetItem(args[0], reference, found)) Py_CLEAR(found);
            }
            Py_XDECREF(url);
        }
        if (found && !(PyTuple_Check(found) && PyTuple_GET_SIZE(found) == 2)) {
            PyErr_SetString(PyExc_TypeError, "known holds pairs");
            Py_CLEAR(found);
        }
        if (!found || (PyTuple_GET_ITEM(found, 1) == Py_None && PyList_Append(out, PyTuple_GET_ITEM(found, 0)))) Py_CLEAR(out);
        Py_XDECREF(found);
        Py_XDECREF(reference);
    }
    return out;
}

PyDoc_STRVAR(host_of_doc, "host_of(canonical)\n\nHost of a canonical URL: from behind its \"//\" to the port or path.");

static PyObject *host_of(PyObject *self, PyObject *url) {
    static PyObject *last; /* most of a page's links lead where the link before led: one string, its hash known */
    if (!PyUnicode_Check(url) || !PyUnicode_IS_COMPACT_ASCII(url)) return PyErr_Format(PyExc_ValueError, "not a canonical URL: %R", url);
    const char *text = (const char *)PyUnicode_1BYTE_DATA(url), *end = text + PyUnicode_GET_LENGTH(url), *at = memchr(text, '/', (size_t)(end - text)), *start, *bracket;
    if (!at || end - at < 2 || at[1] != '/') return PyErr_Format(PyExc_ValueError, "not a canonical URL: %R", url);
    for (start = at += 2, bracket = at < end && *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL; at < end && *at != '/' && (*at != ':' || at < bracket);) at++;
    if (last && PyUnicode_GET_LENGTH(last) == at - start && memcmp(PyUnicode_1BYTE_DATA(last), start, (size_t)(at - start)) == 0) return Py_NewRef(last);
    PyObject *host = PyUnicode_FromStringAndSize(start, at - start);
    if (host) Py_XSETREF(last, Py_NewRef(host));
    return host;
}

PyDoc_STRVAR(visits_doc,
"visits(moves, rows, outputs, text)\n\n"
"Features that a finite automaton meets in `text`, with how often, in the order met (py3langid's visit_counts). `moves`: uint32,\n"
"256 for each row; `rows`: uint16, a row for each state; `outputs`: int32, a feature (or -1) for each state.");

static PyObject *visits(PyObject *self, PyObject *args) {
    Py_buffer moves, rows, outputs, text;
    if (!PyArg_ParseTuple(args, "y*y*y*y*", &moves, &rows, &outputs, &text)) return NULL;
    const uint32_t *move = moves.buf;
    const uint16_t *row = rows.buf;
    const int32_t *output = outputs.buf;
    size_t n_moves = (size_t)moves.len / 4, n_states = (size_t)rows.len / 2, state = 0;
    PyObject *found = n_states && (size_t)outputs.len / 4 >= n_states ? PyDict_New() : PyErr_Format(PyExc_ValueError, "outputs and rows are of one length");
    for (Py_ssize_t i = 0; found && i < text.len; i++) {
        size_t at = ((size_t)row[state] << 8) + ((const byte *)text.buf)[i];
        if (at >= n_moves || (state = move[at]) >= n_states) {
            Py_CLEAR(found);
            PyErr_SetString(PyExc_ValueError, "the automaton leads outside of its tables");
            break;
        }
        if (output[state] < 0) continue;
        PyObject *feature = PyLong_FromLong(output[state]), *before = feature ? PyDict_GetItem(found, feature) : NULL, *count = PyLong_FromLong(before ? PyLong_AsLong(before) + 1 : 1);
        if (!feature || !count || PyDict_SetItem(found, feature, count)) Py_CLEAR(found);
        Py_XDECREF(feature);
        Py_XDECREF(count);
    }
    PyBuffer_Release(&moves);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&outputs);
    PyBuffer_Release(&text);
    return found;
}

static int is_token(byte c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c)); }

/* The characters from `at` to `end` without spaces round them. */
static PyObject *trimmed(const char *at, const char *end) {
    while (at < end && *at == ' ') at++;
    while (at < end && end[-1] == ' ') end--;
    return PyUnicode_FromStringAndSize(at, end - at);
}

PyDoc_STRVAR(usual_head_doc,
"usual_head(block, line_bytes, fields)\n\n"
"(status, reason phrase, version, [(name, value)]) of a response's head (RFC 9112 4, 5) that is as nearly all are: printable ASCII,\n"
"every line ended by CR LF, none longer than `line_bytes`, at most `fields` of them, HTTP/1.0 or 1.1. None: parse_head() has to look.");

static PyObject *usual_head(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !PyBytes_Check(args[0]) || !PyLong_Check(args[1]) || !PyLong_Check(args[2])) return PyErr_Format(PyExc_TypeError, "usual_head takes bytes and two numbers");
    const char *at = PyBytes_AS_STRING(args[0]), *end = at + PyBytes_GET_SIZE(args[0]), *line_end;
    Py_ssize_t longest = PyLong_AsSsize_t(args[1]), left = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred()) return NULL;
    if (end - at < 16 || memcmp(at, "HTTP/1.", 7) || (at[7] != '0' && at[7] != '1') || at[8] != ' ' || at[9] < '1' || at[9] > '5' || at[10] < '0' || at[10] > '9' || at[11] < '0' || at[11] > '9' || (at[12] != ' ' && at[12] != '\r')) Py_RETURN_NONE;
    const char *start = at;
    PyObject *reason = NULL, *headers = PyList_New(0);
    while (headers && (line_end = memchr(at, '\n', (size_t)(end - at))) && line_end > at && line_end[-1] == '\r' && line_end - 1 - at <= longest) {
        const char *next = line_end-- + 1, *c = at;
        if (line_end == at) { /* the empty line: it has to be the last */
            if (next != end || !reason) break;
            PyObject *out = Py_BuildValue("(iOsO)", (start[9] - '0') * 100 + (start[10] - '0') * 10 + start[11] - '0', reason, start[7] == '1' ? "1.1" : "1.0", headers);
            Py_DECREF(reason);
            Py_DECREF(headers);
            return out;
        }
        while (c < line_end && *c >= ' ' && *c <= '~') c++;
        if (c < line_end) break;
        if (!reason) {
            if (!(reason = trimmed(at + 12, line_end))) Py_CLEAR(headers);
        } else {
            for (c = at; c < line_end && is_token((byte)*c); c++) {}
            if (c == at || c == line_end || *c != ':' || !left--) break;
            PyObject *name = PyUnicode_FromStringAndSize(at, c - at), *value = name ? trimmed(c + 1, line_end) : NULL, *field = value ? PyTuple_Pack(2, name, value) : NULL;
            if (!field || PyList_Append(headers, field)) Py_CLEAR(headers);
            Py_XDECREF(name);
            Py_XDECREF(value);
            Py_XDECREF(field);
        }
        at = next;
    }
    Py_XDECREF(reason);
    if (!headers) return NULL;
    Py_DECREF(headers);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"tag_measures", tag_measures, METH_VARARGS, tag_measures_doc},
    {"is_calm", is_calm, METH_VARARGS, is_calm_doc},
    {"is_utf8", is_utf8, METH_O, is_utf8_doc},
    {"opens", opens, METH_VARARGS, opens_doc},
    {"host_of", host_of, METH_O, host_of_doc},
    {"visits", visits, METH_VARARGS, visits_doc},
    {"usual_head", (PyCFunction)(void (*)(void))usual_head, METH_FASTCALL, usual_head_doc},
    {"plain_url", (PyCFunction)(void (*)(void))plain_url, METH_FASTCALL, plain_url_doc},
    {"plain_urls", (PyCFunction)(void (*)(void))plain_urls, METH_FASTCALL, plain_urls_doc},
    {0},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.native._scan", "Scans of bytes and addresses, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void) {
    index_words();
    return PyModule_Create(&MODULE);
}
