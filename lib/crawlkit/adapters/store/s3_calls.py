"""One call of S3: repeated while the store does not answer, its errors translated.

An attempt may have been done although its answer was lost (docs/decisions/008-lost-answers.md); so
the caller finds out, and the SDK's own retries are off.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import urllib3.exceptions
from botocore import exceptions as boto

from crawlkit.adapters.store.objects import (
    ObjectMissing,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from crawlkit.adapters.store.s3_client import LOCAL_ERRORS, SET_CREDENTIALS, client_of
from crawlkit.config import S3

T = TypeVar("T")
log = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 3.0
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


_CALL_ERRORS = (
    boto.BotoCoreError,
    boto.ClientError,
    urllib3.exceptions.HTTPError,
    ConnectionError,
    TimeoutError,
)


class ConditionNotMet(Exception):
    """The condition of a put does not hold."""


class Call(NamedTuple):
    """What a call is for: a verb for messages, the store (s3://bucket/prefix/) and the key."""

    verb: str
    store: str
    key: str

    def __str__(self) -> str:
        return f"cannot {self.verb} {self.store}{self.key}"


def call_s3(
    cfg: S3,
    call: Call,
    send: Callable[[Any], T],
    settle: Callable[[bool], T | None] | None = None,
) -> T:
    """`send(client)`, again while the store does not answer.

    `settle(maybe_done)` is called when the store denies a conditional put: it returns the answer of
    an attempt that was done after all, or None to try again.

    Raises ConditionNotMet, ObjectMissing, StoreFull, StoreRefused, StoreUnavailable.
    """
    give_up = time.monotonic() + cfg.give_up_s
    maybe_done = False
    for n in itertools.count():
        try:
            return send(client_of(cfg, os.getpid()))
        except KeyError as e:  # a member that each answer of S3 has
            raise StoreRefused(
                f"{call}: the answer is none of an S3 store, it lacks {e!s:.60}: check"
                " s3.endpoint_url"
            ) from None
        except _CALL_ERRORS as e:
            error, denied = e, _translate(e, call)
        if settle is not None and isinstance(denied, (ConditionNotMet, ObjectMissing)):
            if (answer := settle(maybe_done)) is not None:
                return answer
        elif denied is not None:
            raise denied from None
        maybe_done |= denied is None
        pause = min(_FIRST_PAUSE_S * 2**n, _LAST_PAUSE_S) * random.uniform(0.5, 1.0)
        if time.monotonic() + pause > give_up:
            raise StoreUnavailable(
                f"{call} after {n + 1} attempts: {error!s:.300}; check that the store is up and"
                " s3.endpoint_url is right"
            )
        if n in _TOLD:
            log.warning(
                "%s: no answer in %d attempts (%.200s); trying for %.0f s more",
                call,
                n + 1,
                error,
                give_up - time.monotonic(),
            )
        time.sleep(pause)
    raise AssertionError


# attempts after which it is told that the store does not answer: after a second, then now and then
_TOLD = (3, 8, 16, 32, 64)


def _translate(e: Exception, call: Call) -> Exception | None:
    """What an error means; None: try again."""
    if isinstance(e, boto.ClientError):
        return _translate_response(e.response, call)
    if isinstance(e, LOCAL_ERRORS):
        return StoreRefused(f"{call}: {e!s:.300}: {SET_CREDENTIALS}")
    return None


def _translate_response(response: Any, call: Call) -> Exception | None:
    """What an error response of the store means; None: try again."""
    error = response.get("Error", {})
    code = str(error.get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _NOT_MET:
        return ConditionNotMet()
    if code in _MISSING:
        return ObjectMissing(call.key)
    if code in _FULL or status == 507:
        return StoreFull(f"no room left in the store {call.store}")
    if code in _AGAIN or status >= 500 or status == 429:
        return None
    return StoreRefused(
        f"{call}: {code or f'HTTP {status}'} {error.get('Message', '')!s:.200}:"
        f" {_FIXES.get(code, 'see docs/s3.md')}"
    )
