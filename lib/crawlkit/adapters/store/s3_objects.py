"""The object seam on S3 and compatible stores.

Nothing is overwritten by accident: puts are conditional (`If-None-Match: *`, `If-Match`), multipart
uploads are completed conditionally. Every call is tried again for `s3.give_up_s`. An attempt may
have been done although its answer was lost; so each conditional put carries an id of its own in the
object's metadata, and when the store denies the condition, a look at the object
shows whether it was ours, another's, or not so. Bodies travel with checksums that both sides
verify.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import mimetypes
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from crawlkit.adapters.store.objects import ObjectMissing, StoreUnavailable, key_parts
from crawlkit.adapters.store.s3_calls import Call, ConditionNotMet, call_s3
from crawlkit.config import S3, ConfigError

T = TypeVar("T")
_PUT_ID = "put-id"
_READ_AHEAD = 1 << 20
_PAGE = 1000  # rows of a listing's page, the most that S3 gives


@dataclass(frozen=True)
class S3Objects:
    """Objects below `prefix` (empty, or ending in `/`) of a bucket."""

    bucket: str
    prefix: str
    cfg: S3

    @classmethod
    def at(cls, place: str, cfg: S3) -> S3Objects:
        """The store at `s3://bucket/prefix`. Raises ConfigError."""
        scheme, _, rest = place.partition("://")
        bucket, _, prefix = rest.partition("/")
        prefix = prefix.strip("/")
        if scheme not in ("s3", "s3a") or not bucket:
            raise ConfigError(
                f"{place!r:.200} is no place for objects: expected a folder or s3://bucket/prefix"
            )
        return cls(bucket, prefix and prefix + "/", cfg)

    @property
    def root(self) -> str:
        """The place, as `open_objects` takes it."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """As Objects.put_if_absent."""
        return self.compare_and_swap(key, data, None) is not None

    def put_file_if_absent(self, key: str, path: Path) -> bool:
        """As Objects.put_file_if_absent; in parts if it is larger than s3.part_bytes."""
        if path.stat().st_size <= self.cfg.part_bytes:
            return self.put_if_absent(key, path.read_bytes())
        return self._upload(key, path)

    def put(self, key: str, data: bytes) -> None:
        """As Objects.put, with the media type of the key's suffix: browsers read the report."""
        kind = mimetypes.guess_type(key)[0] or "application/octet-stream"
        self._call("put", key, lambda c: c.put_object(**self._at(key), Body=data, ContentType=kind))

    def get(self, key: str) -> tuple[bytes, str]:
        """As Objects.get."""

        def read(client: Any) -> tuple[bytes, str]:
            answer = client.get_object(**self._at(key))
            return answer["Body"].read(), answer["ETag"]

        return self._call("get", key, read)

    def compare_and_swap(self, key: str, data: bytes, etag: str | None) -> str | None:
        """As Objects.compare_and_swap."""
        put_id = uuid.uuid4().hex
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}

        def put(client: Any) -> str:
            marks = {_PUT_ID: put_id}
            return client.put_object(**self._at(key), Body=data, Metadata=marks, **condition)[
                "ETag"
            ]

        try:
            return self._call(
                "put", key, put, lambda maybe_done: self._settle(key, put_id, etag, maybe_done)
            )
        except ConditionNotMet:
            return None

    def list(self, prefix: str = "") -> list[str]:
        """As Objects.list."""
        keys: list[str] = []
        more: dict[str, str] = {}
        while True:
            page = self._list_page(prefix, MaxKeys=_PAGE, **more)
            keys += [row["Key"][len(self.prefix) :] for row in page.get("Contents", ())]
            if not page.get("IsTruncated"):
                return sorted(keys)
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def any(self, prefix: str) -> bool:
        """Whether some key begins with `prefix`."""
        return bool(self._list_page(prefix, MaxKeys=1).get("Contents"))

    def _list_page(self, prefix: str, **limits: Any) -> dict[str, Any]:
        place = {"Bucket": self.bucket, "Prefix": self.prefix + prefix}
        return self._call("list", prefix, lambda c: c.list_objects_v2(**place, **limits))

    def delete(self, key: str) -> None:
        """As Objects.delete."""
        with contextlib.suppress(ObjectMissing):
            self._call("delete", key, lambda c: c.delete_object(**self._at(key)))

    def open_range(self, key: str, offset: int = 0, length: int | None = None) -> BinaryIO:
        """As Objects.open_range."""
        head = self._head(key)
        size = head["ContentLength"]
        end = size if length is None else min(offset + length, size)
        stretch = _Range(self, key, head["ETag"], offset, max(end, offset))
        return io.BufferedReader(stretch, _READ_AHEAD)

    def size(self, key: str) -> int:
        """As Objects.size."""
        return self._head(key)["ContentLength"]

    def modified(self, key: str) -> float:
        """As Objects.modified."""
        return self._head(key)["LastModified"].timestamp()

    def local_path(self, key: str) -> None:
        """None: no object is on this machine's disk."""
        return None

    def unfinished(self) -> Iterator[tuple[str, str, float]]:
        """Multipart uploads that were neither completed nor aborted.

        Of each the key, the upload id and the Unix s of its begin.
        """
        more: dict[str, str] = {}
        while True:
            page = self._uploads_page(more)
            for row in page.get("Uploads", ()):
                yield row["Key"][len(self.prefix) :], row["UploadId"], row["Initiated"].timestamp()
            if not page.get("IsTruncated"):
                return
            more = {
                "KeyMarker": page["NextKeyMarker"],
                "UploadIdMarker": page["NextUploadIdMarker"],
            }

    def _uploads_page(self, more: dict[str, str]) -> dict[str, Any]:
        place = {"Bucket": self.bucket, "Prefix": self.prefix, "MaxUploads": _PAGE}
        return self._call("list uploads", "", lambda c: c.list_multipart_uploads(**place, **more))

    def abort_unfinished(self, begun_before: float) -> int:
        """Abort multipart uploads that began before a time (Unix s); how many.

        Their bytes cost money and no listing shows them.
        """
        found = [(key, upload) for key, upload, begun in self.unfinished() if begun < begun_before]
        for key, upload in found:
            self._abort(key, upload)
        return len(found)

    def read_range(self, key: str, etag: str, offset: int, length: int) -> bytes:
        """`length` bytes of the object that had this etag.

        Raises ObjectMissing if it is another by now.
        """
        stretch = f"bytes={offset}-{offset + length - 1}"

        def read(client: Any) -> bytes:
            return client.get_object(**self._at(key), IfMatch=etag, Range=stretch)["Body"].read()

        try:
            return self._call("get", key, read)
        except ConditionNotMet:
            raise ObjectMissing(key) from None

    # -- multipart

    def _upload(self, key: str, path: Path) -> bool:
        """Store a file in parts; False if the key exists."""
        put_id = uuid.uuid4().hex
        upload = self._begin_upload(key, put_id)
        try:
            parts = self._upload_parts(key, upload, path)
            self._complete_upload(key, put_id, upload, parts)
            return True
        except ConditionNotMet:
            self._abort(key, upload)
            return False
        except BaseException:
            with contextlib.suppress(OSError):  # else the janitor's
                self._abort(key, upload)
            raise

    def _begin_upload(self, key: str, put_id: str) -> str:
        settings = {"Metadata": {_PUT_ID: put_id}, "ChecksumAlgorithm": "CRC32"}
        return self._call(
            "begin upload of",
            key,
            lambda c: c.create_multipart_upload(**self._at(key), **settings)["UploadId"],
        )

    def _upload_parts(self, key: str, upload: str, path: Path) -> Sequence[dict[str, Any]]:
        """Send a file's parts; what the completion lists of each."""
        parts = []
        with open(path, "rb") as file:
            for number in itertools.count(1):
                data = file.read(self.cfg.part_bytes)
                if not data:
                    break
                parts.append(self._upload_part(key, upload, number, data))
        return parts

    def _upload_part(self, key: str, upload: str, number: int, data: bytes) -> dict[str, Any]:
        part = {"UploadId": upload, "PartNumber": number, "ChecksumAlgorithm": "CRC32"}
        answer = self._call(
            "upload", key, lambda c: c.upload_part(**self._at(key), Body=data, **part)
        )
        listed = {"PartNumber": number, "ETag": answer["ETag"]}
        if "ChecksumCRC32" in answer:
            listed["ChecksumCRC32"] = answer["ChecksumCRC32"]
        return listed

    def _complete_upload(
        self, key: str, put_id: str, upload: str, parts: Sequence[dict[str, Any]]
    ) -> None:
        """Make the object of its parts. Raises ConditionNotMet if the key exists."""
        done = {"MultipartUpload": {"Parts": parts}, "UploadId": upload, "IfNoneMatch": "*"}
        self._call(
            "complete upload of",
            key,
            lambda c: c.complete_multipart_upload(**self._at(key), **done)["ETag"],
            lambda maybe_done: self._settle(key, put_id, None, maybe_done),
        )

    def _abort(self, key: str, upload: str) -> None:
        with contextlib.suppress(ObjectMissing):
            self._call(
                "abort upload of",
                key,
                lambda c: c.abort_multipart_upload(**self._at(key), UploadId=upload),
            )

    # -- one call

    def _at(self, key: str) -> dict[str, str]:
        full = self.prefix + "/".join(key_parts(key))
        if len(full.encode()) > 1024:
            raise ValueError(f"key of more than 1024 bytes: {full!r:.200}")
        return {"Bucket": self.bucket, "Key": full}

    def _head(self, key: str) -> dict[str, Any]:
        return self._call("look at", key, lambda c: c.head_object(**self._at(key)))

    def _settle(self, key: str, put_id: str, etag: str | None, maybe_done: bool) -> str | None:
        """What became of a put whose condition (`etag`; None: absent) the store denies.

        Its etag if it was done, None if it is to be tried again. Raises ConditionNotMet;
        StoreUnavailable if an attempt was perhaps done (`maybe_done`) and then replaced by
        another's put.
        """
        try:
            head = self._head(key)
        except ObjectMissing:
            if etag is None:
                return None
            raise ConditionNotMet from None
        if head.get("Metadata", {}).get(_PUT_ID) == put_id:
            return head["ETag"]
        if head["ETag"] == etag:
            return None
        if maybe_done and etag is not None:
            raise StoreUnavailable(
                f"{self}{key} was replaced by another while the answer to our own put was lost: it"
                " is not known whether that was done"
            )
        raise ConditionNotMet

    def _call(
        self,
        verb: str,
        key: str,
        send: Callable[[Any], T],
        settle: Callable[[bool], T | None] | None = None,
    ) -> T:
        """As call_s3."""
        return call_s3(self.cfg, Call(verb, str(self), key), send, settle)


class _Range(io.RawIOBase):
    """A readable, seekable stretch of one object; each read is a request."""

    def __init__(self, store: S3Objects, key: str, etag: str, begin: int, end: int) -> None:
        self._store = store
        self._key = key
        self._etag = etag
        self._begin = begin
        self._end = end
        self._at = 0

    def readable(self) -> bool:
        """True (io.RawIOBase)."""
        return True

    def seekable(self) -> bool:
        """True (io.RawIOBase)."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move within the stretch; the new position (io.RawIOBase)."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end - self._begin}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        """The position in the stretch (io.RawIOBase)."""
        return self._at

    def readinto(self, into: Any) -> int:
        """Read on; the number of bytes, 0 at the end (io.RawIOBase). Raises ObjectMissing."""
        length = min(len(into), self._end - self._begin - self._at)
        if length <= 0:
            return 0
        data = self._store.read_range(self._key, self._etag, self._begin + self._at, length)
        into[: len(data)] = data
        self._at += len(data)
        return len(data)
