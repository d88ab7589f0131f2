/* Scans of bytes and addresses that every page needs, in C. Each has a Python twin beside its caller, which is used where
 * this module is not built. Nothing here allocates by what it reads, and each scan is linear. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

typedef unsigned char byte;

static int is_space(byte c) { return c == ' ' || (c >= 0x09 && c <= 0x0D); }
static int is_letter(byte c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

static int is_format(const byte *at, const byte *end) {
    /* the first letters, so that most tags are settled by one look */
    static const char first[32] = {['b' & 31] = 1, ['c' & 31] = 1, ['e' & 31] = 1, ['f' & 31] = 1, ['i' & 31] = 1, ['n' & 31] = 1, ['s' & 31] = 1, ['t' & 31] = 1, ['u' & 31] = 1};
    static const char *const names[] = {"b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"};
    char word[8];
    size_t n = 0;
    if (at == end || !first[*at & 31]) return 0;
    while (at < end && n < 7 && is_letter(*at)) word[n++] = (char)(*at++ | 0x20);
    if (!n || n == 7 || at == end || !(*at == '>' || *at == '/' || is_space(*at))) return 0;
    word[n] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(word, names[i]) == 0) return 1;
    return 0;
}

/* Whether the tag that begins at `at` (behind its "<") has more than `most` attributes. */
static int has_more(const byte *at, const byte *end, Py_ssize_t most) {
    if (at == end || !is_letter(*at)) return 0;
    while (at < end && !is_space(*at) && *at != '/' && *at != '>') at++;
    for (Py_ssize_t n = 0; n <= most; n++) {
        while (at < end && (is_space(*at) || *at == '/')) at++;
        if (at == end || *at == '>' || *at == '=') return 0;
        while (at < end && !is_space(*at) && *at != '/' && *at != '>' && *at != '=') at++;
        const byte *value = at;
        while (value < end && is_space(*value)) value++;
        if (value == end || *value != '=') continue;
        for (value++; value < end && is_space(*value);) value++;
        const byte *close = value < end && (*value == '"' || *value == '\'') ? memchr(value + 1, *value, (size_t)(end - value - 1)) : NULL;
        if (close) {
            at = close + 1;
        } else {
            while (value < end && !is_space(*value) && *value != '>') value++;
            at = value;
        }
    }
    return 1;
}

PyDoc_STRVAR(tag_counts_doc,
"tag_counts(markup, long, most)\n\n"
"What htmlguard.py decides by, in one pass: the number of \"<\", that of start tags of formatting elements, and whether a tag\n"
"before a stretch of `long` bytes without \"<\" has more than `most` attributes.");

static PyObject *tag_counts(PyObject *self, PyObject *args) {
    Py_buffer raw;
    Py_ssize_t tags = 0, formats = 0, stretch, most;
    int many = 0;
    if (!PyArg_ParseTuple(args, "y*nn", &raw, &stretch, &most)) return NULL;
    const byte *at = raw.buf, *end = at + raw.len, *last = NULL;
    while ((at = at < end ? memchr(at, '<', (size_t)(end - at)) : NULL)) {
        if (last && at - last > stretch) many = many || has_more(last, end, most);
        tags++;
        last = ++at;
        formats += is_format(at, end);
    }
    if (last && end - last > stretch) many = many || has_more(last, end, most);
    PyBuffer_Release(&raw);
    return Py_BuildValue("(nnN)", tags, formats, PyBool_FromLong(many));
}

/* The tags that htmlguard.py treats apart: its _UNCOUNTED, _SCOPES and _FORMATS, and elements whose content is text. */
enum { COUNTED, UNCOUNTED, SCOPE, FORMAT, TEXT };
typedef struct { const char *name; char kind; } word_t;
static const word_t WORDS[] = {
    {"area", UNCOUNTED}, {"base", UNCOUNTED}, {"basefont", UNCOUNTED}, {"bgsound", UNCOUNTED}, {"br", UNCOUNTED}, {"col", UNCOUNTED}, {"embed", UNCOUNTED}, {"frame", UNCOUNTED},
    {"hr", UNCOUNTED}, {"img", UNCOUNTED}, {"input", UNCOUNTED}, {"keygen", UNCOUNTED}, {"link", UNCOUNTED}, {"meta", UNCOUNTED}, {"param", UNCOUNTED}, {"source", UNCOUNTED},
    {"track", UNCOUNTED}, {"wbr", UNCOUNTED}, {"a", UNCOUNTED}, {"li", UNCOUNTED}, {"p", UNCOUNTED}, {"dd", UNCOUNTED}, {"dt", UNCOUNTED}, {"option", UNCOUNTED}, {"tr", UNCOUNTED},
    {"td", UNCOUNTED}, {"th", UNCOUNTED}, {"tbody", UNCOUNTED}, {"thead", UNCOUNTED}, {"tfoot", UNCOUNTED}, {"caption", UNCOUNTED}, {"colgroup", UNCOUNTED}, {"rb", UNCOUNTED},
    {"rt", UNCOUNTED}, {"rp", UNCOUNTED}, {"rtc", UNCOUNTED}, {"html", UNCOUNTED}, {"head", UNCOUNTED}, {"body", UNCOUNTED}, {"applet", SCOPE}, {"marquee", SCOPE}, {"object", SCOPE},
    {"table", SCOPE}, {"template", SCOPE}, {"svg", SCOPE}, {"math", SCOPE}, {"b", FORMAT}, {"big", FORMAT}, {"code", FORMAT}, {"em", FORMAT}, {"font", FORMAT}, {"i", FORMAT},
    {"nobr", FORMAT}, {"s", FORMAT}, {"small", FORMAT}, {"strike", FORMAT}, {"strong", FORMAT}, {"tt", FORMAT}, {"u", FORMAT}, {"script", TEXT}, {"style", TEXT}, {"textarea", TEXT},
    {"title", TEXT}, {"xmp", TEXT}, {"iframe", TEXT}, {"noembed", TEXT}, {"noframes", TEXT},
};
enum { N_WORDS = sizeof WORDS / sizeof *WORDS, DEEPEST = 512 };

static int same_name(const byte *a, const byte *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        byte x = a[i], y = b[i];
        if (x != y && !(is_letter(x) && (x ^ 0x20) == y)) return 0;
    }
    return 1;
}

static int word_of(const byte *name, size_t n) {
    for (int i = 0; n <= 8 && i < N_WORDS; i++)
        if ((*name | 0x20) == WORDS[i].name[0] && strlen(WORDS[i].name) == n && same_name(name, (const byte *)WORDS[i].name, n)) return i;
    return -1;
}

/* Behind a tag's attributes and its ">"; `at`: behind its name. */
static const byte *tag_end(const byte *at, const byte *end) {
    while (at < end && *at != '>') {
        if (*at++ != '=') continue;
        while (at < end && is_space(*at)) at++;
        const byte *close = at < end && (*at == '"' || *at == '\'') ? memchr(at + 1, *at, (size_t)(end - at - 1)) : NULL;
        if (close) at = close + 1;
        else while (at < end && !is_space(*at) && *at != '>') at++;
    }
    return at < end ? at + 1 : at;
}

/* Behind a comment; `at`: behind its "<!--". */
static const byte *comment_end(const byte *at, const byte *end) {
    if (at < end && *at == '>') return at + 1;
    if (end - at > 1 && at[0] == '-' && at[1] == '>') return at + 2;
    while ((at = at < end ? memchr(at, '-', (size_t)(end - at)) : NULL)) {
        if (end - at > 2 && at[1] == '-' && at[2] == '>') return at + 3;
        if (end - at > 3 && at[1] == '-' && at[2] == '!' && at[3] == '>') return at + 4;
        at++;
    }
    return end;
}

/* Where the end tag of an element whose content is text begins, or the end. */
static const byte *text_end(const byte *at, const byte *end, const byte *name, size_t n) {
    while ((at = at < end ? memchr(at, '<', (size_t)(end - at)) : NULL)) {
        if ((size_t)(end - at) > n + 2 && at[1] == '/' && same_name(at + 2, name, n) && (at[n + 2] == '>' || at[n + 2] == '/' || is_space(at[n + 2]))) return at;
        at++;
    }
    return end;
}

typedef struct { const byte *name; size_t length; char scope, foreign; } open_t;

PyDoc_STRVAR(is_calm_doc,
"is_calm(markup, depth, formats, elements, long, most)\n\n"
"Whether htmlguard.py's scan would cut nothing: never more than `depth` (at most 512) elements and `formats` formatting elements open\n"
"at once, at most `elements` in all, no tag of more than `long` bytes with more than `most` attributes, no `long` run of \"<\".");

static PyObject *is_calm(PyObject *self, PyObject *args) {
    Py_buffer raw;
    Py_ssize_t depth_limit, format_limit, element_limit, stretch, most, depth = 0, active = 0, elements = 0, foreign = 0, formats[N_WORDS] = {0};
    open_t stack[DEEPEST];
    if (!PyArg_ParseTuple(args, "y*nnnnn", &raw, &depth_limit, &format_limit, &element_limit, &stretch, &most)) return NULL;
    const byte *at = raw.buf, *end = at + raw.len;
    int calm = depth_limit <= DEEPEST;
    while (calm && (at = at < end ? memchr(at, '<', (size_t)(end - at)) : NULL)) {
        const byte *start = at++;
        int closes = at < end && *at == '/';
        const byte *name = at + closes;
        if (end - at > 2 && memcmp(at, "!--", 3) == 0) {
            at = comment_end(at + 3, end);
        } else if (name < end && is_letter(*name)) {
            for (at = name; at < end && !is_space(*at) && *at != '/' && *at != '>';) at++;
            size_t n = (size_t)(at - name);
            int word = word_of(name, n), kind = word < 0 ? COUNTED : WORDS[word].kind;
            int whole = at < end; /* a name that the input ends in is a tag, but of no element whose content is text */
            at = tag_end(at, end);
            if (at - start > stretch && !closes && has_more(name, end, most)) calm = 0;
            elements += !closes || (n == 1 && (*name | 0x20) == 'p') || (n == 2 && same_name(name, (const byte *)"br", 2));
            if (kind == TEXT && !closes && whole) {
                at = text_end(at, end, name, n);
            } else if (kind == FORMAT) {
                if (!closes) formats[word]++, active++;
                else if (formats[word]) formats[word]--, active--;
            } else if (kind != UNCOUNTED && !closes) {
                if (at[-1] == '>' && at[-2] == '/' && foreign) continue;
                if (depth == depth_limit) { calm = 0; break; }
                int opens = kind == SCOPE && (n == 3 || (n == 4 && (*name | 0x20) == 'm'));
                stack[depth++] = (open_t){name, n, kind == SCOPE, (char)opens};
                foreign += opens;
            } else if (kind != UNCOUNTED) {
                Py_ssize_t place = depth;
                while (place-- && !(stack[place].length == n && same_name(stack[place].name, name, n)))
                    if (stack[place].scope) place = 0; /* an end tag reaches nothing outside of it */
                if (place >= 0)
                    while (depth > place) foreign -= stack[--depth].foreign;
            }
            calm = calm && active <= format_limit && elements <= element_limit;
        } else if (at < end && (*at == '!' || *at == '?' || *at == '/')) {
            const byte *close = memchr(at, '>', (size_t)(end - at));
            at = close ? close + 1 : end;
        } else {
            while (at < end && *at == '<') at++;
            calm = at - start <= stretch;
            at -= at - start > 1; /* the last one may begin a tag */
        }
    }
    PyBuffer_Release(&raw);
    return PyBool_FromLong(calm);
}

PyDoc_STRVAR(is_utf8_doc, "is_utf8(raw)\n\nWhether bytes are UTF-8 (RFC 3629: shortest forms, no surrogates, at most U+10FFFF).");

static PyObject *is_utf8(PyObject *self, PyObject *argument) {
    Py_buffer raw;
    if (PyObject_GetBuffer(argument, &raw, PyBUF_SIMPLE)) return NULL;
    const byte *at = raw.buf, *end = at + raw.len;
    while (at < end) {
        uint64_t words[4];
        while (end - at >= 32 && (memcpy(words, at, 32), !((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u))) at += 32;
        if (at == end) break;
        byte c = *at, low = 0x80, high = 0xBF;
        int more = c < 0x80 ? 0 : c < 0xC2 ? -1 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : -1;
        if (c == 0xE0) low = 0xA0;
        else if (c == 0xED) high = 0x9F;
        else if (c == 0xF0) low = 0x90;
        else if (c == 0xF4) high = 0x8F;
        if (more < 0 || end - at <= more) break;
        int good = more == 0 || (at[1] >= low && at[1] <= high);
        for (int i = 2; i <= more; i++) good = good && (at[i] & 0xC0) == 0x80;
        if (!good) break;
        at += more + 1;
    }
    int whole = at == end;
    PyBuffer_Release(&raw);
    return PyBool_FromLong(whole);
}

/* Characters of a path that is its own canonical spelling (urls.py, _UNIFORM_PATH), but for ";", which may start a session id. */
static int is_plain(byte c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("/._~!$&'()*+,:@=|[]-", c)); }

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

PyDoc_STRVAR(plain_url_doc,
"plain_url(reference, origin, folder)\n\n"
"Canonical form of a reference that is canonical in itself but for the base, without a query: most are. `origin` and `folder`\n"
"(path up to its last \"/\") are the base's. None: canonicalize() has to look. Spaces at the ends and a fragment are cut.");

static PyObject *plain_url(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !PyUnicode_Check(args[0]) || !PyUnicode_Check(args[1]) || !PyUnicode_Check(args[2])) return PyErr_Format(PyExc_TypeError, "plain_url takes three strings");
    if (!PyUnicode_IS_COMPACT_ASCII(args[0])) Py_RETURN_NONE;
    const char *text = (const char *)PyUnicode_1BYTE_DATA(args[0]);
    Py_ssize_t length = PyUnicode_GET_LENGTH(args[0]);
    while (length && (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\f' || *text == '\r')) text++, length--;
    const char *hash = memchr(text, '#', (size_t)length);
    if (hash) length = hash - text;
    else while (length && (text[length - 1] == ' ' || text[length - 1] == '\t' || text[length - 1] == '\n' || text[length - 1] == '\f' || text[length - 1] == '\r')) length--;
    if (!length || length > 2000) Py_RETURN_NONE;
    int scheme = length > 8 && memcmp(text, "https://", 8) == 0 ? 8 : length > 7 && memcmp(text, "http://", 7) == 0 ? 7 : 0, network = !scheme && length > 1 && memcmp(text, "//", 2) == 0;
    Py_ssize_t path = scheme || network ? plain_host(text, scheme ? scheme : 2, length) : 0;
    if ((scheme || network) && !path) Py_RETURN_NONE;
    int first = !path && text[0] != '/';
    for (Py_ssize_t i = path; i < length; i++) {
        char c = text[i];
        if (!is_plain((byte)c) || (c == '.' && (i == 0 || text[i - 1] == '/')) || (first && c == ':')) Py_RETURN_NONE;
        first = first && c != '/';
    }
    /* before the text: nothing, the base's scheme, its origin, or that and its folder; behind it "/" where there is no path */
    PyObject *folder = path || text[0] == '/' ? NULL : args[2];
    if (!PyUnicode_IS_COMPACT_ASCII(args[1]) || (folder && !PyUnicode_IS_COMPACT_ASCII(folder))) Py_RETURN_NONE;
    const char *origin = (const char *)PyUnicode_1BYTE_DATA(args[1]), *colon = memchr(origin, ':', (size_t)PyUnicode_GET_LENGTH(args[1]));
    Py_ssize_t head = scheme ? 0 : network ? (colon ? colon - origin + 1 : 0) : PyUnicode_GET_LENGTH(args[1]), middle = folder ? PyUnicode_GET_LENGTH(folder) : 0;
    int bare = path == length;
    PyObject *out = PyUnicode_New(head + middle + length + bare, 127);
    if (!out) return NULL;
    char *to = (char *)PyUnicode_1BYTE_DATA(out);
    memcpy(to, origin, (size_t)head);
    if (folder) memcpy(to + head, PyUnicode_1BYTE_DATA(folder), (size_t)middle);
    memcpy(to + head + middle, text, (size_t)length);
    if (bare) to[head + middle + length] = '/';
    return out;
}

PyDoc_STRVAR(host_of_doc, "host_of(canonical)\n\nHost of a canonical URL: from behind its \"//\" to the port or path.");

static PyObject *host_of(PyObject *self, PyObject *url) {
    if (!PyUnicode_Check(url) || !PyUnicode_IS_COMPACT_ASCII(url)) return PyErr_Format(PyExc_ValueError, "not a canonical URL: %R", url);
    const char *text = (const char *)PyUnicode_1BYTE_DATA(url), *end = text + PyUnicode_GET_LENGTH(url), *at = memchr(text, '/', (size_t)(end - text)), *start, *bracket;
    if (!at || end - at < 2 || at[1] != '/') return PyErr_Format(PyExc_ValueError, "not a canonical URL: %R", url);
    for (start = at += 2, bracket = at < end && *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL; at < end && *at != '/' && (*at != ':' || at < bracket);) at++;
    return PyUnicode_FromStringAndSize(start, at - start);
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

static PyMethodDef METHODS[] = {
    {"tag_counts", tag_counts, METH_VARARGS, tag_counts_doc},
    {"is_calm", is_calm, METH_VARARGS, is_calm_doc},
    {"is_utf8", is_utf8, METH_O, is_utf8_doc},
    {"host_of", host_of, METH_O, host_of_doc},
    {"visits", visits, METH_VARARGS, visits_doc},
    {"plain_url", (PyCFunction)(void (*)(void))plain_url, METH_FASTCALL, plain_url_doc},
    {0},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.rules._scan", "Scans of bytes and addresses, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void) { return PyModule_Create(&MODULE); }
