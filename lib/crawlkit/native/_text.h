/* Text with its white space collapsed as str.split() does, and what becomes of it: strings. */

#pragma once
#include <Python.h>
#include <string.h>

static PyObject *EMPTY; /* "" */

typedef struct { char *data; size_t size, room; Py_ssize_t chars; char space; unsigned char lead; } buffer_t; /* lead: the highest first byte of a character beyond ASCII */

static int reserve(buffer_t *b, size_t more) {
    if (b->room - b->size >= more) return 0;
    size_t room = b->room ? b->room : 64;
    while (room - b->size < more) room *= 2;
    char *data = PyMem_Realloc(b->data, room);
    if (!data) { PyErr_NoMemory(); return -1; }
    b->data = data, b->room = room;
    return 0;
}

/* Length of the white space character (Unicode, as str.isspace() has it) that `at` begins with; 0: another character. */
static inline size_t space_at(const unsigned char *at, const unsigned char *end) {
    unsigned char c = *at;
    if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    if (c < 0xC2) return 0;
    if (c == 0xC2) return end - at > 1 && (at[1] == 0x85 || at[1] == 0xA0) ? 2 : 0;
    if (c < 0xE1 || c > 0xE3 || end - at < 3) return 0;
    if (c == 0xE1) return at[1] == 0x9A && at[2] == 0x80 ? 3 : 0;
    if (c == 0xE3) return at[1] == 0x80 && at[2] == 0x80 ? 3 : 0;
    if (at[1] == 0x80) return (at[2] >= 0x80 && at[2] <= 0x8A) || at[2] == 0xA8 || at[2] == 0xA9 || at[2] == 0xAF ? 3 : 0;
    return at[1] == 0x81 && at[2] == 0x9F ? 3 : 0;
}

#define EACH(b) (UINT64_C(0x0101010101010101) * (b)) /* eight bytes at once */

/* Whether eight bytes are of one white space character. */
static inline int is_blank(const unsigned char *at) {
    uint64_t x;
    memcpy(&x, at, 8);
    return x == EACH(' ') || x == EACH('\t');
}

/* Whether eight bytes are printable ASCII without a space behind a space: text that stays as it is. */
static inline int is_even(uint64_t x) {
    uint64_t high = EACH(0x80);
    if ((x & high) || ((x + EACH(0x60)) & high) != high || ((x + EACH(1)) & high)) return 0; /* beyond ASCII, below " ", DEL */
    uint64_t spaces = ~((x ^ EACH(' ')) + EACH(0x7F)) & high;
    return !(spaces & spaces << 8);
}

/* Adds text, up to `most` characters in all (0: no limit). Returns the number of its characters, white space included; -1: no memory. */
static Py_ssize_t add(buffer_t *b, const unsigned char *at, size_t length, Py_ssize_t most) {
    const unsigned char *end = at + length;
    Py_ssize_t read = 0;
    if (reserve(b, length + 1)) return -1;
    char *out = b->data + b->size;
    Py_ssize_t chars = b->chars;
    char space = b->space;
    unsigned char lead = b->lead;
    while (at < end && (!most || chars < most)) {
        size_t n = space_at(at, end);
        if (n) {
            space = chars > 0;
            at += n, read++;
            while (end - at >= 8 && is_blank(at)) at += 8, read += 8;
            continue;
        }
        if (space) {
            *out++ = ' ', chars++, space = 0;
            if (chars == most) break;
        }
        const unsigned char *start = at, *word = at;
        if (*at < 0x80) { /* words in ASCII, or the start of one */
            for (uint64_t x; end - at >= 8 && (!most || most - chars >= 8); at += 8, out += 8, chars += 8) {
                memcpy(&x, at, 8);
                if (!is_even(x) || (*at == ' ' && at[-1] == ' ')) break;
                memcpy(out, &x, 8);
            }
            read += at - word;
            if (at > word && at[-1] == ' ') { /* it is written when another word follows */
                out--, chars--, space = 1;
                continue;
            }
            word = at;
            const unsigned char *last = most && end - at > most - chars ? at + (most - chars) : end;
            while (at < last && *at > 0x20 && *at < 0x7F) *out++ = (char)*at++;
            read += at - word, chars += at - word;
            if (at > start) continue;
        }
        const unsigned char first = *at++;
        *out++ = (char)first, read++, chars++;
        if (first >= 0x80 && first > lead) lead = first;
        for (; at < end && (*at & 0xC0) == 0x80; *out++ = (char)*at++)
            if (!lead) lead = 0x80; /* behind a control character: no UTF-8 */
    }
    b->size = (size_t)(out - b->data), b->chars = chars, b->space = space, b->lead = lead;
    return read;
}

static PyObject *decoded(const void *data, size_t length) {
    return data && length ? PyUnicode_DecodeUTF8(data, (Py_ssize_t)length, "replace") : Py_NewRef(EMPTY);
}

/* The character beyond ASCII that `*at` begins with, which is passed; 0: it is not whole or not UTF-8. */
static inline Py_UCS4 character(const unsigned char **at, const unsigned char *end) {
    static const Py_UCS4 least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *byte = *at;
    int more = *byte < 0xC2 ? 0 : *byte < 0xE0 ? 1 : *byte < 0xF0 ? 2 : *byte < 0xF5 ? 3 : 0;
    if (!more || end - byte <= more) return 0;
    Py_UCS4 c = *byte & (0x3F >> more);
    for (int i = 1; i <= more; i++) {
        if ((byte[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (byte[i] & 0x3F);
    }
    *at += more + 1;
    return c < least[more] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF) ? 0 : c;
}

static inline void put(void *to, int kind, Py_ssize_t i, Py_UCS4 c) {
    if (kind == PyUnicode_1BYTE_KIND) ((Py_UCS1 *)to)[i] = (Py_UCS1)c;
    else if (kind == PyUnicode_2BYTE_KIND) ((Py_UCS2 *)to)[i] = (Py_UCS2)c;
    else ((Py_UCS4 *)to)[i] = c;
}

/* Writes what `b` holds into a string of its characters; whether that is all, and UTF-8. Inlined once for each kind. */
static inline int fill(void *to, int kind, const buffer_t *b) {
    const unsigned char *at = (const unsigned char *)b->data, *end = at + b->size;
    Py_ssize_t i = 0;
    while (i < b->chars && at < end) {
        for (uint64_t x; end - at >= 8 && b->chars - i >= 8 && (memcpy(&x, at, 8), !(x & EACH(0x80))); at += 8, i += 8)
            for (int k = 0; k < 8; k++) put(to, kind, i + k, at[k]);
        if (i == b->chars || at == end) break;
        Py_UCS4 c = *at < 0x80 ? *at++ : character(&at, end);
        if (!c) return 0;
        put(to, kind, i++, c);
    }
    return i == b->chars && at == end;
}

/* What `add` has gathered, whose characters and widest it has counted; bytes that are not UTF-8 as `decoded` reads them. */
static PyObject *text_of(const buffer_t *b) {
    if (!b->size || !b->lead) {
        PyObject *out = b->size ? PyUnicode_New((Py_ssize_t)b->size, 0x7F) : Py_NewRef(EMPTY);
        if (out && b->size) memcpy(PyUnicode_1BYTE_DATA(out), b->data, b->size);
        return out;
    }
    PyObject *out = PyUnicode_New(b->chars, b->lead < 0xC4 ? 0xFF : b->lead < 0xF0 ? 0xFFFF : 0x10FFFF);
    if (!out) return NULL;
    const int kind = PyUnicode_KIND(out);
    void *to = PyUnicode_DATA(out);
    if (kind == PyUnicode_1BYTE_KIND ? fill(to, PyUnicode_1BYTE_KIND, b) : kind == PyUnicode_2BYTE_KIND ? fill(to, PyUnicode_2BYTE_KIND, b) : fill(to, PyUnicode_4BYTE_KIND, b)) return out;
    Py_DECREF(out);
    return decoded(b->data, b->size);
}

enum { N_KNOWN = 256, MAX_KNOWN = 256 };
typedef struct { PyObject *texts[N_KNOWN]; } known_t; /* strings of a page in ASCII, by their hash: most names come again */

/* `decoded` for text that is likely to come again. */
static PyObject *known_text(known_t *known, const void *data, size_t length) {
    if (!data || !length || length > MAX_KNOWN) return decoded(data, length);
    uint64_t hash = length, part;
    size_t at = 0;
    for (; length - at >= 8; at += 8) {
        memcpy(&part, (const char *)data + at, 8);
        hash = (hash ^ part) * UINT64_C(0x9E3779B97F4A7C15), hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, (const char *)data + at, length - at);
    hash = (hash ^ part) * UINT64_C(0x9E3779B97F4A7C15);
    PyObject **place = &known->texts[hash >> 56];
    if (*place && (size_t)PyUnicode_GET_LENGTH(*place) == length && memcmp(PyUnicode_1BYTE_DATA(*place), data, length) == 0) return Py_NewRef(*place);
    PyObject *made = decoded(data, length);
    if (made && PyUnicode_IS_COMPACT_ASCII(made)) Py_XSETREF(*place, Py_NewRef(made));
    return made;
}

static void forget(known_t *known) {
    for (int i = 0; i < N_KNOWN; i++) Py_CLEAR(known->texts[i]);
}
