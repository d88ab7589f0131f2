/* selectolax's lexbor: its functions, the fields that are read directly, and the check that they are where they are said to be. */

#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "_text.h"

typedef struct { unsigned char *data; size_t length; } str_t;

typedef struct node {
    void *events;
    uintptr_t local_name, prefix, ns;
    void *document;
    struct node *next, *prev, *parent, *first_child, *last_child;
    void *user;
    uint32_t type;
} node_t;

typedef struct { node_t node; str_t data; } text_t;

typedef struct attr {
    node_t node;
    uintptr_t upper_name, qualified_name;
    str_t *value;
    void *owner;
    struct attr *next, *prev;
} attr_t;

typedef struct { node_t node; uintptr_t upper_name, qualified_name; str_t *is_value; attr_t *first; } element_t;

enum { ELEMENT_NODE = 1, TEXT_NODE = 3 };
enum { MAX_TAG = 512, MAX_NAME = 512 };

static void *(*document_create)(void);
static unsigned (*document_parse)(void *, const unsigned char *, size_t);
static void *(*document_destroy)(void *);
static node_t *(*document_element)(void *);
static node_t *(*first_child_of)(node_t *);
static node_t *(*last_child_of)(node_t *);
static node_t *(*next_of)(node_t *);
static node_t *(*parent_of)(node_t *);
static uintptr_t (*tag_of)(node_t *);
static attr_t *(*first_attribute_of)(node_t *);
static attr_t *(*next_attribute)(attr_t *);
static const unsigned char *(*tag_name)(node_t *, size_t *);
static const unsigned char *(*attribute_name)(attr_t *, size_t *);
static const unsigned char *(*attribute_value)(attr_t *, size_t *);
static node_t *(*create_element)(void *, const unsigned char *, size_t, void *);

static const struct { void **at; const char *name; } SYMBOLS[] = {
    {(void **)&document_create, "lxb_html_document_create"},
    {(void **)&document_parse, "lxb_html_document_parse"},
    {(void **)&document_destroy, "lxb_html_document_destroy"},
    {(void **)&document_element, "lxb_dom_document_element_noi"},
    {(void **)&first_child_of, "lxb_dom_node_first_child_noi"},
    {(void **)&last_child_of, "lxb_dom_node_last_child_noi"},
    {(void **)&next_of, "lxb_dom_node_next_noi"},
    {(void **)&parent_of, "lxb_dom_node_parent_noi"},
    {(void **)&tag_of, "lxb_dom_node_tag_id_noi"},
    {(void **)&first_attribute_of, "lxb_dom_element_first_attribute_noi"},
    {(void **)&next_attribute, "lxb_dom_element_next_attribute_noi"},
    {(void **)&tag_name, "lxb_dom_element_qualified_name"},
    {(void **)&attribute_name, "lxb_dom_attr_qualified_name"},
    {(void **)&attribute_value, "lxb_dom_attr_value_noi"},
    {(void **)&create_element, "lxb_dom_document_create_element"},
};

static attr_t *first_attribute(const node_t *element) { return ((const element_t *)element)->first; }

/* What walk.py says of each tag. */
typedef struct { PyObject *name; uint32_t flags; char known, block, named, wanted; } kind_t; /* wanted: 2 where addresses alone are asked for too */
static kind_t KINDS[MAX_TAG];
static PyObject *NAMES[MAX_NAME]; /* attribute names without a prefix, by id */
enum { HIDDEN, STYLE, HREF, REL, CLASS, ID, ALT, SRC, SRCSET, WIDTH, HEIGHT, POPOVER, OPEN, N_ATTRIBUTES };
static const char *const ATTRIBUTES[] = {"hidden", "style", "href", "rel", "class", "id", "alt", "src", "srcset", "width", "height", "popover", "open"};
static uintptr_t IDS[N_ATTRIBUTES]; /* lexbor's ids of these names; 0 where it has none that all documents share */
static uintptr_t A, AREA, BR, IMG, SOURCE, INPUT, TITLE, SCRIPT, META, LINK, FOREIGN_OBJECT, DESC, STYLE_TAG, HTML, BODY, MAIN, ARTICLE, DIALOG; /* tag ids */
static uint32_t SKIP, FOREIGN, INVISIBLE;
static PyTypeObject *BLOCK, *ANCHOR, *IMAGE; /* walk.py's tuples */
static PyObject *STYLE_CODE; /* walk.py's function */
static int ready;

static int refuse(const char *what) {
    PyErr_Format(PyExc_ImportError, "selectolax's lexbor is not laid out as expected: %s", what);
    return -1;
}

static int same_layout(node_t *n) {
    return n->first_child == first_child_of(n) && n->last_child == last_child_of(n) && n->next == next_of(n) && n->parent == parent_of(n) && n->local_name == tag_of(n);
}

/* lexbor's id of a tag; 0: it has none that all documents share. */
static uintptr_t tag_id(void *document, const char *name, size_t length) {
    node_t *made = create_element(document, (const unsigned char *)name, length, NULL);
    return made && made->local_name < MAX_TAG ? made->local_name : 0;
}

/* Compares the declared fields with lexbor's accessors on a page whose tree is known, and learns the attributes' ids. */
static int probe(void *document) {
    static const unsigned char page[] =
        "<html><body hidden style=s href=h rel=r class=c id=i alt=t src=s srcset=s width=w height=h popover=p open=o><p>probe</p><!--x--><a>y</a><svg><a xlink:href=z></a></svg></body></html>";
    if (document_parse(document, page, sizeof page - 1) != 0) return refuse("probe not parsed");
    node_t *html = document_element(document), *body = html ? last_child_of(html) : NULL, *p = body ? first_child_of(body) : NULL;
    node_t *comment = p ? next_of(p) : NULL, *a = comment ? next_of(comment) : NULL, *svg = a ? next_of(a) : NULL;
    node_t *text = p ? first_child_of(p) : NULL, *link = svg ? first_child_of(svg) : NULL;
    if (!link || !text) return refuse("tree");
    node_t *all[] = {html, body, p, comment, a, svg, text, link};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!same_layout(all[i])) return refuse("node");
    node_t *elements[] = {html, body, p, a, svg, link};
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (first_attribute(elements[i]) != first_attribute_of(elements[i])) return refuse("element");
    if (p->type != ELEMENT_NODE || comment->type == ELEMENT_NODE || text->type != TEXT_NODE || comment->type == TEXT_NODE) return refuse("type");
    str_t *data = &((text_t *)text)->data;
    if (data->length != 5 || memcmp(data->data, "probe", 5) != 0) return refuse("text");
    attr_t *at = first_attribute(body);
    for (int i = 0; i < N_ATTRIBUTES; i++, at = at->next) {
        size_t length = 0, name_length = 0;
        if (!at || next_attribute(at) != at->next || at->node.prefix) return refuse("attribute");
        const unsigned char *value = attribute_value(at, &length), *name = attribute_name(at, &name_length);
        if (!name || name_length != strlen(ATTRIBUTES[i]) || memcmp(name, ATTRIBUTES[i], name_length) != 0) return refuse("attribute name");
        if (i ? !at->value || at->value->data != value || at->value->length != length : value && length) return refuse("attribute value");
        if (at->node.local_name < MAX_NAME) IDS[i] = at->node.local_name; /* else it is one that each document names anew */
        if (at->qualified_name) return refuse("attribute id");
    }
    attr_t *prefixed = first_attribute(link);
    size_t length = 0;
    if (at || !prefixed || !(prefixed->node.prefix || prefixed->qualified_name)) return refuse("prefix");
    const unsigned char *name = attribute_name(prefixed, &length);
    if (!name || length != 10 || memcmp(name, "xlink:href", 10) != 0) return refuse("prefixed name");
    static const struct { uintptr_t *at; const char *name; } tags[] = {
        {&A, "a"}, {&AREA, "area"}, {&BR, "br"}, {&IMG, "img"}, {&SOURCE, "source"}, {&INPUT, "input"}, {&TITLE, "title"}, {&SCRIPT, "script"}, {&META, "meta"}, {&LINK, "link"}, {&DESC, "desc"},
        {&STYLE_TAG, "style"}, {&HTML, "html"}, {&BODY, "body"}, {&MAIN, "main"}, {&ARTICLE, "article"}, {&DIALOG, "dialog"}, {&FOREIGN_OBJECT, "foreignobject"},
    };
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!(*tags[i].at = tag_id(document, tags[i].name, strlen(tags[i].name)))) return refuse(tags[i].name);
    }
    return html->local_name == HTML && a->local_name == A ? 0 : refuse("tag id");
}

static int take_kind(void *document, PyObject *tag, PyObject *value) {
    unsigned flags;
    int block, named, wanted;
    Py_ssize_t length;
    const char *name = PyUnicode_AsUTF8AndSize(tag, &length);
    if (!name || !PyArg_ParseTuple(value, "Ippi", &flags, &block, &named, &wanted)) return -1;
    uintptr_t id = tag_id(document, name, (size_t)length);
    if (!id) return refuse(name);
    Py_INCREF(tag);
    Py_XSETREF(KINDS[id].name, tag);
    KINDS[id].flags = flags, KINDS[id].known = 1, KINDS[id].block = (char)block, KINDS[id].named = (char)named, KINDS[id].wanted = (char)wanted;
    return 0;
}

PyDoc_STRVAR(prepare_doc,
"prepare(library, kinds, (block, anchor, image), skip, foreign, invisible, style_code)\n\n"
"Takes lexbor's functions from selectolax's library (its path) and walk.py's table: tag -> (flags, is a block, its class and\n"
"id are read, 1: its attributes are wanted, 2: also where addresses alone are), the tuple types to make, and what reads\n"
"an inline style. Raises ImportError where the library is not laid out as this module was written for.");

static PyObject *prepare(PyObject *self, PyObject *args) {
    const char *path;
    PyObject *kinds, *tag, *value, *style_code;
    PyTypeObject *types[3];
    Py_ssize_t at = 0;
    if (!PyArg_ParseTuple(args, "sO!(O!O!O!)IIIO", &path, &PyDict_Type, &kinds, &PyType_Type, &types[0], &PyType_Type, &types[1], &PyType_Type, &types[2], &SKIP, &FOREIGN, &INVISIBLE, &style_code)) return NULL;
    for (int i = 0; i < 3; i++)
        if (!PyType_IsSubtype(types[i], &PyTuple_Type)) return PyErr_Format(PyExc_TypeError, "block, anchor and image are tuple types");
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) return PyErr_Format(PyExc_ImportError, "%s: %s", path, dlerror());
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++)
        if (!(*SYMBOLS[i].at = dlsym(library, SYMBOLS[i].name))) return PyErr_Format(PyExc_ImportError, "%s has no %s", path, SYMBOLS[i].name);
    void *document = document_create();
    if (!document) return PyErr_NoMemory();
    int failed = probe(document);
    while (!failed && PyDict_Next(kinds, &at, &tag, &value)) failed = take_kind(document, tag, value);
    document_destroy(document);
    if (failed) return NULL;
    Py_XSETREF(BLOCK, (PyTypeObject *)Py_NewRef(types[0]));
    Py_XSETREF(ANCHOR, (PyTypeObject *)Py_NewRef(types[1]));
    Py_XSETREF(IMAGE, (PyTypeObject *)Py_NewRef(types[2]));
    Py_XSETREF(STYLE_CODE, Py_NewRef(style_code));
    ready = 1;
    Py_RETURN_NONE;
}

static int is_attribute(attr_t *at, int which) {
    const uintptr_t id = at->node.local_name;
    if ((IDS[which] || id < MAX_NAME) && id != IDS[which]) return 0;
    if (at->node.prefix || at->qualified_name) return 0;
    if (IDS[which]) return 1;
    size_t length = 0;
    const unsigned char *name = attribute_name(at, &length);
    return name && length == strlen(ATTRIBUTES[which]) && memcmp(name, ATTRIBUTES[which], length) == 0;
}

static attr_t *attribute(node_t *node, int which) {
    for (attr_t *at = first_attribute(node); at; at = at->next)
        if (is_attribute(at, which)) return at;
    return NULL;
}

/* The attribute of this name as written, prefix included. */
static attr_t *named(node_t *node, const char *name) {
    for (attr_t *at = first_attribute(node); at; at = at->next) {
        size_t length = 0;
        const unsigned char *found = attribute_name(at, &length);
        if (found && length == strlen(name) && memcmp(found, name, length) == 0) return at;
    }
    return NULL;
}

static PyObject *value_of(attr_t *at) { return at && at->value ? decoded(at->value->data, at->value->length) : Py_NewRef(EMPTY); }

static PyObject *name_of(attr_t *at, known_t *known) {
    uintptr_t id = at->node.local_name;
    int plain = id < MAX_NAME && !at->node.prefix && !at->qualified_name;
    if (plain && NAMES[id]) return Py_NewRef(NAMES[id]);
    size_t length = 0;
    const unsigned char *name = attribute_name(at, &length);
    if (!plain) return known_text(known, name, length);
    PyObject *made = decoded(name, length);
    if (made) NAMES[id] = Py_NewRef(made);
    return made;
}

/* Attributes by their names as written; "" where there is no value. */
static PyObject *attributes_of(node_t *node, known_t *known) {
    PyObject *out = PyDict_New();
    for (attr_t *at = first_attribute(node); out && at; at = at->next) {
        PyObject *name = name_of(at, known), *value = value_of(at);
        if (!name || !value || PyDict_SetItem(out, name, value)) Py_CLEAR(out);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return out;
}

/* Text of a title or script element. */
static PyObject *raw_text(node_t *node) {
    buffer_t b = {0};
    PyObject *out = NULL;
    for (node_t *child = node->first_child; child; child = child->next)
        if (child->type == TEXT_NODE) {
            str_t *data = &((text_t *)child)->data;
            if (reserve(&b, data->length + 1)) goto done;
            if (data->length) memcpy(b.data + b.size, data->data, data->length);
            b.size += data->length;
        }
    out = decoded(b.data, b.size);
done:
    PyMem_Free(b.data);
    return out;
}
