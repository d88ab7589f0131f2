/* Text with its white space collapsed as str.split() does, and what becomes of it: strings. */

#pragma once
#include <Python.h>

static PyObject *EMPTY; /* "" */

typedef struct { char *data; size_t size, room; Py_ssize_t chars; char space; } buffer_t;

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

/* Adds text, up to `most` characters in all (0: no limit). Returns the number of its characters, white space included; -1: no memory. */
static Py_ssize_t add(buffer_t *b, const unsigned char *at, size_t length, Py_ssize_t most) {
    const unsigned char *end = at + length;
    Py_ssize_t read = 0;
    if (reserve(b, length + 1)) return -1;
    char *out = b->data + b->size;
    Py_ssize_t chars = b->chars;
    char space = b->space;
    while (at < end && (!most || chars < most)) {
        size_t n = space_at(at, end);
        if (n) {
            space = chars > 0;
            at += n, read++;
            continue;
        }
        if (space) {
            *out++ = ' ', chars++, space = 0;
            if (chars == most) break;
        }
        const unsigned char *word = at;
        if (*at < 0x80) { /* a word in ASCII, or its start */
            const unsigned char *last = most && end - at > most - chars ? at + (most - chars) : end;
            while (at < last && *at > 0x20 && *at < 0x7F) *out++ = (char)*at++;
            read += at - word, chars += at - word;
            if (at > word) continue;
        }
        *out++ = (char)*at++, read++, chars++;
        while (at < end && (*at & 0xC0) == 0x80) *out++ = (char)*at++;
    }
    b->size = (size_t)(out - b->data), b->chars = chars, b->space = space;
    return read;
}

static PyObject *decoded(const void *data, size_t length) {
    return data && length ? PyUnicode_DecodeUTF8(data, (Py_ssize_t)length, "replace") : Py_NewRef(EMPTY);
}
