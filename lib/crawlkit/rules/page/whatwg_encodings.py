"""The WHATWG Encoding Standard's labels, and decoders for its encodings out of Python's codecs.

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

_LABELS = """
utf-8: unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8
ibm866: 866 cp866 csibm866
iso-8859-2: csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2
iso-8859-3: csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3
iso-8859-4: csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4
iso-8859-5: csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988
iso-8859-6: arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
iso-8859-7: csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek
iso-8859-8: csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 visual
iso-8859-8-i: csiso88598i logical
iso-8859-10: csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6
iso-8859-13: iso8859-13 iso885913
iso-8859-14: iso8859-14 iso885914
iso-8859-15: csisolatin9 iso8859-15 iso885915 iso_8859-15 l9
iso-8859-16:
koi8-r: cskoi8r koi koi8 koi8_r
koi8-u: koi8-ru
macintosh: csmacintosh mac x-mac-roman
windows-874: dos-874 iso-8859-11 iso8859-11 iso885911 tis-620
windows-1250: cp1250 x-cp1250
windows-1251: cp1251 x-cp1251
windows-1252: ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252
windows-1253: cp1253 x-cp1253
windows-1254: cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 x-cp1254
windows-1255: cp1255 x-cp1255
windows-1256: cp1256 x-cp1256
windows-1257: cp1257 x-cp1257
windows-1258: cp1258 x-cp1258
x-mac-cyrillic: x-mac-ukrainian
gbk: chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk
gb18030:
big5: big5-hkscs cn-big5 csbig5 x-x-big5
euc-jp: cseucpkdfmtjapanese x-euc-jp
iso-2022-jp: csiso2022jp
shift_jis: csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis
euc-kr: cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949
replacement: csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr
utf-16be: unicodefffe
utf-16le: csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16
x-user-defined:
"""
LABELS: dict[str, str] = {
    label: name
    for line in _LABELS.strip().splitlines()
    for name, _, rest in [line.partition(":")]
    for label in (name, *rest.split())
}

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
    return LABELS.get(label.strip("\t\n\x0c\r ").lower())


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
        return _replaced(body.decode("gb18030", "crawlkit.gb18030"), _GB18030)
    if name == "big5":
        return _replaced(body.decode("big5hkscs", "crawlkit.big5"), _BIG5)
    if name == "euc-jp":
        return _decode_euc_jp(body)
    if name == "iso-2022-jp":
        return _decode_iso_2022_jp(body)
    if name == "replacement":
        return "\ufffd" if body else ""
    if name == "shift_jis":
        return _replaced(body.decode("cp932", "crawlkit.pair"), _SHIFT_JIS)
    return body.decode("cp949", "crawlkit.pair")  # euc-kr


def _replaced(text: str, changes: tuple[tuple[str, str], ...]) -> str:
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
    pairs = {}
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
