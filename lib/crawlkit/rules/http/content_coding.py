"""Content codings of a payload undone within bounds (RFC 9110 8.4): gzip, deflate, br, zstd, in
layers and members.

The result never exceeds the limit, whatever the ratio, and neither does any layer on the way; work
is linear in the payload and the limit. What could be decoded of a damaged or cut payload is kept,
with the error beside it.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

import brotli
from backports import zstd

MAX_DECODED_BYTES = 32 * 1024 * 1024  # of a page
MAX_LAYERS = 5
MAX_MEMBERS = 10_000  # gzip members or zstd frames of one layer
ZSTD_WINDOW_LOG = 23  # 8 MiB (RFC 9659)
# small at first: what follows a member's end in a chunk is copied
_FIRST_CHUNK, _CHUNK = 512, 65_536


class Decoded(NamedTuple):
    """`truncated`: "length" if the limit cut it.

    `error`: why less than the whole could be decoded (None: all well).

    `raw_kept`: the body is the payload as received, since its coding is unknown or nothing of it
    could be decoded.
    """

    body: bytes
    truncated: str | None = None
    error: str | None = None
    raw_kept: bool = False
    layers: tuple[str, ...] = ()


class _Damaged(Exception):
    pass


def codings(content_encoding: Iterable[str]) -> list[str]:
    """Codings in the order applied: several field lines are one list, names without case, identity
    left out.
    """
    names = [c.strip().lower() for line in content_encoding for c in line.split(",")]
    return [{"x-gzip": "gzip"}.get(c, c) for c in names if c not in ("", "identity")]


def decode_body(
    payload: bytes, headers: Iterable[tuple[str, str]], limit_bytes: int = MAX_DECODED_BYTES
) -> Decoded:
    """A stored payload without the content codings that its header names (RFC 9110 8.4).

    At most `limit_bytes` of it. Never raises.
    """
    named = [value for name, value in headers if name.lower() == "content-encoding"]
    return decode_content(payload, named, limit_bytes)


def decode_content(
    payload: bytes, content_encoding: Iterable[str], limit_bytes: int = 10 * 1024 * 1024
) -> Decoded:
    """Payload without its content codings, at most `limit_bytes` of it. Never raises."""
    names = codings(content_encoding)
    unknown = [n for n in names if n not in _DECODERS]
    if unknown or len(names) > MAX_LAYERS:
        refusal = (
            f"unknown coding {unknown[0][:40]}" if unknown else f"{len(names)} layers of coding"
        )
        cut = "length" if len(payload) > limit_bytes else None
        return Decoded(payload[:limit_bytes], cut, refusal, True)
    body = payload
    truncated = False
    errors: list[str] = []
    for n, name in enumerate(reversed(names)):
        decoded, more, error = _layer(body, name, limit_bytes)
        if error:
            errors.append(f"{name}: {error}")
            if (
                not decoded and body
                # this layer is not there, as where two hops name one coding: what came before it is
                # kept
            ):
                return Decoded(
                    body[:limit_bytes],
                    "length" if truncated or len(body) > limit_bytes else None,
                    errors[-1],
                    n == 0,
                    tuple(names),
                )
        body, truncated = decoded, truncated or more
    if not names and len(body) > limit_bytes:
        body, truncated = body[:limit_bytes], True
    return Decoded(
        body, "length" if truncated else None, "; ".join(errors) or None, False, tuple(names)
    )


def _layer(data: bytes, name: str, limit: int) -> tuple[bytes, bool, str | None]:
    """(decoded, whether the limit cut it, error)."""
    out = bytearray()
    try:
        for piece in _DECODERS[name](data, limit):
            out += piece
            if len(out) > limit:
                return bytes(out[:limit]), True, None
    except _Damaged as e:
        return bytes(out[:limit]), len(out) > limit, str(e)
    return bytes(out), False, None


def _gzip(data: bytes, limit: int) -> Iterator[bytes]:
    pos = 0
    for _ in range(MAX_MEMBERS):
        # what follows a member and is none itself is padding
        if pos >= len(data) or (pos and data[pos : pos + 2] != b"\x1f\x8b"):
            return
        pos = yield from _inflate(data, pos, 31, limit)
    if data[pos : pos + 2] == b"\x1f\x8b":
        raise _Damaged(f"more than {MAX_MEMBERS} members")


def _deflate(data: bytes, limit: int) -> Iterator[bytes]:
    # RFC 9110 8.4.1.2: some servers send the raw stream without the zlib wrapper
    wrapped = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    if data:
        yield from _inflate(data, 0, 15 if wrapped else -15, limit)


def _inflate(data: bytes, pos: int, wbits: int, limit: int) -> Generator[bytes, None, int]:
    """Output of one stream that starts at `pos`, in pieces; returns the position after it."""
    stream, start, size = zlib.decompressobj(wbits), pos, _FIRST_CHUNK
    while not stream.eof:
        if pos >= len(data):
            raise _Damaged("incomplete")
        chunk = data[pos : pos + size]
        try:
            while chunk and not stream.eof:
                yield stream.decompress(chunk, limit + 1)
                chunk = stream.unconsumed_tail
        except zlib.error as e:
            yield from _before_damage(data, start, pos, size, wbits, limit)
            raise _Damaged(str(e)[-60:]) from None
        pos += min(size, len(data) - pos)
        size = min(size * 4, _CHUNK)
    return pos - len(stream.unused_data)


def _before_damage(
    data: bytes, start: int, pos: int, size: int, wbits: int, limit: int
) -> Iterator[bytes]:
    """Output of the chunk at `pos` up to the damage, which the failed call did not give: byte by
    byte.
    """
    stream, left = zlib.decompressobj(wbits), data[start:pos]
    while left:
        stream.decompress(left, limit + 1)
        left = stream.unconsumed_tail
    try:
        for i in range(pos, min(pos + size, len(data))):
            left = data[i : i + 1]
            while left:
                yield stream.decompress(left, limit + 1)
                left = stream.unconsumed_tail
    except zlib.error:
        return


def _brotli(data: bytes, limit: int) -> Iterator[bytes]:
    stream, pos, given = brotli.Decompressor(), 0, 0
    try:
        while data and not stream.is_finished():
            chunk = b""
            if stream.can_accept_more_data():
                chunk, pos = data[pos : pos + _CHUNK], pos + _CHUNK
            piece = stream.process(chunk, output_buffer_limit=_CHUNK * 4)
            if not piece and not chunk and not stream.is_finished():
                raise _Damaged("incomplete")
            given += len(piece)
            yield piece
    except brotli.error as e:
        if not (yield from _brotli_before_damage(data, pos - _CHUNK, given)):
            raise _Damaged(str(e)[-60:]) from None


def _brotli_before_damage(data: bytes, pos: int, given: int) -> Generator[bytes, None, bool]:
    """Output after the first `given` bytes, of which the failed call gave none: the chunk at `pos`
    byte by byte. Returns whether the stream ended in it: what follows the end is padding, for which
    the decoder has no other name than damage.
    """
    stream = brotli.Decompressor()
    try:
        for piece in (
            data[:pos],
            *(data[i : i + 1] for i in range(pos, min(pos + _CHUNK, len(data)))),
        ):
            while not stream.is_finished():
                out = stream.process(piece, output_buffer_limit=_CHUNK * 4)
                yield out[given:]
                given = max(given - len(out), 0)
                if not piece and not out:
                    break
                piece = b""
    except brotli.error:
        return False
    return bool(stream.is_finished())


def _zstd(data: bytes, limit: int) -> Iterator[bytes]:
    options: dict[int, int] = {int(zstd.DecompressionParameter.window_log_max): ZSTD_WINDOW_LOG}
    pos = 0
    for _ in range(MAX_MEMBERS):
        if pos >= len(data):
            return
        stream, size = zstd.ZstdDecompressor(options=options), _FIRST_CHUNK
        try:
            while not stream.eof:
                chunk = b""
                if stream.needs_input:
                    if pos >= len(data):
                        raise _Damaged("incomplete")
                    chunk = data[pos : pos + size]
                    pos, size = pos + len(chunk), min(size * 4, _CHUNK)
                yield stream.decompress(chunk, _CHUNK * 4)
        except zstd.ZstdError as e:
            raise _Damaged(str(e)[-60:]) from None
        pos -= len(stream.unused_data)
    raise _Damaged(f"more than {MAX_MEMBERS} frames")


_DECODERS = {"gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd}
