/* The inner loops of fingerprint.py: a text's normal form, hashes of its shingles, and the signatures made of them. Their pure-Python fallbacks are there. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default"))) /* 32-bit products eight at a time, where the processor can */
#else
#define CLONES
#endif

typedef unsigned char byte;
enum { API = 2 }; /* of the functions: native/__init__.py */
enum { N_KNOWN = 1 << 16, MAX_KNOWN = 23, N_PERMUTATIONS = 128 };
typedef struct { uint64_t hash; byte length, word[MAX_KNOWN]; } known_t;
/* Scripts written without spaces (fingerprint.py, _NO_SPACES). */
static const Py_UCS4 NO_SPACES[][2] = {{0xE00, 0xEFF}, {0x1000, 0x109F}, {0x1780, 0x17FF}, {0x3040, 0x30FF}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0x20000, 0x3FFFF}};
static known_t *KNOWN; /* words met before, each in the one place where it may stand */

enum { SEPARATES, CONTINUES, ALONE }; /* what a character is: between words, in one, or one by itself */
static byte IN_WORD[128]; /* of ASCII */

/* What the character that `at` begins with is, and its bytes; bytes that are no UTF-8 separate. */
static int character_at(const byte *at, const byte *end, size_t *length) {
    const byte c = *at;
    *length = 1;
    if (c < 0x80) return IN_WORD[c] ? CONTINUES : SEPARATES;
    const int more = c < 0xC2 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : 0;
    if (!more || end - at <= more) return SEPARATES;
    Py_UCS4 ch = c & (0x3F >> more);
    for (int i = 1; i <= more; i++) ch = ch << 6 | (at[i] & 0x3F);
    *length = (size_t)more + 1;
    if (!Py_UNICODE_ISALNUM(ch)) return SEPARATES;
    for (size_t i = 0; i < sizeof NO_SPACES / sizeof *NO_SPACES; i++)
        if (ch >= NO_SPACES[i][0] && ch <= NO_SPACES[i][1]) return ALONE;
    return CONTINUES;
}

static known_t *place_of(const byte *word, size_t length) {
    uint64_t parts[3] = {0}, hash = length;
    memcpy(parts, word, length);
    for (int i = 0; i < 3; i++) hash = (hash ^ parts[i]) * UINT64_C(0x9E3779B97F4A7C15), hash ^= hash >> 32;
    return &KNOWN[hash % N_KNOWN];
}

/* The hash of a word: the one known, else what `hashes[word]` says. */
static int hash_of(PyObject *hashes, const byte *word, size_t length, uint64_t *hash) {
    known_t *place = length <= MAX_KNOWN ? place_of(word, length) : NULL;
    if (place && place->length == length && memcmp(place->word, word, length) == 0) {
        *hash = place->hash;
        return 0;
    }
    PyObject *key = PyBytes_FromStringAndSize((const char *)word, (Py_ssize_t)length), *found = key ? PyObject_GetItem(hashes, key) : NULL;
    Py_XDECREF(key);
    if (!found) return -1;
    *hash = PyLong_AsUnsignedLongLong(found);
    Py_DECREF(found);
    if (*hash == UINT64_MAX && PyErr_Occurred()) return -1;
    if (place) {
        place->hash = *hash, place->length = (byte)length;
        memcpy(place->word, word, length);
    }
    return 0;
}

static uint64_t mixed(uint64_t h) {
    h = (h ^ h >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    h = (h ^ h >> 27) * UINT64_C(0x94D049BB133111EB);
    return h ^ h >> 31;
}

/* Sorts by bytes from the lowest on; `other` has room for as many. */
static void sort_by_bytes(uint64_t *hashes, uint64_t *other, size_t n) {
    for (int shift = 0; shift < 64; shift += 8) {
        size_t counts[256] = {0}, at = 0;
        for (size_t i = 0; i < n; i++) counts[hashes[i] >> shift & 255]++;
        for (int b = 0; b < 256; b++) {
            const size_t count = counts[b];
            counts[b] = at, at += count;
        }
        for (size_t i = 0; i < n; i++) other[counts[hashes[i] >> shift & 255]++] = hashes[i];
        uint64_t *swapped = hashes;
        hashes = other, other = swapped;
    }
}

/* Sorts into `sorted`, by the highest bits first: hashes are spread evenly, so that few share them. */
static void sort(uint64_t *hashes, uint64_t *sorted, size_t n) {
    enum { BITS = 11, FEW = 32 };
    uint32_t ends[1 << BITS] = {0}, at = 0;
    for (size_t i = 0; i < n; i++) ends[hashes[i] >> (64 - BITS)]++;
    for (int b = 0; b < 1 << BITS; b++) {
        const uint32_t count = ends[b];
        ends[b] = at, at += count;
    }
    for (size_t i = 0; i < n; i++) sorted[ends[hashes[i] >> (64 - BITS)]++] = hashes[i];
    for (size_t b = 0, start = 0; b < 1 << BITS; start = ends[b++]) {
        if (ends[b] - start > FEW) sort_by_bytes(sorted + start, hashes + start, ends[b] - start);
        else
            for (size_t i = start + 1; i < ends[b]; i++) {
                const uint64_t h = sorted[i];
                size_t to = i;
                for (; to > start && sorted[to - 1] > h; to--) sorted[to] = sorted[to - 1];
                sorted[to] = h;
            }
    }
}

PyDoc_STRVAR(shingle_hashes_doc,
"shingle_hashes(text, hashes, most, (a, b, c))\n\n"
"Distinct hashes of the runs of three words of a normalised text in UTF-8: a sorted bytearray of 64-bit unsigned integers; of the first `most` words.\n"
"hashes: word -> its hash, always the same one; asked for words that were not met lately. a, b, c: multipliers of the three.");

static PyObject *shingle_hashes(PyObject *self, PyObject *args) {
    Py_buffer text;
    PyObject *hashes, *out = NULL;
    Py_ssize_t most;
    size_t n = 0, distinct = 0, length;
    unsigned long long by[3];
    uint64_t first = 0, second = 0, third;
    if (!PyArg_ParseTuple(args, "y*On(KKK)", &text, &hashes, &most, &by[0], &by[1], &by[2])) return NULL;
    const byte *at = text.buf, *end = at + text.len;
    const size_t limit = most > 0 ? (size_t)most : 0, room = (size_t)text.len < limit ? (size_t)text.len : limit;
    uint64_t *found = PyMem_Malloc((2 * room + 1) * sizeof *found);
    if (!found) PyErr_NoMemory();
    while (found && n < limit) {
        int is = SEPARATES;
        while (at < end && (is = character_at(at, end, &length)) == SEPARATES) at += length;
        if (is == SEPARATES) break;
        const byte *word = at;
        at += length;
        while (is == CONTINUES && at < end) {
            if (*at < 0x80) {
                if (!IN_WORD[*at]) break;
                at++;
            } else if (character_at(at, end, &length) != CONTINUES) break;
            else at += length;
        }
        if (hash_of(hashes, word, (size_t)(at - word), &third)) goto done;
        if (n++ >= 2) found[n - 3] = mixed(first * by[0] + second * by[1] + third * by[2]);
        first = second, second = third;
    }
    if (!found) goto done;
    n = n > 2 ? n - 2 : 0;
    sort(found, found + room, n);
    for (const uint64_t *h = found + room; h < found + room + n; h++)
        if (!distinct || *h != found[distinct - 1]) found[distinct++] = *h;
    out = PyByteArray_FromStringAndSize((const char *)found, (Py_ssize_t)(distinct * sizeof *found));
done:
    PyMem_Free(found);
    PyBuffer_Release(&text);
    return out;
}

/* A character's normal form where it stands alone: UTF-8, or how it is to be taken. */
enum { N_FORMS = 0x3100, MAX_FORM = 7, SPACE = 8, NOTHING = 9 };
static struct { byte length, utf8[MAX_FORM]; } FORMS[N_FORMS];
typedef struct { byte *data; size_t size, room; int space; } bytes_t;
/* Characters whose normal form does not depend on their neighbours, if these are such characters too: none of them, decomposed, begins with one that joins
 * what is before it. Those of the second list are their own normal form. */
static const Py_UCS4 APART[][2] = {{0, 0x2FF}, {0x370, 0x482}, {0x48A, 0x556}, {0x559, 0x58F}, {0x5D0, 0x5F4}, {0x600, 0x60F},
    {0x61B, 0x64A}, {0x660, 0x66F}, {0x671, 0x6D5}, {0x6EE, 0x6FF}, {0x1E00, 0x1FFF}, {0x2000, 0x20CF}, {0x2100, 0x2BFF}, {0x3000, 0x3029}, {0x3030, 0x3098}, {0x309B, 0x30FF}};
static const Py_UCS4 AS_IT_IS[][2] = {{0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xFE0F, 0xFE0F}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}};
#define IS_IN(ch, ranges) is_in(ch, ranges, sizeof ranges / sizeof *ranges)

static int is_in(Py_UCS4 ch, const Py_UCS4 ranges[][2], size_t n) {
    size_t i = 0;
    while (i < n && ch > ranges[i][1]) i++;
    return i < n && ch >= ranges[i][0];
}

/* Appends what is not white space, behind a space if there was some. */
static int append(bytes_t *b, const void *data, size_t n) {
    if (b->room - b->size < n + 1) {
        const size_t room = 2 * b->room + n + 64;
        byte *grown = PyMem_Realloc(b->data, room);
        if (!grown) { PyErr_NoMemory(); return -1; }
        b->data = grown, b->room = room;
    }
    if (b->space && b->size) b->data[b->size++] = ' ';
    b->space = 0;
    memcpy(b->data + b->size, data, n);
    b->size += n;
    return 0;
}

static int append_utf8(bytes_t *b, Py_UCS4 ch) {
    const byte four[] = {(byte)(0xF0 | ch >> 18), (byte)(0x80 | (ch >> 12 & 63)), (byte)(0x80 | (ch >> 6 & 63)), (byte)(0x80 | (ch & 63))};
    const byte three[] = {(byte)(0xE0 | ch >> 12), (byte)(0x80 | (ch >> 6 & 63)), (byte)(0x80 | (ch & 63))};
    return ch < 0x10000 ? append(b, three, 3) : append(b, four, 4);
}

/* Looks a character's form up; 1: it has none of those that are remembered. */
static int learn(Py_UCS4 ch, PyObject *normal) {
    PyObject *text = PyUnicode_FromOrdinal((int)ch), *form = text ? PyObject_CallOneArg(normal, text) : NULL;
    Py_ssize_t n = 0, spaces = 0;
    const char *utf8 = form ? PyUnicode_AsUTF8AndSize(form, &n) : NULL;
    int odd = !utf8 ? -1 : n > MAX_FORM;
    const Py_ssize_t chars = odd ? 0 : PyUnicode_GET_LENGTH(form);
    for (Py_ssize_t i = 0; i < chars; i++) spaces += Py_UNICODE_ISSPACE(PyUnicode_READ_CHAR(form, i));
    odd = odd ? odd : spaces && chars > 1;
    if (!odd) {
        FORMS[ch].length = !n ? NOTHING : spaces ? SPACE : (byte)n;
        memcpy(FORMS[ch].utf8, utf8, (size_t)n);
    }
    Py_XDECREF(text);
    Py_XDECREF(form);
    return odd;
}

PyDoc_STRVAR(normal_form_doc,
"normal_form(text, normal)\n\n"
"The normal form of a text in UTF-8, where it is that of its characters one by one; else None. normal: str -> its normal form, white space as it\n"
"is; always the same one.");

static PyObject *normal_form(PyObject *self, PyObject *args) {
    PyObject *text, *normal, *out = NULL;
    if (!PyArg_ParseTuple(args, "UO", &text, &normal)) return NULL;
    const Py_ssize_t n = PyUnicode_GET_LENGTH(text);
    const int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    bytes_t b = {PyMem_Malloc((size_t)n + 64), 0, (size_t)n + 64, 0};
    int odd = b.data ? 0 : -1;
    if (odd) PyErr_NoMemory();
    for (Py_ssize_t i = 0; !odd && i < n; i++) {
        Py_UCS4 ch = PyUnicode_READ(kind, data, i);
        if (ch >= 0xFF01 && ch <= 0xFF5E) ch -= 0xFEE0; /* wide forms of ASCII */
        if (ch >= N_FORMS) {
            odd = IS_IN(ch, AS_IT_IS) ? append_utf8(&b, ch) : 1;
            continue;
        }
        if (!FORMS[ch].length) odd = IS_IN(ch, APART) ? learn(ch, normal) : 1;
        if (odd) break;
        const byte length = FORMS[ch].length;
        if (length == 1 && !b.space && b.size < b.room) { /* most of them */
            b.data[b.size++] = FORMS[ch].utf8[0];
            continue;
        }
        if (length == SPACE) b.space = 1;
        else if (length != NOTHING) odd = append(&b, FORMS[ch].utf8, length);
    }
    if (!odd) out = PyBytes_FromStringAndSize((const char *)b.data, (Py_ssize_t)b.size);
    else if (odd > 0) out = Py_NewRef(Py_None);
    PyMem_Free(b.data);
    return out;
}

/* MurmurHash3's finaliser of the low 32 bits. */
CLONES static void finalised(const uint64_t *hashes, uint32_t *out, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)hashes[i];
        h = (h ^ h >> 16) * UINT32_C(0x85EBCA6B);
        h = (h ^ h >> 13) * UINT32_C(0xC2B2AE35);
        out[i] = h ^ h >> 16;
    }
}

CLONES static void lowest(const uint32_t *h, Py_ssize_t n, const uint32_t *a, const uint32_t *b, uint32_t *low) {
    for (int p = 0; p < N_PERMUTATIONS; p++) {
        uint32_t least = low[p];
        for (Py_ssize_t i = 0; i < n; i++) {
            const uint32_t value = a[p] * h[i] + b[p];
            least = value < least ? value : least;
        }
        low[p] = least;
    }
}

static uint64_t SPREAD[256]; /* a byte's bits, each in a byte of its own */

/* Bits that more than half of the hashes have. */
static uint64_t majority(const uint64_t *hashes, Py_ssize_t n) {
    Py_ssize_t ones[64] = {0};
    uint64_t out = 0;
    for (Py_ssize_t i = 0; i < n;) {
        uint64_t sums[8] = {0};
        const Py_ssize_t stop = n - i < 255 ? n : i + 255; /* as many bits as a byte can count */
        for (; i < stop; i++)
            for (int part = 0; part < 8; part++) sums[part] += SPREAD[hashes[i] >> 8 * part & 255];
        for (int bit = 0; bit < 64; bit++) ones[bit] += (Py_ssize_t)(sums[bit / 8] >> 8 * (bit % 8) & 255);
    }
    for (int bit = 0; bit < 64; bit++) out |= (uint64_t)(2 * ones[bit] > n) << bit;
    return out;
}

PyDoc_STRVAR(signatures_doc,
"signatures(hashes, a, b)\n\n"
"(SimHash as a signed 64-bit integer, MinHash) of distinct 64-bit hashes. a, b: 128 32-bit factors and summands of the permutations; the MinHash is\n"
"as many 32-bit values.");

static PyObject *signatures(PyObject *self, PyObject *args) {
    enum { AT_ONCE = 1024 };
    Py_buffer hashes, a, b;
    uint32_t low[N_PERMUTATIONS], part[AT_ONCE];
    PyObject *out = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*", &hashes, &a, &b)) return NULL;
    if (hashes.len % 8 || (uintptr_t)hashes.buf % 8 || a.len != sizeof low || b.len != sizeof low || (uintptr_t)a.buf % 4 || (uintptr_t)b.buf % 4) {
        PyErr_SetString(PyExc_ValueError, "64-bit hashes, 128 32-bit factors and summands are wanted");
    } else {
        const Py_ssize_t n = hashes.len / 8;
        memset(low, 0xFF, sizeof low);
        for (Py_ssize_t i = 0; i < n; i += AT_ONCE) {
            const Py_ssize_t some = n - i < AT_ONCE ? n - i : AT_ONCE;
            finalised((const uint64_t *)hashes.buf + i, part, some);
            lowest(part, some, a.buf, b.buf, low);
        }
        out = Py_BuildValue("(Ly#)", (long long)majority(hashes.buf, n), (const char *)low, (Py_ssize_t)sizeof low);
    }
    PyBuffer_Release(&hashes);
    PyBuffer_Release(&a);
    PyBuffer_Release(&b);
    return out;
}

static PyMethodDef METHODS[] = {{"shingle_hashes", shingle_hashes, METH_VARARGS, shingle_hashes_doc}, {"normal_form", normal_form, METH_VARARGS, normal_form_doc}, {"signatures", signatures, METH_VARARGS, signatures_doc}, {0}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.native._prints", "Normal forms of texts, hashes of shingles and their signatures, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__prints(void) {
    const uint16_t one = 1;
    if (!*(const byte *)&one) return PyErr_Format(PyExc_ImportError, "signatures are stored little-endian"); /* the fallback turns them */
    for (int b = 0; b < 128; b++) IN_WORD[b] = (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z');
    for (int b = 0; b < 256; b++) {
        SPREAD[b] = 0;
        for (int bit = 0; bit < 8; bit++) SPREAD[b] |= (uint64_t)(b >> bit & 1) << 8 * bit;
    }
    if (!KNOWN && !(KNOWN = PyMem_RawCalloc(N_KNOWN, sizeof *KNOWN))) return PyErr_NoMemory();
    PyObject *module = PyModule_Create(&MODULE);
    if (module && PyModule_AddIntConstant(module, "API", API)) Py_CLEAR(module);
    return module;
}
