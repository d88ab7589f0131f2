/* Scans of bytes and addresses that every page needs, in C. Each has a Python twin beside its caller, which is used where
 * this module is not built. Nothing here allocates by what it reads, and each scan is linear. */

#define PY_SSIZE_T_CLEAN
#include "_guard.h"

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

/* Whether a query is its own canonical form: uniform, its parameters in order, none of them removed. -1: an error is set. */
static int keeps_query(const char *at, Py_ssize_t length, PyObject *names, PyObject *prefixes) {
    const char *end = at + length, *before = NULL;
    Py_ssize_t before_length = 0;
    for (const char *c = at; c < end; c++)
        if (*c != '?' && (*c == '\'' || !is_plain((byte)*c))) return 0;
    for (const char *next; at <= end; at = next + 1) {
        if (!(next = at < end ? memchr(at, '&', (size_t)(end - at)) : NULL)) next = end;
        const char *equals = memchr(at, '=', (size_t)(next - at));
        Py_ssize_t n = (equals ? equals : next) - at;
        if (next == at || n > 200) return 0;
        int order = before ? memcmp(before, at, (size_t)(n < before_length ? n : before_length)) : -1;
        if (before && (order > 0 || (order == 0 && before_length > n))) return 0;
        PyObject *low = PyUnicode_New(n, 127);
        if (!low) return -1;
        char *to = (char *)PyUnicode_1BYTE_DATA(low);
        for (Py_ssize_t i = 0; i < n; i++) to[i] = at[i] >= 'A' && at[i] <= 'Z' ? (char)(at[i] | 0x20) : at[i];
        int removed = PySet_Contains(names, low);
        for (Py_ssize_t i = 0; !removed && i < PyTuple_GET_SIZE(prefixes); i++) removed = (int)PyUnicode_Tailmatch(low, PyTuple_GET_ITEM(prefixes, i), 0, n, -1);
        Py_DECREF(low);
        if (removed) return removed < 0 ? -1 : 0;
        before = at, before_length = n;
    }
    return 1;
}

PyDoc_STRVAR(plain_url_doc,
"plain_url(reference, origin, folder, names, prefixes)\n\n"
"Canonical form of a reference that is canonical in itself but for the base: most are. `origin` and `folder` (path up to its last\n"
"\"/\") are the base's; `names` and `prefixes` of query parameters that are removed (names None: no query is read). None:\n"
"canonicalize() has to look. Spaces at the ends and a fragment are cut.");

static PyObject *plain_url(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    if (n != 5 || !PyUnicode_Check(args[0]) || !PyUnicode_Check(args[1]) || !PyUnicode_Check(args[2]) || !(args[3] == Py_None || PyFrozenSet_Check(args[3])) || !PyTuple_Check(args[4]))
        return PyErr_Format(PyExc_TypeError, "plain_url takes three strings, a frozenset or None, and a tuple");
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
        if (c == '?' && i > path && args[3] != Py_None) {
            int kept = keeps_query(text + i + 1, length - i - 1, args[3], args[4]);
            if (kept < 0) return NULL;
            if (!kept) Py_RETURN_NONE;
            break;
        }
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
    {"host_of", host_of, METH_O, host_of_doc},
    {"visits", visits, METH_VARARGS, visits_doc},
    {"usual_head", (PyCFunction)(void (*)(void))usual_head, METH_FASTCALL, usual_head_doc},
    {"plain_url", (PyCFunction)(void (*)(void))plain_url, METH_FASTCALL, plain_url_doc},
    {0},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.rules._scan", "Scans of bytes and addresses, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void) { return PyModule_Create(&MODULE); }
