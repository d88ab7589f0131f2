/* Which pattern of robots.txt a path meets first (RFC 9309 2.2.3). Twin: robots_match.py. */

#define _GNU_SOURCE /* memmem: linear in both lengths */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

typedef unsigned char byte;
enum { ANY = 0, END = 1 }; /* what stands for `*`, and for `$` at the end */
enum { FEW = 32, SLOTS = 1 << 16, LONG = 8 };

/* Where each text of one to three characters and of LONG starts first and last in the path, counted from 1, by a hash: too early and too late
 * where two share a slot, never the other way. So a piece whose parts are not all there in reach costs a look at each, and no search. */
static uint16_t first[SLOTS], last[SLOTS];

static uint16_t slot(const byte *text, Py_ssize_t size) {
    if (size >= LONG) {
        uint64_t eight;
        memcpy(&eight, text, LONG);
        return (uint16_t)(eight * 0x9E3779B97F4A7C15u >> 48);
    }
    uint32_t h = text[0];
    if (size > 1) h = (h | (uint32_t)text[1] << 8) ^ 0x10000;
    if (size > 2) h = (h | (uint32_t)text[2] << 16) ^ 0x2000000;
    return (uint16_t)(h * 2654435761u >> 16);
}

static void remember(const byte *path, Py_ssize_t size) {
    memset(last, 0, sizeof last);
    for (Py_ssize_t at = 0; at < size; at++)
        for (Py_ssize_t n = 1; n <= LONG && n <= size - at; n += n == 3 ? LONG - 3 : 1) {
            uint16_t here = slot(path + at, n);
            if (!last[here]) first[here] = (uint16_t)(at + 1);
            last[here] = (uint16_t)(at + 1);
        }
}

/* Narrows `at` and `end`, within which a piece is to be looked for; 0: it is not there. */
static int in_reach(const byte *piece, Py_ssize_t size, const byte *path, const byte **at, const byte **end) {
    const Py_ssize_t n = size >= LONG ? LONG : size > 3 ? 3 : size;
    Py_ssize_t low = *at - path, high = *end - path - size;
    for (Py_ssize_t i = 0; i + n <= size; i++) {
        uint16_t there = slot(piece + i, n);
        if (first[there] - 1 - i > low) low = first[there] - 1 - i;
        if (last[there] - 1 - i < high) high = last[there] - 1 - i;
        if (!last[there] || high < low) return 0;
    }
    *at = path + low;
    *end = path + high + size;
    return 1;
}

static int matches(const byte *pattern, const byte *pattern_end, const byte *path, const byte *end, int remembered) {
    int anchored = pattern_end > pattern && pattern_end[-1] == END;
    pattern_end -= anchored;
    const byte *at = path, *piece = pattern;
    for (int prefix = 1;; prefix = 0) {
        const byte *next = memchr(piece, ANY, (size_t)(pattern_end - piece));
        Py_ssize_t size = (next ? next : pattern_end) - piece;
        if (size > end - at) return 0;
        if (prefix) {
            if (memcmp(at, piece, (size_t)size)) return 0;
            if (!next) return !anchored || size == end - at;
            at += size;
        } else if (!next && anchored) {
            return !memcmp(end - size, piece, (size_t)size);
        } else if (size) {
            const byte *stop = end;
            if (remembered && !in_reach(piece, size, path, &at, &stop)) return 0;
            const byte *found = memmem(at, (size_t)(stop - at), piece, (size_t)size);
            if (!found) return 0;
            at = found + size;
        }
        if (!next) return 1;
        piece = next + 1;
    }
}

PyDoc_STRVAR(first_match_doc,
"first_match(patterns, count, path)\n\n"
"Which of the first `count` patterns the path meets first; -1: none. All are ASCII; in a pattern \\0 stands for `*`, and \\1 at its end for `$`.");

static PyObject *first_match(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !PyList_Check(args[0]) || !PyLong_Check(args[1]) || !PyUnicode_Check(args[2]) || !PyUnicode_IS_ASCII(args[2])) return PyErr_Format(PyExc_TypeError, "first_match takes a list, a number and ASCII text");
    Py_ssize_t count = PyLong_AsSsize_t(args[1]), size = PyUnicode_GET_LENGTH(args[2]);
    if (PyErr_Occurred()) return NULL;
    if (count > PyList_GET_SIZE(args[0])) count = PyList_GET_SIZE(args[0]);
    const byte *path = PyUnicode_DATA(args[2]);
    int remembered = count > FEW && size < UINT16_MAX;
    if (remembered) remember(path, size);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pattern = PyList_GET_ITEM(args[0], i);
        if (!PyUnicode_Check(pattern) || !PyUnicode_IS_ASCII(pattern)) return PyErr_Format(PyExc_TypeError, "a pattern is ASCII text");
        const byte *text = PyUnicode_DATA(pattern);
        if (matches(text, text + PyUnicode_GET_LENGTH(pattern), path, path + size, remembered)) return PyLong_FromSsize_t(i);
    }
    return PyLong_FromLong(-1);
}

static PyMethodDef METHODS[] = {{"first_match", (PyCFunction)(void (*)(void))first_match, METH_FASTCALL, first_match_doc}, {0}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.native._match", "Patterns of robots.txt, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__match(void) { return PyModule_Create(&MODULE); }
