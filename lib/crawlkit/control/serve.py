"""`crawlkit serve`: the control API on a socket."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable

import uvicorn

from crawlkit.adapters.net.secret_source import secret
from crawlkit.config import Config, ConfigError
from crawlkit.control.app import make_app
from crawlkit.crawl.state import Crawl, Place

MIN_TOKEN_CHARS = 16


def token_of(cfg: Config) -> str:
    """The API's token. Raises ConfigError: none is set, or it is too short to be one."""
    token = secret(cfg.control.token)
    place = (
        cfg.control.token if cfg.control.token.startswith(("env:", "file:")) else "control.token"
    )
    if (
        len(token) < MIN_TOKEN_CHARS
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise ConfigError(
            f"the token of {place} must have at least {MIN_TOKEN_CHARS} printable ASCII characters"
            " without spaces, for example $(head -c 24 /dev/urandom | base64 | tr -d '=+/')"
        )
    return token


def run(
    data: Place, cfg: Config, host: str | None, port: int | None, say: Callable[[str], None]
) -> None:
    """Serve until interrupted. Raises ConfigError, CrawlError, OSError (the port is taken)."""

    token = token_of(cfg)
    Crawl(data, cfg).check()
    host, port = host or cfg.control.host, cfg.control.port if port is None else port
    with contextlib.closing(
        socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    ) as listening:
        if not _is_loopback(host):
            say(
                f"warning: {host} is not loopback: the token crosses the network in the clear"
                " unless a proxy with TLS is in front of it"
            )
        with contextlib.suppress(KeyboardInterrupt):
            say(
                "control API and status page:"
                f" http://{'[' + host + ']' if ':' in host else host}:{listening.getsockname()[1]}/"
            )
            uvicorn.Server(
                uvicorn.Config(
                    make_app(data, cfg, token),
                    log_level="warning",
                    access_log=False,
                    server_header=False,
                )
            ).run(sockets=[listening])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
