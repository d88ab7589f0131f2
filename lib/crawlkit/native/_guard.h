/* What htmlguard.py decides by: counts of tags, and whether its scan would cut anything. */

#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <Python.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef unsigned char byte;

/* What a byte may be in a tag. SPACE is HTML's: without VT. */
enum { SPACE = 1, SLASH = 2, CLOSE = 4, EQUALS = 8 };
static const byte CLASS[256] = {['\t'] = SPACE, ['\n'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE, [' '] = SPACE, ['/'] = SLASH, ['>'] = CLOSE, ['='] = EQUALS};

static int is_space(byte c) { return CLASS[c] & SPACE; }
static int ends_name(byte c) { return CLASS[c] & (SPACE | SLASH | CLOSE); }
static int is_letter(byte c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

/* A name of at most 6 letters as one number, the last letter lowest. */
#define WORD2(a, b) ((uint64_t)(a) << 8 | (b))
#define WORD3(a, b, c) (WORD2(a, b) << 8 | (c))
#define WORD4(a, b, c, d) (WORD3(a, b, c) << 8 | (d))
#define WORD5(a, b, c, d, e) (WORD4(a, b, c, d) << 8 | (e))
#define WORD6(a, b, c, d, e, f) (WORD5(a, b, c, d, e) << 8 | (f))

static int is_format(const byte *at, const byte *end) {
    static const char first[32] = {['b' & 31] = 1, ['c' & 31] = 1, ['e' & 31] = 1, ['f' & 31] = 1, ['i' & 31] = 1, ['n' & 31] = 1, ['s' & 31] = 1, ['t' & 31] = 1, ['u' & 31] = 1};
    uint64_t word = 0;
    const byte *start = at;
    if (at == end || !first[*at & 31]) return 0; /* most tags are settled by one look */
    while (at < end && at - start < 7 && is_letter(*at)) word = word << 8 | (*at++ | 0x20);
    if (at == start || at - start == 7 || at == end || !ends_name(*at)) return 0;
    switch (word) {
    case 'b':
    case 'i':
    case 's':
    case 'u':
    case WORD2('e', 'm'):
    case WORD2('t', 't'):
    case WORD3('b', 'i', 'g'):
    case WORD4('c', 'o', 'd', 'e'):
    case WORD4('f', 'o', 'n', 't'):
    case WORD4('n', 'o', 'b', 'r'):
    case WORD5('s', 'm', 'a', 'l', 'l'):
    case WORD6('s', 't', 'r', 'i', 'k', 'e'):
    case WORD6('s', 't', 'r', 'o', 'n', 'g'):
        return 1;
    default:
        return 0;
    }
}

/* The first byte from `at` on that CLASS says something of. */
static const byte *class_at(const byte *at, const byte *end) {
#ifdef __SSE2__
    for (; end - at >= 16; at += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at), from_tab = _mm_sub_epi8(bytes, _mm_set1_epi8('\t'));
        const __m128i low = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\v')), _mm_cmpeq_epi8(_mm_min_epu8(from_tab, _mm_set1_epi8('\r' - '\t')), from_tab));
        const __m128i space = _mm_or_si128(low, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(' '))), slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('/'));
        const __m128i end_or_value = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('>')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('=')));
        const int found = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(space, slash), end_or_value));
        if (found) return at + __builtin_ctz((unsigned)found);
    }
#endif
    while (at < end && !CLASS[*at]) at++;
    return at;
}

/* The first `wanted` from `at` on, or the end: what is near without a call. */
static const byte *byte_at(const byte *at, const byte *end, byte wanted) {
#ifdef __SSE2__
    if (end - at >= 64) {
        const __m128i all = _mm_set1_epi8((char)wanted), *bytes = (const __m128i *)(const void *)at;
        uint64_t found = 0;
        for (int i = 0; i < 4; i++) found |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(bytes + i), all)) << 16 * i;
        if (found) return at + __builtin_ctzll(found);
        at += 64;
    }
#endif
    const byte *found = at < end ? memchr(at, wanted, (size_t)(end - at)) : NULL;
    return found ? found : end;
}

/* Behind a tag's name. */
static const byte *name_end(const byte *at, const byte *end) {
    while ((at = class_at(at, end)) < end && !ends_name(*at)) at++;
    return at;
}

/* Behind a tag's attributes, which are counted, and its ">"; `at`: behind its name. As the tokenizer reads them: "=" where a
 * name is due begins one, and a quote that is never closed reaches the end. */
static const byte *tag_end(const byte *at, const byte *end, Py_ssize_t *attributes) {
    for (*attributes = 0;; ++*attributes) {
        while (at < end && CLASS[*at] & (SPACE | SLASH)) at++;
        if (at == end) return at;
        if (*at == '>') return at + 1;
        const byte *value = at = class_at(at + 1, end);
        while (value < end && is_space(*value)) value++;
        if (value == end || *value != '=') continue;
        for (value++; value < end && is_space(*value);) value++;
        if (value < end && (*value == '"' || *value == '\'')) {
            at = byte_at(value + 1, end, *value);
            at += at < end;
        } else {
            while ((value = class_at(value, end)) < end && !(CLASS[*value] & (SPACE | CLOSE))) value++;
            at = value;
        }
    }
}

PyDoc_STRVAR(tag_measures_doc,
"tag_measures(markup, long, most)\n\n"
"What htmlguard.py decides by, in one pass: the number of \"<\", that of start tags of formatting elements, the bytes of the longest\n"
"start tag of those and of links that has more than `long`, and whether a tag of more than `long` bytes has more than `most` attributes. Tags within tags\n"
"count too; where they add up to more than four times the page the last value is true without a further look.");

static PyObject *tag_measures(PyObject *self, PyObject *args) {
    Py_buffer raw;
    Py_ssize_t tags = 0, formats = 0, longest = 0, looked = 0, stretch, most, attributes;
    int many = 0;
    if (!PyArg_ParseTuple(args, "y*nn", &raw, &stretch, &most)) return NULL;
    const byte *at = raw.buf, *end = at + raw.len;
    while ((at = byte_at(at, end, '<')) < end) {
        tags++;
        int format = is_format(++at, end);
        formats += format;
        if (at == end || !is_letter(*at) || looked > 4 * raw.len) continue;
        const byte *name = name_end(at, end);
        Py_ssize_t length = tag_end(name, end, &attributes) - at;
        looked += length;
        many = many || (length > stretch && attributes > most);
        if (length > stretch && length > longest && (format || (name - at == 1 && (*at | 0x20) == 'a'))) longest = length;
    }
    many = many || looked > 4 * raw.len;
    PyBuffer_Release(&raw);
    return Py_BuildValue("(nnnN)", tags, formats, longest, PyBool_FromLong(many));
}

/* The tags that htmlguard.py treats apart: its _UNCOUNTED (LEAVES: _LEAVING), _SCOPES, _BREAKING, _INNER and _FORMATS, and elements whose content is text. */
enum { COUNTED, UNCOUNTED, LEAVES, SCOPE, FORMAT, TEXT, BREAKS, INNER };
typedef struct { const char *name; char kind; } word_t;
static const word_t WORDS[] = {
    {"area", UNCOUNTED}, {"base", UNCOUNTED}, {"basefont", UNCOUNTED}, {"bgsound", UNCOUNTED}, {"br", LEAVES}, {"col", UNCOUNTED}, {"embed", LEAVES}, {"frame", UNCOUNTED},
    {"hr", LEAVES}, {"img", LEAVES}, {"input", UNCOUNTED}, {"keygen", UNCOUNTED}, {"link", UNCOUNTED}, {"meta", LEAVES}, {"param", UNCOUNTED}, {"source", UNCOUNTED},
    {"track", UNCOUNTED}, {"wbr", UNCOUNTED}, {"a", UNCOUNTED}, {"li", LEAVES}, {"p", LEAVES}, {"dd", LEAVES}, {"dt", LEAVES}, {"option", UNCOUNTED}, {"tr", UNCOUNTED},
    {"td", UNCOUNTED}, {"th", UNCOUNTED}, {"tbody", UNCOUNTED}, {"thead", UNCOUNTED}, {"tfoot", UNCOUNTED}, {"caption", UNCOUNTED}, {"colgroup", UNCOUNTED},
    {"html", UNCOUNTED}, {"head", LEAVES}, {"body", LEAVES}, {"applet", SCOPE}, {"marquee", SCOPE}, {"object", SCOPE},
    {"table", SCOPE}, {"template", SCOPE}, {"svg", SCOPE}, {"math", SCOPE}, {"b", FORMAT}, {"big", FORMAT}, {"code", FORMAT}, {"em", FORMAT}, {"font", FORMAT}, {"i", FORMAT},
    {"nobr", FORMAT}, {"s", FORMAT}, {"small", FORMAT}, {"strike", FORMAT}, {"strong", FORMAT}, {"tt", FORMAT}, {"u", FORMAT}, {"script", TEXT}, {"style", TEXT}, {"textarea", TEXT},
    {"title", TEXT}, {"xmp", TEXT}, {"iframe", TEXT}, {"noembed", TEXT}, {"noframes", TEXT},
    {"blockquote", BREAKS}, {"center", BREAKS}, {"div", BREAKS}, {"dl", BREAKS}, {"h1", BREAKS}, {"h2", BREAKS}, {"h3", BREAKS}, {"h4", BREAKS}, {"h5", BREAKS}, {"h6", BREAKS}, {"listing", BREAKS}, {"menu", BREAKS}, {"ol", BREAKS}, {"pre", BREAKS}, {"ruby", BREAKS}, {"span", BREAKS}, {"sub", BREAKS}, {"sup", BREAKS}, {"ul", BREAKS}, {"var", BREAKS},
    {"foreignobject", INNER}, {"desc", INNER}, {"mi", INNER}, {"mo", INNER}, {"mn", INNER}, {"ms", INNER}, {"mtext", INNER}, {"annotation-xml", INNER},
};
enum { N_WORDS = sizeof WORDS / sizeof *WORDS, DEEPEST = 512 };

static int same_name(const byte *a, const byte *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        byte x = a[i], y = b[i];
        if (x != y && !(is_letter(x) && (x ^ 0x20) == y)) return 0;
    }
    return 1;
}

static byte LENGTHS[N_WORDS];
static signed char FIRST[32], NEXT[N_WORDS]; /* by first letter: the words that begin with it, -1 behind the last */

static void index_words(void) {
    memset(FIRST, -1, sizeof FIRST);
    for (int i = 0; i < N_WORDS; i++) {
        signed char *first = &FIRST[WORDS[i].name[0] & 31];
        LENGTHS[i] = (byte)strlen(WORDS[i].name), NEXT[i] = *first, *first = (signed char)i;
    }
}

static int word_of(const byte *name, size_t n) {
    int i = FIRST[*name & 31];
    while (i >= 0 && !(LENGTHS[i] == n && same_name(name, (const byte *)WORDS[i].name, n))) i = NEXT[i];
    return i;
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

/* The same of a script: "<!--" and "<script" in it make its next end tag one that ends nothing (13.2.5.17 and on). */
static const byte *script_end(const byte *at, const byte *end) {
    int escaped = 0; /* 2: doubly */
    while (at < end) {
        if (!escaped && !(at = memchr(at, '<', (size_t)(end - at)))) return end;
        size_t left = (size_t)(end - at);
        if (!escaped && left > 3 && memcmp(at, "<!--", 4) == 0) {
            escaped = 1, at += 2; /* its dashes may end it */
        } else if (escaped && left > 2 && memcmp(at, "-->", 3) == 0) {
            escaped = 0, at += 3;
        } else {
            int closes = left > 1 && at[1] == '/';
            const byte *name = at + 1 + closes, *behind = name + 6;
            if (*at == '<' && left > 7 + (size_t)closes && same_name(name, (const byte *)"script", 6) && (*behind == '>' || *behind == '/' || is_space(*behind))) {
                if (closes && escaped < 2) return at;
                if (escaped) escaped = closes ? 1 : 2;
            }
            at++;
        }
    }
    return end;
}

typedef struct { const byte *name; size_t length; char scope, foreign, apart, inner; } open_t;

PyDoc_STRVAR(is_calm_doc,
"is_calm(markup, depth, formats, elements, long, most, steps, longest, options)\n\n"
"Whether htmlguard.py's scan would cut nothing: never more than `depth` (at most 512) elements and `formats` formatting elements open\n"
"at once, at most `elements` and `steps` in all, no tag of more than `long` bytes with more than `most` attributes, no link or formatting\n"
"element of more than `longest`, at most `options` options, no `long` run of \"<\", no markup that is text or not depending on where it stands.");

static PyObject *is_calm(PyObject *self, PyObject *args) {
    Py_buffer raw;
    Py_ssize_t depth_limit, format_limit, element_limit, stretch, most, step_limit, longest, option_limit, attributes = 0;
    Py_ssize_t depth = 0, active = 0, elements = 0, steps = 0, compared = 0, foreign = 0, apart = 0, inner = 0, options = 0, formats[N_WORDS] = {0};
    open_t stack[DEEPEST];
    if (!PyArg_ParseTuple(args, "y*nnnnnnnn", &raw, &depth_limit, &format_limit, &element_limit, &stretch, &most, &step_limit, &longest, &option_limit)) return NULL;
    const byte *at = raw.buf, *end = at + raw.len;
    int calm = depth_limit <= DEEPEST;
    while (calm && (at = at < end ? memchr(at, '<', (size_t)(end - at)) : NULL)) {
        const byte *start = at++;
        int closes = at < end && *at == '/';
        const byte *name = at + closes;
        calm = ++steps <= step_limit;
        if (end - at > 2 && memcmp(at, "!--", 3) == 0) {
            at = comment_end(at + 3, end);
        } else if (foreign && end - at > 7 && memcmp(at, "![CDATA[", 8) == 0) {
            const byte *next = memchr(at, '<', (size_t)(end - at));
            calm = calm && (!next || memmem(at, (size_t)(next - at), "]]>", 3));
            at = next ? next : end;
        } else if (name < end && is_letter(*name)) {
            at = name_end(name, end);
            size_t n = (size_t)(at - name);
            int word = word_of(name, n), kind = word < 0 ? COUNTED : WORDS[word].kind;
            if (kind == LEAVES || (kind == UNCOUNTED && foreign)) kind = kind == LEAVES ? UNCOUNTED : COUNTED;
            int whole = at < end; /* a name that the input ends in is a tag, but of no element whose content is text */
            at = tag_end(at, end, &attributes);
            if (!closes && at - start > stretch && attributes > most) calm = 0;
            if (!closes && at - start > longest && (kind == FORMAT || (n == 1 && (*name | 0x20) == 'a'))) calm = 0;
            elements += !closes || (n == 1 && (*name | 0x20) == 'p') || (n == 2 && same_name(name, (const byte *)"br", 2));
            options += !closes && n == 6 && same_name(name, (const byte *)"option", 6);
            if (kind == TEXT && !closes && whole) {
                const byte *next = apart ? memchr(at, '<', (size_t)(end - at)) : NULL;
                const byte *behind = next && end - next > 8 && memcmp(next, "<![CDATA[", 9) == 0 ? memchr(next + 1, '<', (size_t)(end - next - 1)) : NULL;
                if (behind && memmem(next, (size_t)(behind - next), "]]>", 3)) next = behind; /* a section without "<" is no tag either way */
                if (next && text_end(next, next + n + 3 < end ? next + n + 3 : end, name, n) != next) calm = 0;
                else if (!apart) at = n == 6 && same_name(name, (const byte *)"script", 6) ? script_end(at, end) : text_end(at, end, name, n);
            } else if (kind == FORMAT) {
                if (!closes) formats[word]++, active++;
                else if (formats[word]) formats[word]--, active--;
            } else if (kind != UNCOUNTED && !closes) {
                if (!(at[-1] == '>' && at[-2] == '/' && foreign && !inner && kind != BREAKS && !(kind == SCOPE && n == 5))) {
                    if (depth == depth_limit) { calm = 0; break; }
                    int opens = kind == SCOPE && (n == 3 || (n == 4 && (*name | 0x20) == 'm'));
                    int parts = opens || (n == 6 && same_name(name, (const byte *)"select", 6)) || (n == 8 && same_name(name, (const byte *)"frameset", 8));
                    stack[depth++] = (open_t){name, n, kind == SCOPE, (char)opens, (char)parts, kind == INNER};
                    foreign += opens, apart += parts, inner += kind == INNER;
                }
            } else if (kind != UNCOUNTED) {
                Py_ssize_t place = depth;
                while (place-- && (compared += stack[place].length == n ? (Py_ssize_t)n : 1, !(stack[place].length == n && same_name(stack[place].name, name, n))))
                    if (stack[place].scope) place = 0; /* an end tag reaches nothing outside of it */
                if (place >= 0)
                    while (depth > place) depth--, foreign -= stack[depth].foreign, apart -= stack[depth].apart, inner -= stack[depth].inner;
                calm = calm && compared <= 65536 + 16 * raw.len; /* else the scan, which looks names up */
            }
            calm = calm && options <= option_limit && active <= format_limit && elements <= element_limit;
        } else if (at < end && (*at == '!' || *at == '?' || *at == '/')) {
            const byte *close = memchr(at, '>', (size_t)(end - at));
            at = close ? close + 1 : end;
        } else {
            while (at < end && *at == '<') at++;
            calm = calm && at - start <= stretch;
            at -= at - start > 1; /* the last one may begin a tag */
        }
    }
    PyBuffer_Release(&raw);
    return PyBool_FromLong(calm);
}
