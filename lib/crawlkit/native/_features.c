/* py3langid's walk of a finite automaton over a text (rules/page/language.py), which is a fifth of the parse of a page in Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef unsigned char byte;
enum { API = 1 }; /* of the function: native/__init__.py */

PyDoc_STRVAR(count_features_doc,
"count_features(moves, rows, outputs, text)\n\n"
"{feature: how often} of the features that the automaton meets in `text` (bytes), in the order met. `moves`: uint32, 256 for each row;\n"
"`rows`: uint16, the row of each state; `outputs`: int32, the feature of each state, or -1. Raises ValueError for tables that do not\n"
"belong together.");

static int count_one(PyObject *found, int32_t feature) {
    PyObject *key = PyLong_FromLong(feature), *before = key ? PyDict_GetItemWithError(found, key) : NULL;
    PyObject *count = key && !PyErr_Occurred() ? PyLong_FromLong(before ? PyLong_AsLong(before) + 1 : 1) : NULL;
    const int failed = !count || PyDict_SetItem(found, key, count);
    Py_XDECREF(key);
    Py_XDECREF(count);
    return failed;
}

static PyObject *count_features(PyObject *self, PyObject *args) {
    Py_buffer moves, rows, outputs, text;
    if (!PyArg_ParseTuple(args, "y*y*y*y*", &moves, &rows, &outputs, &text)) return NULL;
    const uint32_t *move = moves.buf;
    const uint16_t *row = rows.buf;
    const int32_t *output = outputs.buf;
    const size_t n_moves = (size_t)moves.len / 4, n_states = (size_t)rows.len / 2;
    size_t state = 0;
    PyObject *found = NULL;
    if (!n_states || (size_t)outputs.len / 4 < n_states) PyErr_SetString(PyExc_ValueError, "rows and outputs are not of one length");
    else found = PyDict_New();
    for (Py_ssize_t i = 0; found && i < text.len; i++) {
        const size_t at = ((size_t)row[state] << 8) + ((const byte *)text.buf)[i];
        if (at >= n_moves || (state = move[at]) >= n_states) {
            PyErr_SetString(PyExc_ValueError, "the automaton leads outside of its tables");
            Py_CLEAR(found);
        } else if (output[state] >= 0 && count_one(found, output[state])) Py_CLEAR(found);
    }
    PyBuffer_Release(&moves);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&outputs);
    PyBuffer_Release(&text);
    return found;
}

static PyMethodDef METHODS[] = {{"count_features", count_features, METH_VARARGS, count_features_doc}, {0}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.native._features", "Features of a text by a finite automaton, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__features(void) {
    PyObject *module = PyModule_Create(&MODULE);
    if (module && PyModule_AddIntConstant(module, "API", API)) Py_CLEAR(module);
    return module;
}
