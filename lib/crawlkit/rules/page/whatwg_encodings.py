"""Decoders for the encodings of the WHATWG Encoding Standard, made of Python's codecs.

Where Python's codec differs from the standard's index (C1 bytes of windows-125x, 0x80 and the GB
18030-2022 characters of GBK, the NEC and IBM rows of EUC-JP and ISO-2022-JP, symbols and late HKSCS
pairs of Big5, KOI8-U, x-user-defined), the difference is made good here. A lead byte with a bad
trail is one U+FFFD, and a trail that is ASCII is kept.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files

import webencodings

SINGLE_BYTE = {
    "ibm866": "cp866",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "iso-8859-8-i": "iso8859-8",
    "windows-874": "cp874",
    "x-user-defined": "ascii",
    **{f"iso-8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"windows-125{n}": f"cp125{n}" for n in range(9)},
}
_UNICODE = {"utf-8": "utf-8", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"}
# bytes whose character in the standard's index is not the one of Python's table
_PATCHES = {"koi8-u": {0xAE: "\u045e", 0xBE: "\u040e"}, "windows-1255": {0xCA: "\u05ba"}}
# characters that Python's codec gives, each for one pair only, and those of the standard's index
_GB18030 = tuple(
    zip(
        "\ue5e5\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796\ue7c7\ue81e"
        "\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
        "\u3000\ufe10\ufe12\ufe11\ufe13\ufe14\ufe15\ufe16\ufe17\ufe18\ufe19\u1e3f\u9fb4"
        "\u9fb5\u9fb6\u9fb7\u9fb8\u9fb9\u9fba\u9fbb",
        strict=True,
    )
)
_BIG5 = tuple(
    zip(
        "\u2022\uff64\u203e\u223c\u2641\u2609\u00a5\u00a2\u00a3",
        "\u2027\ufe51\u00af\uff5e\u2295\u2299\uffe5\uffe0\uffe1",
        strict=True,
    )
)
_SHIFT_JIS = tuple(
    (char, "\ufffd") for char in "\uf8f0\uf8f1\uf8f2\uf8f3"
)  # of bytes that begin nothing


def encoding_of(label: str) -> str | None:
    """Name of the encoding that a label means, in lower case; None for an unknown label (Encoding
    Standard 4.2).
    """
    found = webencodings.lookup(label)
    return None if found is None else str(found.name)


@lru_cache(maxsize=64)
def _table(name: str) -> str:
    chars = list(bytes(range(256)).decode(SINGLE_BYTE[name], "replace"))
    for b in range(0x80, 0x100):
        if name == "x-user-defined":
            chars[b] = chr(0xF780 + b - 0x80)
        elif b < 0xA0 and chars[b] == "\ufffd":
            chars[b] = chr(b)
    for b, char in _PATCHES.get(name, {}).items():
        chars[b] = char
    return "".join(chars)


def decode_as(body: bytes, name: str) -> str:
    """Text of `body` in the encoding `name` (a name of the standard); bad bytes become U+FFFD.

    Never raises.
    """
    if name in SINGLE_BYTE:
        return codecs.charmap_decode(body, "replace", _table(name))[0]
    if name in _UNICODE:
        return body.decode(_UNICODE[name], "replace")
    if name in ("gbk", "gb18030"):
        return _replace(body.decode("gb18030", "crawlkit.gb18030"), _GB18030)
    if name == "big5":
        return _replace(body.decode("big5hkscs", "crawlkit.big5"), _BIG5)
    if name == "euc-jp":
        return _decode_euc_jp(body)
    if name == "iso-2022-jp":
        return _decode_iso_2022_jp(body)
    if name == "replacement":
        return "\ufffd" if body else ""
    if name == "shift_jis":
        return _replace(body.decode("cp932", "crawlkit.pair"), _SHIFT_JIS)
    return body.decode("cp949", "crawlkit.pair")  # euc-kr


def _replace(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    for char, standard in changes:
        text = text.replace(char, standard)
    return text


def _bad_pair(body: bytes, at: int) -> tuple[str, int]:
    """One U+FFFD for a lead byte and its trail; a trail that is ASCII begins anew (Encoding
    Standard 10 to 13).
    """
    lead = 0x81 <= body[at] <= 0xFE
    return "\ufffd", at + 1 + (lead and body[at + 1 : at + 2] >= b"\x80")


def _bad_gb18030(body: bytes, at: int) -> tuple[str, int]:
    if body[at] == 0x80:  # the standard's decoder reads a lone one as the euro sign
        return "\u20ac", at + 1
    return ("\ufffd", at + 4) if _FOUR.match(body, at) else _bad_pair(body, at)


def _bad_big5(body: bytes, at: int) -> tuple[str, int]:
    char = _big5_pairs().get(body[at : at + 2])
    return (char, at + 2) if char else _bad_pair(body, at)


@lru_cache(maxsize=1)
def _big5_pairs() -> dict[bytes, str]:
    pairs: dict[bytes, str] = {}
    for line in (
        files("crawlkit").joinpath("data", "big5_pairs.txt").read_text("utf-8").splitlines()
    ):
        if not line.startswith("#"):
            first = int(line[:4], 16)
            pairs |= {(first + n).to_bytes(2, "big"): char for n, char in enumerate(line[5:])}
    return pairs


_FOUR = re.compile(rb"[\x81-\xfe][0-9][\x81-\xfe][0-9]")


def _register(name: str, rule: Callable[[bytes, int], tuple[str, int]]) -> None:
    def handler(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        return rule(error.object, error.start)

    codecs.register_error(f"crawlkit.{name}", handler)


_register("pair", _bad_pair)
_register(
    "two", lambda body, at: ("\ufffd", at + 2)
)  # where both bytes are known to belong together
_register("three", lambda body, at: ("\ufffd", at + 3))
_register("gb18030", _bad_gb18030)
_register("big5", _bad_big5)

_EUC_RUN = re.compile(
    rb"((?:[\xa1-\xfe][\xa1-\xfe])+)|((?:\x8f[\xa1-\xfe][\xa1-\xfe]|\x8e[\xa1-\xdf])+)"
    rb"|\x8f[\xa1-\xfe][\x80-\xff]?|[\x8e\x8f\xa1-\xfe][\x80-\xff]?|[\x80-\xff]"
)


def _decode_euc_jp(body: bytes) -> str:
    """JIS X 0208 pairs go by way of cp932, which has the NEC and IBM rows and the standard's choice
    of wave dash.
    """
    out, last = [], 0
    for m in _EUC_RUN.finditer(body):
        out.append(body[last : m.start()].decode("ascii"))
        last = m.end()
        if m.group(1):
            out.append(_to_sjis(m.group(1)).decode("cp932", "crawlkit.two"))
        elif m.group(2):
            out.append(m.group(2).decode("euc_jp", "crawlkit.three").replace("~", "\uff5e"))
        else:
            out.append("\ufffd")
    out.append(body[last:].decode("ascii"))
    return "".join(out)


def _to_sjis(pairs: bytes) -> bytes:
    """EUC pairs (both bytes 0xA1 to 0xFE) as Shift_JIS pairs of the same JIS X 0208 cell."""
    out = bytearray()
    for row, cell in zip(pairs[::2], pairs[1::2], strict=True):
        row, cell = row - 0xA1, cell - 0xA1
        lead = 0x81 + row // 2
        trail = cell + (0x9F if row % 2 else 0x40)
        if not row % 2 and trail >= 0x7F:
            trail += 1
        out += bytes((lead if lead < 0xA0 else lead + 0x40, trail))
    return bytes(out)


_JP_ESCAPE = re.compile(rb"\x1b(\([BJI]|\$[@B])")


def _decode_iso_2022_jp(body: bytes) -> str:
    out, last, mode = [], 0, b"(B"
    for m in [*_JP_ESCAPE.finditer(body), None]:
        run = body[last : m.start() if m else len(body)]
        if mode in (b"$@", b"$B"):
            odd = len(run) % 2
            high = bytes(b | 0x80 for b in run[: len(run) - odd])
            out.append(_decode_euc_jp(high) + "\ufffd" * odd)
        elif mode == b"(I":
            out.append(
                "".join(chr(0xFF61 + b - 0x21) if 0x21 <= b <= 0x5F else "\ufffd" for b in run)
            )
        else:
            text = run.decode("ascii", "replace")
            out.append(text.translate({0x5C: "\xa5", 0x7E: "\u203e"}) if mode == b"(J" else text)
        if m:
            last, mode = m.end(), m.group(1)
    return "".join(out)
