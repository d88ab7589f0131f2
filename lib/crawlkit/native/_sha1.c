/* SHA-1 (FIPS 180-4) of a payload and of the block that it ends, in one go. A processor's SHA-1 instructions wait most of the time for
 * the round before; two messages in turn take hardly longer than one. Without those instructions the module has no functions, and the
 * Python twins in digests.py work. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

#define TARGET __attribute__((target("sha,ssse3,sse4.1")))
#define LANE static inline TARGET __attribute__((always_inline))
enum { BLOCK = 64, DIGEST = 20 };
typedef unsigned char byte;

/* A message's state: a, b, c, d from the high word down, and e in the high word of its own. */
typedef struct { __m128i abcd, e; } State;
/* A block under way: the last four groups of the schedule, the state, and abcd as it was before the last four rounds. */
typedef struct { __m128i w[4], abcd, before; } Lane;

LANE State initial(void) { return (State){_mm_set_epi32(0x67452301, (int)0xEFCDAB89, (int)0x98BADCFE, 0x10325476), _mm_set_epi32((int)0xC3D2E1F0, 0, 0, 0)}; }

LANE __m128i words(const byte *at) { return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)at), _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f)); }

/* Words 4 * group to 4 * group + 3 of the schedule (6.1.2, step 1) take the place of those sixteen before. */
LANE __m128i scheduled(Lane *l, const byte *at, int group) {
    __m128i *w = &l->w[group & 3];
    return *w = group < 4 ? words(at + 16 * group) : _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(*w, l->w[(group + 1) & 3]), l->w[(group + 2) & 3]), l->w[(group + 3) & 3]);
}

/* Four rounds (step 3); `function` is a literal, as the instruction asks. */
#define ROUNDS(l, at, group, function, state)                                                                          \
    do {                                                                                                               \
        __m128i w = scheduled(&(l), at, group), e = (group) ? _mm_sha1nexte_epu32((l).before, w) : _mm_add_epi32((state).e, w); \
        (l).before = (l).abcd, (l).abcd = _mm_sha1rnds4_epu32((l).abcd, e, function);                                  \
    } while (0)
#define SUM(l, state) ((state).e = _mm_sha1nexte_epu32((l).before, (state).e), (state).abcd = _mm_add_epi32((state).abcd, (l).abcd))

#define BOTH(group, function)                        \
    do {                                             \
        ROUNDS(la, a, group, function, *sa);         \
        if (two) ROUNDS(lb, b, group, function, *sb); \
    } while (0)
#define TWENTY(group, function) BOTH(group, function); BOTH(group + 1, function); BOTH(group + 2, function); BOTH(group + 3, function); BOTH(group + 4, function)

/* `n` blocks from `a`, and with `two` as many from `b` in turn. */
LANE void blocks(State *sa, const byte *a, State *sb, const byte *b, size_t n, int two) {
    for (; n; n--, a += BLOCK, b += BLOCK) {
        Lane la = {.abcd = sa->abcd}, lb = {.abcd = sb->abcd};
        TWENTY(0, 0);
        TWENTY(5, 1);
        TWENTY(10, 2);
        TWENTY(15, 3);
        SUM(la, *sa);
        if (two) SUM(lb, *sb);
    }
}

static TARGET void one(State *s, const byte *at, size_t n) { blocks(s, at, s, at, n, 0); }
static TARGET void pair(State *sa, const byte *a, State *sb, const byte *b, size_t n) { blocks(sa, a, sb, b, n, 1); }

/* The end of a message: `left` bytes, the bit 1, zeros, the length in bits (5.1.1); then its digest. */
static TARGET void finish(State *s, const byte *at, size_t left, uint64_t length, byte digest[DIGEST]) {
    byte tail[2 * BLOCK] = {0};
    size_t size = left + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
    if (left) memcpy(tail, at, left);
    tail[left] = 0x80;
    for (int i = 0; i < 8; i++) tail[size - 1 - i] = (byte)(length * 8 >> 8 * i);
    one(s, tail, size / BLOCK);
    __m128i abcd = words((const byte *)&s->abcd);
    memcpy(digest, &abcd, 16);
    for (int i = 0, e = _mm_extract_epi32(s->e, 3); i < 4; i++) digest[16 + i] = (byte)(e >> (24 - 8 * i));
}

/* What others left in the upper halves of the registers makes each instruction wait for the one that wrote its target last. */
static __attribute__((target("avx"))) void clear_upper_halves(void) { _mm256_zeroupper(); }

/* Digest of `head` and `more` in a row; `second`: NULL, or where that of `more` alone goes. */
static TARGET void sha1(const byte *head, size_t n, const byte *more, size_t length, byte digest[DIGEST], byte *second) {
    byte joint[BLOCK];
    size_t over = n % BLOCK, fill = over ? BLOCK - over : 0;
    State whole = initial(), alone = initial();
    clear_upper_halves();
    one(&whole, head, n / BLOCK);
    if (over) memcpy(joint, head + n - over, over);
    if (length < fill) { /* both end in the block that head began */
        if (length) memcpy(joint + over, more, length);
        finish(&whole, joint, over + length, n + length, digest);
        if (second) finish(&alone, more, length, length, second);
        return;
    }
    if (fill) {
        memcpy(joint + over, more, fill);
        one(&whole, joint, 1);
    }
    size_t n_whole = (length - fill) / BLOCK, n_alone = length / BLOCK;
    if (second) {
        pair(&alone, more, &whole, more + fill, n_whole);
        one(&alone, more + n_whole * BLOCK, n_alone - n_whole);
        finish(&alone, more + n_alone * BLOCK, length % BLOCK, length, second);
    } else {
        one(&whole, more + fill, n_whole);
    }
    finish(&whole, more + fill + n_whole * BLOCK, (length - fill) % BLOCK, n + length, digest);
}

/* The same of one or two buffers in Python. 0: done; -1: an error is set. */
static int digest_of(PyObject *const *args, Py_ssize_t n, byte digest[DIGEST], byte *second) {
    Py_buffer data, more = {0};
    if (n != 1 && n != 2) return PyErr_SetString(PyExc_TypeError, "one or two buffers are taken"), -1;
    if (PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE)) return -1;
    if (n == 2 && PyObject_GetBuffer(args[1], &more, PyBUF_SIMPLE)) return PyBuffer_Release(&data), -1;
    Py_BEGIN_ALLOW_THREADS
    sha1(data.buf, (size_t)data.len, more.buf, (size_t)more.len, digest, second);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (n == 2) PyBuffer_Release(&more);
    return 0;
}

static PyObject *labelled(const byte digest[DIGEST]) {
    static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"; /* RFC 4648 6 */
    char text[] = "sha1:32 characters of the base of 32..", *to = text + 5;
    for (int i = 0; i < DIGEST; i += 5) {
        uint64_t bits = 0;
        for (int j = 0; j < 5; j++) bits = bits << 8 | digest[i + j];
        for (int shift = 35; shift >= 0; shift -= 5) *to++ = ALPHABET[bits >> shift & 31];
    }
    return PyUnicode_FromStringAndSize(text, to - text);
}

PyDoc_STRVAR(sha1_digest_doc, "sha1_digest(data, more=b'')\n\n`sha1:` and base 32 of the SHA-1 of both in a row.");

static PyObject *sha1_digest(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    byte digest[DIGEST];
    return digest_of(args, n, digest, NULL) ? NULL : labelled(digest);
}

PyDoc_STRVAR(sha1_pair_doc, "sha1_pair(head, body)\n\n(sha1_digest(body), sha1_digest(head, body)).");

static PyObject *sha1_pair(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    byte digest[DIGEST], alone[DIGEST];
    if (n != 2) return PyErr_Format(PyExc_TypeError, "two buffers are taken");
    if (digest_of(args, n, digest, alone)) return NULL;
    PyObject *first = labelled(alone), *second = first ? labelled(digest) : NULL, *out = second ? PyTuple_Pack(2, first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return out;
}

PyDoc_STRVAR(sha1_urn_doc, "sha1_urn(space, name)\n\n`<urn:uuid:...>` of the UUID of version 5 (RFC 9562 5.5) of a name in a space of 16 bytes.");

static PyObject *sha1_urn(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    byte digest[DIGEST];
    char text[] = "<urn:uuid:________-____-____-____-____________>", *to = text + 10;
    if (digest_of(args, n, digest, NULL)) return NULL;
    digest[6] = (byte)((digest[6] & 0x0F) | 0x50);
    digest[8] = (byte)((digest[8] & 0x3F) | 0x80);
    for (int i = 0; i < 16; i++, to += *(to + 2) == '-' ? 3 : 2) to[0] = "0123456789abcdef"[digest[i] >> 4], to[1] = "0123456789abcdef"[digest[i] & 15];
    return PyUnicode_FromString(text);
}

static int has_instructions(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA && __builtin_cpu_supports("avx");
}

static PyMethodDef METHODS[] = {
    {"sha1_digest", (PyCFunction)(void (*)(void))sha1_digest, METH_FASTCALL, sha1_digest_doc},
    {"sha1_urn", (PyCFunction)(void (*)(void))sha1_urn, METH_FASTCALL, sha1_urn_doc},
    {"sha1_pair", (PyCFunction)(void (*)(void))sha1_pair, METH_FASTCALL, sha1_pair_doc},
    {0},
};
#else
static int has_instructions(void) { return 0; }
static PyMethodDef METHODS[] = {{0}};
#endif

static PyMethodDef NONE[] = {{0}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.native._sha1", "SHA-1 of a payload and its block at once, in C.", -1, NONE, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__sha1(void) {
    PyObject *module = PyModule_Create(&MODULE);
    if (module && has_instructions() && PyModule_AddFunctions(module, METHODS)) Py_CLEAR(module);
    return module;
}
