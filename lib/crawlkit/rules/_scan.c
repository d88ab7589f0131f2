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

PyDoc_STRVAR(is_utf8_doc, "is_utf8(raw)\n\nWhether bytes are UTF-8 (RFC 3629: shortest forms, no surrogates, at most U+10FFFF).");

static PyObject *is_utf8(PyObject *self, PyObject *argument) {
    Py_buffer raw;
    if (PyObject_GetBuffer(argument, &raw, PyBUF_SIMPLE)) return NULL;
    const byte *at = raw.buf, *end = at + raw.len;
    while (at < end) {
        uint64_t eight;
        if (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & 0x8080808080808080u))) {
            at += 8;
            continue;
        }
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

static PyMethodDef METHODS[] = {
    {"tag_counts", tag_counts, METH_VARARGS, tag_counts_doc},
    {"is_utf8", is_utf8, METH_O, is_utf8_doc},
    {"plain_url", (PyCFunction)(void (*)(void))plain_url, METH_FASTCALL, plain_url_doc},
    {0},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.rules._scan", "Scans of bytes and addresses, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void) { return PyModule_Create(&MODULE); }
