"""Reading single records out of the WARC store, as captures point at them."""

from __future__ import annotations

from typing import BinaryIO

from crawlkit.adapters.store.objects import ObjectMissing, Objects
from crawlkit.adapters.warc.reader import read_record
from crawlkit.outcomes import Reason, Refused


class RecordReader:
    """(file, offset, length) -> (HTTP headers, payload).

    It keeps the last file open, since captures are read in file order.
    """

    def __init__(self, warcs: Objects) -> None:
        self._warcs = warcs
        self._name: str | None = None
        self._file: BinaryIO | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_warcs": self._warcs, "_name": None, "_file": None}

    def __call__(self, name: str, offset: int, length: int) -> tuple[list[tuple[str, str]], bytes]:
        """Raises Refused (WARC_DAMAGED)."""
        if name != self._name:
            if self._file is not None:
                self._file.close()
            try:
                self._file = self._warcs.open_range(name)
            except ObjectMissing:
                raise Refused(Reason.WARC_DAMAGED, f"{name} is missing") from None
            self._name = name
        assert self._file is not None
        record = read_record(self._file, offset, length)
        return record.http_headers, record.payload
