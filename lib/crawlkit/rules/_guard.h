/* What htmlguard.py decides by: counts of tags, and whether its scan would cut anything. */

#pragma once
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
