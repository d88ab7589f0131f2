"""The object seam on S3 and stores that speak like it.

Nothing is overwritten by accident: puts are conditional (`If-None-Match: *`, `If-Match`), multipart
uploads are completed conditionally. Every call is tried again for `s3.give_up_s`. An attempt may
have been done although its answer was lost; so each conditional put carries an id of its own in the
object's metadata, and when the store says that the condition does not hold, a look at the object
tells whether it was ours, another's, or not so. Bodies travel with checksums that both sides
verify.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import mimetypes
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import boto3
import urllib3.exceptions
from botocore import exceptions as boto
from botocore.config import Config as BotoConfig

from crawlkit.adapters.store.objects import (
    ObjectMissing,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    key_parts,
)
from crawlkit.config import S3, ConfigError

T = TypeVar("T")
_PUT_ID = "put-id"
_READ_AHEAD = 1 << 20
_WHOLE_CALL = 4  # delta-rs' deadline of a call with its body, in s3.timeout_s
_PAGE = 1000  # rows of a listing's page, the most that S3 gives
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 3.0
_FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "EntityTooLarge"}
_NOT_MET = {"PreconditionFailed", "412"}
_AGAIN = {
    "ConditionalRequestConflict",
    "OperationAborted",
    "SlowDown",
    "RequestTimeout",
    "InternalError",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "RequestTimeTooSkewed",
    "BadDigest",
}
_MISSING = {"NoSuchKey", "404", "NotFound", "NoSuchUpload"}
_OURS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.NoRegionError,
    boto.ProfileNotFound,
    boto.ParamValidationError,
    boto.ConfigParseError,
    boto.TokenRetrievalError,
)
_SET_CREDENTIALS = (
    "set credentials by the AWS chain (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a"
    " role) and s3.region"
)
_FIXES = {
    "NoSuchBucket": "create the bucket, or correct its name in storage.*",
    "AccessDenied": (
        "give these credentials read, write, list and abort-upload rights on the prefix"
    ),
    "403": "give these credentials read, write, list and abort-upload rights on the prefix",
    "InvalidAccessKeyId": (
        "set credentials that this store knows (AWS_ACCESS_KEY_ID, a profile or a role)"
    ),
    "SignatureDoesNotMatch": "check the secret key, and s3.region",
    "PermanentRedirect": "set s3.region to the bucket's region",
    "AuthorizationHeaderMalformed": "set s3.region to the bucket's region",
    "NotImplemented": "this store has no conditional writes, which the crawler needs",
}


class _NotMet(Exception):
    """The condition of a put does not hold."""


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
        return self.compare_and_swap(key, data, None) is not None

    def put_file_if_absent(self, key: str, path: Path) -> bool:
        if path.stat().st_size <= self.cfg.part_bytes:
            return self.put_if_absent(key, path.read_bytes())
        return self._upload(key, path)

    def put(self, key: str, data: bytes) -> None:
        kind = (
            mimetypes.guess_type(key)[0] or "application/octet-stream"
        )  # the report is read by browsers
        self._ask("put", key, lambda c: c.put_object(**self._at(key), Body=data, ContentType=kind))

    def get(self, key: str) -> tuple[bytes, str]:
        def read(client: Any) -> tuple[bytes, str]:
            answer = client.get_object(**self._at(key))
            return answer["Body"].read(), answer["ETag"]

        return self._ask("get", key, read)

    def compare_and_swap(self, key: str, data: bytes, etag: str | None) -> str | None:
        put_id = uuid.uuid4().hex
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        try:
            return self._ask(
                "put",
                key,
                lambda c: c.put_object(
                    **self._at(key), Body=data, Metadata={_PUT_ID: put_id}, **condition
                )["ETag"],
                lambda maybe_done: self._settled(key, put_id, etag, maybe_done),
            )
        except _NotMet:
            return None

    def list(self, prefix: str = "") -> list[str]:
        keys: list[str] = []
        more: dict[str, str] = {}
        while True:
            page = self._ask(
                "list",
                prefix,
                lambda c, more=more: c.list_objects_v2(
                    Bucket=self.bucket, Prefix=self.prefix + prefix, MaxKeys=_PAGE, **more
                ),
            )
            keys += [row["Key"][len(self.prefix) :] for row in page.get("Contents", ())]
            if not page.get("IsTruncated"):
                return sorted(keys)
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def any(self, prefix: str) -> bool:
        """Whether some key begins with `prefix`."""
        return bool(
            self._ask(
                "list",
                prefix,
                lambda c: c.list_objects_v2(
                    Bucket=self.bucket, Prefix=self.prefix + prefix, MaxKeys=1
                ),
            ).get("Contents")
        )

    def delete(self, key: str) -> None:
        with contextlib.suppress(ObjectMissing):
            self._ask("delete", key, lambda c: c.delete_object(**self._at(key)))

    def open_range(self, key: str, offset: int = 0, length: int | None = None) -> BinaryIO:
        head = self._head(key)
        end = (
            head["ContentLength"] if length is None else min(offset + length, head["ContentLength"])
        )
        return io.BufferedReader(
            _Range(self, key, head["ETag"], offset, max(end, offset)), _READ_AHEAD
        )

    def size(self, key: str) -> int:
        return self._head(key)["ContentLength"]

    def modified(self, key: str) -> float:
        return self._head(key)["LastModified"].timestamp()

    def local_path(self, key: str) -> None:
        return None

    def unfinished(self) -> Iterator[tuple[str, str, float]]:
        """(key, upload id, Unix s of its begin) of multipart uploads that were neither completed
        nor aborted.
        """
        more: dict[str, str] = {}
        while True:
            page = self._ask(
                "list uploads",
                "",
                lambda c, more=more: c.list_multipart_uploads(
                    Bucket=self.bucket, Prefix=self.prefix, MaxUploads=_PAGE, **more
                ),
            )
            for row in page.get("Uploads", ()):
                yield row["Key"][len(self.prefix) :], row["UploadId"], row["Initiated"].timestamp()
            if not page.get("IsTruncated"):
                return
            more = {
                "KeyMarker": page["NextKeyMarker"],
                "UploadIdMarker": page["NextUploadIdMarker"],
            }

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
        try:
            return self._ask(
                "get",
                key,
                lambda c: c.get_object(
                    **self._at(key), IfMatch=etag, Range=f"bytes={offset}-{offset + length - 1}"
                )["Body"].read(),
            )
        except _NotMet:
            raise ObjectMissing(key) from None

    # -- multipart

    def _upload(self, key: str, path: Path) -> bool:
        put_id = uuid.uuid4().hex
        upload = self._ask(
            "begin upload of",
            key,
            lambda c: c.create_multipart_upload(
                **self._at(key), Metadata={_PUT_ID: put_id}, ChecksumAlgorithm="CRC32"
            )["UploadId"],
        )
        try:
            parts = []
            with open(path, "rb") as file:
                for number in itertools.count(1):
                    data = file.read(self.cfg.part_bytes)
                    if not data:
                        break
                    answer = self._ask(
                        "upload",
                        key,
                        lambda c, n=number, d=data: c.upload_part(
                            **self._at(key),
                            UploadId=upload,
                            PartNumber=n,
                            Body=d,
                            ChecksumAlgorithm="CRC32",
                        ),
                    )
                    parts.append(
                        {
                            "PartNumber": number,
                            "ETag": answer["ETag"],
                            **(
                                {"ChecksumCRC32": answer["ChecksumCRC32"]}
                                if "ChecksumCRC32" in answer
                                else {}
                            ),
                        }
                    )
            done = {"MultipartUpload": {"Parts": parts}, "UploadId": upload, "IfNoneMatch": "*"}
            self._ask(
                "complete upload of",
                key,
                lambda c: c.complete_multipart_upload(**self._at(key), **done)["ETag"],
                lambda maybe_done: self._settled(key, put_id, None, maybe_done),
            )
            return True
        except _NotMet:
            self._abort(key, upload)
            return False
        except BaseException:
            with contextlib.suppress(OSError):  # else the janitor's
                self._abort(key, upload)
            raise

    def _abort(self, key: str, upload: str) -> None:
        with contextlib.suppress(ObjectMissing):
            self._ask(
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
        return self._ask("look at", key, lambda c: c.head_object(**self._at(key)))

    def _settled(self, key: str, put_id: str, etag: str | None, maybe_done: bool) -> str | None:
        """What became of the put with this id, on which the store says that its condition (`etag`;
        None: absent) does not hold: its etag if it was done, None if it is to be tried again.

        Raises _NotMet; StoreUnavailable if an attempt was perhaps done (`maybe_done`) and then
        replaced by another's put.
        """
        try:
            head = self._head(key)
        except ObjectMissing:
            if etag is None:
                return None
            raise _NotMet from None
        if head.get("Metadata", {}).get(_PUT_ID) == put_id:
            return head["ETag"]
        if head["ETag"] == etag:
            return None
        if maybe_done and etag is not None:
            raise StoreUnavailable(
                f"{self}{key} was replaced by another while the answer to our own put was lost: it"
                " is not known whether that was done"
            )
        raise _NotMet

    def _ask(
        self,
        verb: str,
        key: str,
        call: Callable[[Any], T],
        settled: Callable[[bool], T | None] | None = None,
    ) -> T:
        """`call(client)`, again while the store does not answer.

        `settled(maybe_done)` is asked when the store denies a conditional put: the answer of an
        attempt that was done after all, or None to try again.

        Raises _NotMet, ObjectMissing, StoreFull, StoreRefused, StoreUnavailable.
        """
        give_up = time.monotonic() + self.cfg.give_up_s
        maybe_done = False
        for n in itertools.count():
            try:
                return call(_client(self.cfg, os.getpid()))
            except KeyError as e:  # a member that each answer of S3 has
                raise StoreRefused(
                    f"cannot {verb} {self}{key}: the answer is none of an S3 store, it lacks"
                    f" {e!s:.60}: check s3.endpoint_url"
                ) from None
            except (
                boto.BotoCoreError,
                boto.ClientError,
                urllib3.exceptions.HTTPError,
                ConnectionError,
                TimeoutError,
            ) as e:
                error, denied = e, self._translated(e, verb, key)
            if settled is not None and isinstance(denied, (_NotMet, ObjectMissing)):
                if (answer := settled(maybe_done)) is not None:
                    return answer
            elif denied is not None:
                raise denied from None
            maybe_done |= denied is None
            pause = min(_FIRST_PAUSE_S * 2**n, _LAST_PAUSE_S) * random.uniform(0.5, 1.0)
            if time.monotonic() + pause > give_up:
                raise StoreUnavailable(
                    f"cannot {verb} {self}{key} after {n + 1} attempts: {error!s:.300}; check that"
                    " the store is up and s3.endpoint_url is right"
                )
            time.sleep(pause)

    def _translated(self, e: Exception, verb: str, key: str) -> Exception | None:
        """What an error means; None: try again."""
        if isinstance(e, boto.ClientError):
            code, status = (
                str(e.response.get("Error", {}).get("Code", "")),
                int(e.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)),
            )
            if code in _NOT_MET:
                return _NotMet()
            if code in _MISSING:
                return ObjectMissing(key)
            if code in _FULL or status == 507:
                return StoreFull(f"no room left in the store {self}")
            if code in _AGAIN or status >= 500 or status == 429:
                return None
            return StoreRefused(
                f"cannot {verb} {self}{key}: {code or f'HTTP {status}'}"
                f" {e.response.get('Error', {}).get('Message', '')!s:.200}:"
                f" {_FIXES.get(code, 'see docs/s3.md')}"
            )
        if isinstance(e, _OURS):
            return StoreRefused(f"cannot {verb} {self}{key}: {e!s:.300}: {_SET_CREDENTIALS}")
        return None


class _Range(io.RawIOBase):
    """A readable, seekable stretch of one object; each read is a request."""

    def __init__(self, store: S3Objects, key: str, etag: str, begin: int, end: int) -> None:
        self._store, self._key, self._etag, self._begin, self._end = store, key, etag, begin, end
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end - self._begin}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, into: Any) -> int:
        length = min(len(into), self._end - self._begin - self._at)
        if length <= 0:
            return 0
        data = self._store.read_range(self._key, self._etag, self._begin + self._at, length)
        into[: len(data)] = data
        self._at += len(data)
        return len(data)


@lru_cache(maxsize=4)
def _session(pid: int) -> Any:
    """One session a process: it holds the credentials and renews those of a role."""
    return boto3.session.Session()


def region(cfg: S3) -> str:
    """s3.region, else as the AWS chain says."""
    return cfg.region or _session(os.getpid()).region_name or "us-east-1"


@lru_cache(maxsize=16)
def _client(cfg: S3, pid: int) -> Any:
    """One client a process (a forked one must not share sockets).

    Its own retries are off: they would hide a lost answer.
    """
    settings = BotoConfig(
        retries={"total_max_attempts": 1},
        connect_timeout=cfg.timeout_s,
        read_timeout=cfg.timeout_s,
        max_pool_connections=32,
        s3={"addressing_style": "path" if cfg.path_style else "auto"},
    )
    return _session(pid).client(
        "s3", endpoint_url=cfg.endpoint_url, region_name=region(cfg), config=settings
    )


def delta_options(cfg: S3) -> dict[str, str]:
    """delta-rs' storage options.

    It has the credentials that boto3 finds, since its own chain knows no profiles. Raises
    StoreRefused.
    """
    try:
        found = _session(os.getpid()).get_credentials()
        keys, where = found and found.get_frozen_credentials(), region(cfg)
    except _OURS as e:
        raise StoreRefused(f"no credentials for S3: {e!s:.300}: {_SET_CREDENTIALS}") from None
    if keys is None:
        raise StoreRefused(f"no credentials for S3: {_SET_CREDENTIALS}")
    options = {
        "aws_access_key_id": keys.access_key,
        "aws_secret_access_key": keys.secret_key,
        "aws_region": where,
        "aws_virtual_hosted_style_request": str(not cfg.path_style).lower(),
        "aws_conditional_put": "etag",
        "timeout": f"{_WHOLE_CALL * cfg.timeout_s}s",
        "connect_timeout": f"{cfg.timeout_s}s",
        "retry_timeout": f"{cfg.give_up_s}s",
        "max_retries": "100",
    }
    if keys.token:
        options["aws_session_token"] = keys.token
    if cfg.endpoint_url:
        options |= {
            "aws_endpoint": cfg.endpoint_url,
            "aws_allow_http": str(cfg.endpoint_url.startswith("http://")).lower(),
        }
    return options
