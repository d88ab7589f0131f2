"""Spark's DDL ("a int, b array<struct<c: string>>") as Arrow types, for both engines."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from crawlkit.tables.schema import ARROW


def split_fields(ddl: str) -> list[tuple[str, str]]:
    """(name, type) of each field of a DDL; a struct's fields have a colon behind the name."""
    fields, depth, start = [], 0, 0
    for i, char in enumerate(f"{ddl},"):
        depth += (char == "<") - (char == ">")
        if char == "," and not depth:
            name, _, kind = ddl[start:i].strip().replace(":", " ", 1).partition(" ")
            fields.append((name.strip("`"), kind.strip()))
            start = i + 1
    return fields


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a type in DDL. Raises KeyError for one that is not known."""
    if kind in ARROW:
        return ARROW[kind]
    if kind == "smallint":  # of the view cc_index; no table of ours has one
        return pa.int16()
    outer, _, inner = kind.removesuffix(">").partition("<")
    if outer == "array":
        return pa.list_(arrow_type(inner))
    if outer == "struct":
        return pa.struct([(name, arrow_type(k)) for name, k in split_fields(inner)])
    raise KeyError(kind)


@lru_cache(100)
def arrow_schema(ddl: str) -> pa.Schema:
    """The Arrow schema of a DDL."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in split_fields(ddl)])
