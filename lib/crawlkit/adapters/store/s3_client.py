"""Clients, region and credentials of S3, as boto3 finds them."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import boto3
from botocore import exceptions as boto
from botocore.config import Config as BotoConfig

from crawlkit.adapters.store.objects import StoreRefused
from crawlkit.config import S3

_WHOLE_CALL = 4  # delta-rs' deadline of a call with its body, in s3.timeout_s
# errors of this side: no store has been reached
LOCAL_ERRORS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.NoRegionError,
    boto.ProfileNotFound,
    boto.ParamValidationError,
    boto.ConfigParseError,
    boto.TokenRetrievalError,
)
SET_CREDENTIALS = (
    "set credentials by the AWS chain (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a"
    " role) and s3.region"
)


@lru_cache(maxsize=4)
def session_of(pid: int) -> Any:
    """One session a process: it holds the credentials and renews those of a role."""
    return boto3.session.Session()


def region(cfg: S3) -> str:
    """s3.region, else the one that the AWS chain finds. Raises LOCAL_ERRORS."""
    return cfg.region or session_of(os.getpid()).region_name or "us-east-1"


@lru_cache(maxsize=16)
def client_of(cfg: S3, pid: int) -> Any:
    """One client a process (a forked one must not share sockets).

    Its own retries are off: they would hide a lost answer. Raises LOCAL_ERRORS.
    """
    settings = BotoConfig(
        retries={"total_max_attempts": 1},
        connect_timeout=cfg.timeout_s,
        read_timeout=cfg.timeout_s,
        max_pool_connections=32,
        s3={"addressing_style": "path" if cfg.path_style else "auto"},
    )
    return session_of(pid).client(
        "s3", endpoint_url=cfg.endpoint_url, region_name=region(cfg), config=settings
    )


def delta_options(cfg: S3) -> dict[str, str]:
    """delta-rs' storage options.

    They hold the credentials that boto3 finds, since delta-rs' own chain knows no profiles. Raises
    StoreRefused.
    """
    keys, where = _credentials(cfg)
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


def _credentials(cfg: S3) -> tuple[Any, str]:
    """Frozen credentials, and the region. Raises StoreRefused."""
    try:
        credentials = session_of(os.getpid()).get_credentials()
        keys = credentials and credentials.get_frozen_credentials()
        where = region(cfg)
    except LOCAL_ERRORS as e:
        raise StoreRefused(f"no credentials for S3: {e!s:.300}: {SET_CREDENTIALS}") from None
    if keys is None:
        raise StoreRefused(f"no credentials for S3: {SET_CREDENTIALS}")
    return keys, where
