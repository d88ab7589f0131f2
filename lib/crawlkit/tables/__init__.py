"""Every table: the one place of the schemas (docs/tables.md)."""

from crawlkit.tables import content_tables, derived_tables, frontier_tables, history_tables
from crawlkit.tables.schema import ARROW, FILES_DDL, Column, Table

_GROUPS = (frontier_tables, content_tables, derived_tables, history_tables)
TABLES: dict[str, Table] = {t.name: t for group in _GROUPS for t in group.TABLES}

__all__ = ["ARROW", "FILES_DDL", "TABLES", "Column", "Table"]
