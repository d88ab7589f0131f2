/* The walk over a lexbor tree, in C: the same values as its pure-Python fallback (rules/page/walk.py).
 *
 * The tree is selectolax's. Its lexbor is reached through the symbols that selectolax's library exports; the few fields
 * read directly (next, children, text) are compared with lexbor's own accessors on a probe page when `prepare` is called,
 * and a library laid out otherwise is refused there: the fallback then does the work. Nothing here recurses, writes to the
 * tree or keeps a pointer into it beyond a call. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_lexbor.h"

typedef struct { PyObject *tag, *href, *rel, *block; size_t block_size; buffer_t text; int pieces; uint32_t flags; } anchor_t; /* block: the text of one that was the same */
typedef struct { Py_ssize_t element, anchor; uint32_t flags; const node_t *apart; } state_t; /* what an element's children inherit; apart: the innermost that an inline style sets apart */

enum { API = 2 }; /* of prepare and walk: native/__init__.py */
enum { N_NUMBERS = 64, N_SHARED = 64, MAX_STYLE_BYTES = 1000000 }; /* the last: of a page's inline styles that are read (walk.py) */

typedef struct {
    PyObject *blocks, *elements, *metas, *wanted;
    anchor_t *anchors;
    Py_ssize_t n_anchors, room_anchors, max_anchors, max_anchor_chars, dropped;
    state_t *states; /* by depth */
    size_t depth, room_states, style_bytes;
    buffer_t scratch;
    buffer_t text; /* the open block: its text; `place` where it stands, `linked` characters of links in it */
    state_t place;
    Py_ssize_t linked;
    int with_text;
    known_t known;
    PyObject *numbers[N_NUMBERS]; /* indices and flags made before: most come again */
    Py_ssize_t numbered[N_NUMBERS];
    struct { Py_ssize_t parent; PyObject *name, *names, *tuple; } shared[N_SHARED]; /* elements that differ in nothing, as items of a list, are one tuple; borrowed from `elements` */
    uintptr_t others[64]; /* ids of attributes that are neither `hidden` nor `popover` */
} walk_t;

static int appended(PyObject *list, PyObject *item) {
    if (!item) return -1;
    int failed = PyList_Append(list, item);
    Py_DECREF(item);
    return failed;
}

static PyObject *number(walk_t *w, Py_ssize_t n) {
    size_t place = (size_t)n % N_NUMBERS;
    if (!w->numbers[place] || w->numbered[place] != n) {
        Py_XSETREF(w->numbers[place], PyLong_FromSsize_t(n));
        w->numbered[place] = n;
    }
    return Py_XNewRef(w->numbers[place]);
}

/* A tuple of `type` that takes over its `n` items (NULL among them: an error that is set). */
static PyObject *tuple_of(PyTypeObject *type, Py_ssize_t n, PyObject **items) {
    int whole = 1;
    for (Py_ssize_t i = 0; i < n; i++) whole = whole && items[i];
    PyObject *out = !whole ? NULL : type == &PyTuple_Type ? PyTuple_New(n) : (PyObject *)PyObject_GC_NewVar(PyTupleObject, type, n);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (out) PyTuple_SET_ITEM(out, i, items[i]);
        else Py_XDECREF(items[i]);
    }
    if (out && type == &PyTuple_Type) PyObject_GC_UnTrack(out); /* strings, numbers and dicts of strings: nothing for the collector to follow */
    return out;
}

/* Makes the open block's text a block, if there is any. */
static int close_block(walk_t *w) {
    buffer_t *b = &w->text;
    int failed = 0;
    if (b->size) {
        PyObject *text = text_of(b);
        anchor_t *last = w->n_anchors ? &w->anchors[w->n_anchors - 1] : NULL;
        if (text && last && last->text.size == b->size && memcmp(last->text.data, b->data, b->size) == 0) {
            Py_XSETREF(last->block, Py_NewRef(text));
            last->block_size = b->size;
        }
        PyObject *items[] = {text, number(w, w->place.element), number(w, w->place.flags), PyLong_FromSsize_t(w->linked < b->chars ? w->linked : b->chars)};
        failed = appended(w->blocks, tuple_of(BLOCK, 4, items));
    }
    b->size = 0, b->chars = 0, b->space = 0, b->lead = 0;
    return failed;
}

static int anchor_text(walk_t *w, Py_ssize_t index, const unsigned char *text, size_t length) {
    anchor_t *a = &w->anchors[index];
    if (a->pieces++ >= 100) return 0;
    return add(&a->text, text, length, w->max_anchor_chars) < 0 ? -1 : 0;
}

static int note_anchor(walk_t *w, node_t *node, state_t *state) {
    PyObject *href = NULL, *rel = NULL;
    attr_t *at = attribute(node, HREF);
    if (at) {
        href = value_of(at);
    } else if (state->flags & FOREIGN) {
        if ((at = named(node, "xlink:href"))) href = value_of(at);
    }
    if (!href) return PyErr_Occurred() ? -1 : 0;
    if (w->n_anchors == w->max_anchors) {
        Py_DECREF(href);
        w->dropped++;
        return 0;
    }
    if (w->n_anchors == w->room_anchors) {
        Py_ssize_t room = w->room_anchors ? 2 * w->room_anchors : 128;
        anchor_t *grown = PyMem_Realloc(w->anchors, (size_t)room * sizeof *grown);
        if (!grown) { Py_DECREF(href); PyErr_NoMemory(); return -1; }
        w->anchors = grown, w->room_anchors = room;
    }
    at = attribute(node, REL);
    if (!(rel = at && at->value ? known_text(&w->known, at->value->data, at->value->length) : Py_NewRef(EMPTY))) { Py_DECREF(href); return -1; }
    anchor_t *a = &w->anchors[w->n_anchors++];
    *a = (anchor_t){Py_NewRef(KINDS[node->local_name].name), href, rel, NULL, 0, {0}, 0, w->with_text ? state->flags : 0};
    if (node->local_name == A) {
        state->anchor = w->n_anchors - 1;
    } else if (w->with_text) {
        attr_t *alt = attribute(node, ALT);
        if (alt && alt->value && anchor_text(w, w->n_anchors - 1, alt->value->data, alt->value->length)) return -1;
        w->anchors[w->n_anchors - 1].pieces = 1;
    }
    return 0;
}

/* Whether `part` (lower case) stands in a value, in either case. */
static int holds(const str_t *value, const char *part) {
    size_t want = strlen(part), same;
    for (size_t i = 0; value && i + want <= value->length; i++) {
        for (same = 0; same < want; same++) {
            unsigned char c = value->data[i + same];
            if ((c >= 'A' && c <= 'Z' ? c | 0x20 : c) != (unsigned char)part[same]) break;
        }
        if (same == want) return 1;
    }
    return 0;
}

static int says(node_t *node, const char *name, const char *part) {
    attr_t *at = named(node, name);
    return at && holds(at->value, part);
}

static int is_image_button(node_t *node) {
    attr_t *type = named(node, "type");
    return type && type->value && type->value->length == 5 && holds(type->value, "image");
}

/* Whether a link element names a page or a feed (walk.py, LINK_RELS): stylesheets, icons and hints are not noted. */
static int names_page(node_t *node) {
    static const char *const rels[] = {"canonical", "alternate", "amphtml", "next", "prev", "hub", "self"};
    attr_t *rel = attribute(node, REL);
    for (size_t i = 0; rel && i < sizeof rels / sizeof *rels; i++)
        if (holds(rel->value, rels[i])) return 1;
    return 0;
}

/* An img element as walk.py's Image. */
static PyObject *image_of(node_t *node) {
    static const int parts[] = {SRC, SRCSET, ALT, WIDTH, HEIGHT};
    PyObject *items[5];
    for (int i = 0; i < 5; i++) items[i] = value_of(attribute(node, parts[i]));
    return tuple_of(IMAGE, 5, items);
}

/* Notes an element that says more than its text. */
static int note(walk_t *w, node_t *node, state_t *state) {
    uintptr_t tag = node->local_name;
    if (tag == A || tag == AREA) return note_anchor(w, node, state);
    if (tag == SCRIPT && !says(node, "type", "ld+json")) return 0;
    if (tag == INPUT && !is_image_button(node)) return 0;
    if (tag == META && !w->with_text && !named(node, "http-equiv")) return 0;
    if (tag == LINK && !names_page(node)) return 0;
    if (tag == META) {
        PyObject *items[] = {attributes_of(node, &w->known), number(w, state->flags)};
        return appended(w->metas, tuple_of(&PyTuple_Type, 2, items));
    }
    if (tag == IMG) {
        if (appended(w->wanted, image_of(node))) return -1;
    } else {
        PyObject *items[] = {Py_NewRef(KINDS[tag].name), attributes_of(node, &w->known), number(w, state->flags), tag == TITLE || tag == SCRIPT ? raw_text(node) : Py_NewRef(EMPTY)};
        if (appended(w->wanted, tuple_of(&PyTuple_Type, 4, items))) return -1;
    }
    if (state->anchor >= 0 && (tag == IMG || tag == INPUT || (tag == SOURCE && named(node, "srcset")))) {
        attr_t *alt = attribute(node, ALT);
        if (alt && alt->value && alt->value->length) {
            anchor_t *a = &w->anchors[state->anchor];
            if (a->pieces < 100) a->text.space = a->text.chars > 0;
            if (anchor_text(w, state->anchor, alt->value->data, alt->value->length)) return -1;
            a->text.space = a->text.chars > 0;
        }
    }
    return 0;
}

/* Class and id of an element, a space between them. */
static PyObject *names_of(walk_t *w, node_t *node) {
    attr_t *found[] = {attribute(node, CLASS), attribute(node, ID)};
    buffer_t *b = &w->scratch;
    b->size = 0;
    for (int i = 0; i < 2; i++) {
        str_t *value = found[i] ? found[i]->value : NULL;
        size_t length = value && value->data ? value->length : 0;
        if (reserve(b, length + 1)) return NULL;
        if (length) memcpy(b->data + b->size, value->data, length);
        b->size += length;
        if (!i) b->data[b->size++] = ' ';
    }
    return known_text(&w->known, b->data, b->size);
}

/* HIDDEN, POPOVER, STYLE or -1: what an attribute is. Each document names the first two anew: names looked at before need no second look. */
static int hiding_attribute(walk_t *w, attr_t *at) {
    uintptr_t id = at->node.local_name, *known = &w->others[(id >> 4) % 64];
    if (is_attribute(at, STYLE)) return STYLE;
    if (*known == id) return -1;
    if (is_attribute(at, HIDDEN)) return HIDDEN;
    if (is_attribute(at, POPOVER)) return POPOVER;
    if (id >= MAX_NAME) *known = id;
    return -1;
}

/* Whether a value is this word, in either case. */
static int is_word(const str_t *value, const char *word) { return value && value->length == strlen(word) && holds(value, word); }

/* What an inline style says (walk.py, style_code): display + 4 * visibility; -1: an error is set. */
enum { SAID_NOTHING, SAID_HIDDEN, SAID_VISIBLE, SAID_APART };

static long style_code(walk_t *w, const str_t *style) {
    if ((!holds(style, "display") && !holds(style, "visibility")) || (w->style_bytes += style->length) > MAX_STYLE_BYTES) return SAID_NOTHING;
    PyObject *text = known_text(&w->known, style->data, style->length), *code = text ? PyObject_CallOneArg(STYLE_CODE, text) : NULL;
    const long said = code ? PyLong_AsLong(code) : -1;
    Py_XDECREF(text);
    Py_XDECREF(code);
    return said;
}

/* SKIP, INVISIBLE and `apart` as an element's own attributes say; -1: an error is set. */
static int seen(walk_t *w, node_t *node, state_t *state) {
    uintptr_t tag = node->local_name;
    long said = SAID_NOTHING;
    int hidden = tag == DIALOG && !attribute(node, OPEN);
    if (tag == HTML || tag == BODY || tag == MAIN || tag == ARTICLE) return 0;
    for (attr_t *at = first_attribute(node); at; at = at->next) {
        const int what = hiding_attribute(w, at);
        if (what < 0) continue; /* most: their values are not touched */
        if (what == STYLE && (said = style_code(w, at->value)) < 0) return -1;
        hidden = hidden || (what == HIDDEN && !is_word(at->value, "until-found")) || (what == POPOVER && tag != DIALOG);
    }
    const long display = said & 3, visibility = said >> 2;
    if (visibility) state->flags = visibility == SAID_HIDDEN ? state->flags | INVISIBLE : state->flags & ~INVISIBLE;
    if (display == SAID_HIDDEN || (hidden && display == SAID_NOTHING)) state->flags |= SKIP;
    else if (display == SAID_APART) state->apart = node;
    return 0;
}

static int text_node(walk_t *w, node_t *node, const state_t *state) {
    str_t *data = &((text_t *)node)->data;
    const unsigned char *at = data->data, *end = at + data->length;
    size_t n;
    if (!at || !data->length) return 0;
    while (at < end && (n = space_at(at, end)))
        for (at += n; end - at >= 8 && is_blank(at);) at += 8;
    if (at == end) { /* most are: a space, wherever it stands */
        w->text.space = w->text.size > 0;
        if (w->n_anchors && w->text.size) {
            anchor_t *last = &w->anchors[w->n_anchors - 1];
            if (last->pieces++ < 100) last->text.space = last->text.chars > 0;
        }
        return 0;
    }
    if (state->flags & (SKIP | INVISIBLE)) return 0;
    if (state->element != w->place.element) {
        if (close_block(w)) return -1;
        w->place = *state, w->linked = 0;
    } else if (state->apart != w->place.apart) {
        w->text.space = w->text.size > 0;
        w->place.apart = state->apart;
    }
    Py_ssize_t read = add(&w->text, data->data, data->length, 0);
    if (read < 0) return -1;
    if (state->anchor >= 0) {
        w->linked += read;
        return anchor_text(w, state->anchor, data->data, data->length);
    }
    return 0;
}

/* Whether an element has one of these names, for tags of which lexbor has no shared id. */
static int is_named(node_t *node, const char *const *names, size_t n) {
    size_t length = 0;
    const unsigned char *name = tag_name(node, &length);
    for (size_t i = 0; name && i < n; i++)
        if (strlen(names[i]) == length && memcmp(name, names[i], length) == 0) return 1;
    return 0;
}

/* The state of an element inside svg or math. */
static int foreign(walk_t *w, node_t *node, state_t *state) {
    static const char *const unseen[] = {"metadata", "annotation", "annotation-xml"}, *const words[] = {"mi", "mo", "mn", "ms", "mtext"};
    uintptr_t tag = node->local_name;
    if (tag == FOREIGN_OBJECT || is_named(node, words, 5)) state->flags &= ~FOREIGN;
    else if (tag == TITLE || tag == DESC || tag == STYLE_TAG || tag == SCRIPT || is_named(node, unseen, 3)) state->flags |= SKIP;
    else if (tag == A) return note_anchor(w, node, state);
    return 0;
}

/* Takes over `names`. */
static int note_element(walk_t *w, Py_ssize_t parent, PyObject *name, PyObject *names) {
    size_t place = ((uintptr_t)name / 64 + (uintptr_t)names / 16 + (size_t)parent) % N_SHARED;
    if (w->shared[place].tuple && w->shared[place].parent == parent && w->shared[place].name == name && w->shared[place].names == names) {
        Py_DECREF(names);
        return PyList_Append(w->elements, w->shared[place].tuple);
    }
    PyObject *items[] = {number(w, parent), Py_NewRef(name), names}, *made = tuple_of(&PyTuple_Type, 3, items);
    if (appended(w->elements, made)) return -1;
    w->shared[place].parent = parent, w->shared[place].name = name, w->shared[place].names = names, w->shared[place].tuple = made;
    return 0;
}

static int element_node(walk_t *w, node_t *node, state_t *state) {
    uintptr_t tag = node->local_name;
    const kind_t *kind = tag < MAX_TAG && KINDS[tag].known ? &KINDS[tag] : NULL;
    if (state->flags & FOREIGN) {
        if (foreign(w, node, state)) return -1;
    } else if (kind) {
        state->flags |= kind->flags;
        if (kind->block && w->with_text) {
            PyObject *names = kind->named && first_attribute(node) ? names_of(w, node) : Py_NewRef(EMPTY);
            if (note_element(w, state->element, kind->name, names)) return -1;
            state->element = PyList_GET_SIZE(w->elements) - 1;
            if (close_block(w)) return -1;
            w->place = *state, w->linked = 0;
        } else if (tag == BR) {
            w->text.space = w->text.size > 0;
            return 0;
        }
        if (kind->wanted + w->with_text > 1 && note(w, node, state)) return -1;
    }
    return w->with_text ? seen(w, node, state) : 0;
}

static int run(walk_t *w, node_t *root) {
    node_t *node = root;
    for (;;) {
        if (w->depth + 2 > w->room_states) {
            size_t room = w->room_states ? 2 * w->room_states : 256;
            state_t *grown = PyMem_Realloc(w->states, room * sizeof *grown);
            if (!grown) { PyErr_NoMemory(); return -1; }
            if (!w->room_states) grown[0] = w->place;
            w->states = grown, w->room_states = room;
        }
        const state_t *above = &w->states[w->depth];
        if (node->type == TEXT_NODE) {
            if (w->with_text && text_node(w, node, above)) return -1;
        } else if (node->type == ELEMENT_NODE) {
            w->states[w->depth + 1] = *above;
            if (element_node(w, node, &w->states[w->depth + 1])) return -1;
            if (node->first_child) {
                node = node->first_child, w->depth++;
                continue;
            }
        }
        while (!node->next) {
            if (node == root || !node->parent || !w->depth) return close_block(w);
            node = node->parent, w->depth--;
        }
        if (node == root) return close_block(w);
        node = node->next;
    }
}

static PyObject *anchors_of(walk_t *w) {
    PyObject *out = PyList_New(w->n_anchors);
    for (Py_ssize_t i = 0; out && i < w->n_anchors; i++) {
        anchor_t *a = &w->anchors[i];
        PyObject *text = a->block && a->block_size == a->text.size ? Py_NewRef(a->block) : text_of(&a->text);
        PyObject *items[] = {Py_NewRef(a->tag), Py_NewRef(a->href), Py_NewRef(a->rel), text, number(w, a->flags)};
        PyObject *made = tuple_of(ANCHOR, 5, items);
        if (made) PyList_SET_ITEM(out, i, made);
        else Py_CLEAR(out);
    }
    return out;
}

PyDoc_STRVAR(walk_doc,
"walk(root, text, max_anchors, max_anchor_chars)\n\n"
"One pass over the tree below `root` (mem_id of a node that the caller keeps alive). `text`: blocks and elements too, else\n"
"addresses only. Returns (blocks, elements, anchors, meta elements as (attributes, flags), other wanted elements as (tag, attributes,\n"
"flags, text) or images, anchors dropped).");

static PyObject *walk(PyObject *self, PyObject *args) {
    unsigned long long root;
    walk_t w = {.place = {0, -1, 0, NULL}};
    PyObject *anchors = NULL, *out = NULL;
    if (!PyArg_ParseTuple(args, "Kpnn", &root, &w.with_text, &w.max_anchors, &w.max_anchor_chars)) return NULL;
    if (!ready || !root) return PyErr_Format(PyExc_ValueError, "prepare() was not called, or there is no root");
    w.blocks = PyList_New(0), w.elements = PyList_New(0), w.metas = PyList_New(0), w.wanted = PyList_New(0);
    if (w.blocks && w.elements && w.metas && w.wanted && !appended(w.elements, Py_BuildValue("(isO)", 0, "#document", EMPTY)) && !run(&w, (node_t *)(uintptr_t)root))
        anchors = anchors_of(&w);
    if (anchors) out = Py_BuildValue("(OOOOOn)", w.blocks, w.elements, anchors, w.metas, w.wanted, w.dropped);
    Py_XDECREF(w.blocks);
    Py_XDECREF(w.elements);
    Py_XDECREF(w.metas);
    Py_XDECREF(w.wanted);
    Py_XDECREF(anchors);
    for (Py_ssize_t i = 0; i < w.n_anchors; i++) {
        Py_XDECREF(w.anchors[i].tag);
        Py_XDECREF(w.anchors[i].href);
        Py_XDECREF(w.anchors[i].rel);
        Py_XDECREF(w.anchors[i].block);
        PyMem_Free(w.anchors[i].text.data);
    }
    for (int i = 0; i < N_NUMBERS; i++) Py_XDECREF(w.numbers[i]);
    forget(&w.known);
    PyMem_Free(w.anchors);
    PyMem_Free(w.states);
    PyMem_Free(w.text.data);
    PyMem_Free(w.scratch.data);
    return out;
}

static PyMethodDef METHODS[] = {{"prepare", prepare, METH_VARARGS, prepare_doc}, {"walk", walk, METH_VARARGS, walk_doc}, {0}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "crawlkit.native._tree", "The walk over a lexbor tree, in C.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__tree(void) {
    PyObject *module = (EMPTY = PyUnicode_FromString("")) ? PyModule_Create(&MODULE) : NULL;
    if (module && PyModule_AddIntConstant(module, "API", API)) Py_CLEAR(module);
    return module;
}
