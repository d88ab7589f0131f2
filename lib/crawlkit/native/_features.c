/* The language of a text by py3langid's model (rules/page/language.py): its walk of a finite automaton and its sum of weights, an eighth of parse in Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

typedef unsigned char byte;
typedef struct { const uint32_t *move; size_t n_moves; const uint16_t *row; const int32_t *output; size_t n_states; } automaton_t;
typedef struct { size_t state; Py_ssize_t at, start, end; } walker_t;
enum { API = 2 }; /* of the function: native/__init__.py */
enum { WALKERS = 8, BEFORE = 16, MAX_CLASSES = 1024 };

/* Walks over the text in several places at once, since each step waits for memory: each walker begins BEFORE bytes early, which is more than a feature has.
 * The feature of each place, or -1, is in `found`. 0: done; 1: the walkers do not fit together; -1: the automaton leads outside of its tables. */
static int walk(const automaton_t *a, const byte *text, Py_ssize_t n, int walkers, int32_t *found) {
    walker_t w[WALKERS];
    const Py_ssize_t share = (n + walkers - 1) / walkers;
    size_t before[WALKERS] = {0};
    for (int k = 0; k < walkers; k++) {
        const Py_ssize_t start = k * share < n ? k * share : n;
        w[k] = (walker_t){0, start < BEFORE ? 0 : start - BEFORE, start, start + share < n ? start + share : n};
    }
    for (Py_ssize_t step = 0; step < share + BEFORE; step++)
        for (int k = 0; k < walkers; k++) {
            walker_t *it = &w[k];
            if (it->at >= it->end) continue;
            if (it->at == it->start) before[k] = it->state;
            const size_t at = ((size_t)a->row[it->state] << 8) + text[it->at];
            if (at >= a->n_moves || (it->state = a->move[at]) >= a->n_states) return -1;
            if (it->at >= it->start) found[it->at] = a->output[it->state];
            it->at++;
        }
    for (int k = 1; k < walkers; k++)
        if (w[k].start < w[k].end && before[k] != w[k - 1].state) return 1;
    return 0;
}

/* scores += by * weights, which are half-precision numbers (finite ones). */
CLONES static void add_weights(float *scores, const uint16_t *weights, size_t n, float by) {
    for (size_t c = 0; c < n; c++) {
        const uint32_t bits = (uint32_t)(weights[c] & 0x7FFF) << 13, sign = (uint32_t)(weights[c] & 0x8000) << 16;
        union { uint32_t bits; float value; } made = {bits};
        made.value *= 0x1p112f;
        made.bits |= sign;
        scores[c] += by * made.value;
    }
}

/* Adds up what each distinct feature says; 0 where there is none. `counted` has room for 2 * size numbers, size a power of two above n. */
static size_t add_up(const int32_t *found, Py_ssize_t n, int32_t *counted, size_t size, const uint16_t *weights, size_t n_features, float *scores, size_t n_classes) {
    size_t distinct = 0;
    memset(counted, 0xFF, 2 * size * sizeof *counted);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (found[i] < 0 || (size_t)found[i] >= n_features) continue;
        size_t at = (uint32_t)found[i] * UINT32_C(0x9E3779B1) % size;
        while (counted[2 * at] >= 0 && counted[2 * at] != found[i]) at = (at + 1) % size;
        distinct += counted[2 * at] < 0;
        counted[2 * at] = found[i];
        counted[2 * at + 1] = counted[2 * at + 1] < 0 ? 1 : counted[2 * at + 1] + 1;
    }
    for (size_t at = 0; at < size; at++)
        if (counted[2 * at] >= 0) add_weights(scores, weights + (size_t)counted[2 * at] * n_classes, n_classes, log1pf((float)counted[2 * at + 1]));
    return distinct;
}

static Py_ssize_t best_of(const float *scores, size_t n, float lead) {
    size_t best = 0;
    float second = -INFINITY;
    for (size_t c = 1; c < n; c++) {
        if (scores[c] > scores[best]) second = scores[best], best = c;
        else if (scores[c] > second) second = scores[c];
    }
    return scores[best] - second >= lead ? (Py_ssize_t)best : -1;
}

PyDoc_STRVAR(best_class_doc,
"best_class(moves, rows, outputs, weights, prior, text, lead)\n\n"
"Class that the features in `text` (bytes) speak for most, or -1: no feature, or less than `lead` between the best two. `moves`: uint32, 256 for each row;\n"
"`rows`: uint16, the row of each state; `outputs`: int32, the feature of each state, or -1; `weights`: float16, of each feature for each class; `prior`:\n"
"float32. Raises ValueError for tables that do not belong together.");

static PyObject *best_class(PyObject *self, PyObject *args) {
    Py_buffer moves, rows, outputs, weights, prior, text;
    float lead, scores[MAX_CLASSES];
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*f", &moves, &rows, &outputs, &weights, &prior, &text, &lead)) return NULL;
    const automaton_t a = {moves.buf, (size_t)moves.len / 4, rows.buf, outputs.buf, (size_t)rows.len / 2};
    const size_t n_classes = (size_t)prior.len / 4, n = (size_t)text.len;
    size_t size = 64;
    while (size <= n) size *= 2;
    Py_ssize_t best = -1;
    int32_t *found = PyMem_Malloc((n + 1 + 2 * size) * sizeof *found);
    if (!found) PyErr_NoMemory();
    else if (!a.n_states || (size_t)outputs.len / 4 < a.n_states || !n_classes || n_classes > MAX_CLASSES) PyErr_SetString(PyExc_ValueError, "tables of other sizes are wanted");
    else {
        int failed = walk(&a, text.buf, text.len, WALKERS, found);
        if (failed > 0) failed = walk(&a, text.buf, text.len, 1, found);
        memcpy(scores, prior.buf, n_classes * sizeof *scores);
        if (failed) PyErr_SetString(PyExc_ValueError, "the automaton leads outside of its tables");
        else if (add_up(found, text.len, found + n + 1, size, weights.buf, (size_t)weights.len / 2 / n_classes, scores, n_classes)) best = best_of(scores, n_classes, lead);
    }
    PyMem_Free(found);
    PyBuffer_Release(&moves);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&outputs);
    PyBuffer_Release(&weights);
    PyBuffer_Release(&prior);
    PyBuffer_Release(&text);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(best);
}

static PyMethodDef METHODS[] = {{"best_class", best_class, METH_VARARGS, best_class_doc}, {0}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.native._features", "Language of a text by its features, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__features(void) {
    PyObject *module = PyModule_Create(&MODULE);
    if (module && PyModule_AddIntConstant(module, "API", API)) Py_CLEAR(module);
    return module;
}
