from __future__ import annotations

import re

import pytest
from crawlkit.rules.page.encoding import decode, detect_encoding, header_charset, prescan
from crawlkit.rules.page.query_encoding import document_query
from crawlkit.rules.page.whatwg_encodings import decode_as, encoding_of
from hypothesis import given, strategies as st
from webencodings import LABELS

from tests.shared_data import shared


def suite():
    for file in sorted(shared("suites/html5lib/encoding").glob("*.dat")):
        for case in re.split(rb"(?:\A|\n)#data\n", file.read_bytes()):
            data, mark, rest = case.partition(b"\n#encoding\n")
            if mark:
                yield data, rest.split(b"\n")[0].decode().strip().lower()


def test_html5lib_encoding_suite():
    cases = list(suite())
    wrong = [
        (data[:80], want, got)
        for data, want in cases
        if (got := detect_encoding(data).name) != want
    ]
    assert len(cases) == 82 and wrong == []


@pytest.mark.parametrize(
    "label,name",
    [
        ("UTF8", "utf-8"),
        (" Latin1\t", "windows-1252"),
        ("gb2312", "gbk"),
        ("ISO-8859-9", "windows-1254"),
        ("ks_c_5601-1987", "euc-kr"),
        ("utf-7", None),
        ("", None),
    ],
)
def test_labels_of_the_encoding_standard(label, name):
    assert encoding_of(label) == name


def test_all_labels_have_a_decoder():
    # Encoding Standard 4.2 lists 228 labels for 40 encodings
    assert len(LABELS) == 228 and len(set(LABELS.values())) == 40
    for name in set(LABELS.values()) - {"utf-16le", "utf-16be", "replacement"}:
        assert decode_as(b"<p>ok</p>", name) == "<p>ok</p>"


@pytest.mark.parametrize(
    "raw,name,text",
    [
        (
            b"\x81\x8d\x80",
            "windows-1252",
            "\x81\x8d\u20ac",
        ),  # index-windows-1252: undefined bytes are C1
        (b"\x80", "gbk", "\u20ac"),  # gb18030 decoder, step 4
        (
            b"\xad\xa1\xa1\xc1",
            "euc-jp",
            "①～",
        ),  # NEC row 13, and the fullwidth tilde of index jis0208
        (b"\x8f\xb0\xa1\x8e\xb1", "euc-jp", "丂ｱ"),
        (b"\x1b$B-!\x1b(Ba\x1b(J\\~", "iso-2022-jp", "①a¥‾"),
        (b"\xae\xbe", "koi8-u", "ўЎ"),
        (b"\x80\xff", "x-user-defined", "\uf780\uf7ff"),
        (b"\xf0\x9f\x98<p>", "utf-8", "\ufffd<p>"),  # maximal subpart: one U+FFFD
        (b"abc", "replacement", "\ufffd"),
        # index big5, gb18030, jis0212, where they differ from the codecs of Python (compared with a
        # browser's decoders over all pairs)
        (b"\xa1\x45\xa1\xe3\x87\x7a\x87\xa1", "big5", "\u2027～㡵\U000258de"),
        (b"\x88\x62", "big5", "\xca\u0304"),  # Big5 decoder, step 3.3: two code points
        (b"\xa3\xa0\xa6\xd9\xa8\xbc\xfe\x59", "gbk", "\u3000\ufe10\u1e3f\u9fb4"),
        (b"\x8f\xa2\xb7", "euc-jp", "～"),
        # a bad trail: ASCII begins anew, any other byte goes with its lead
        (b"\x81<p>\x81\x81\xff<p>", "euc-kr", "\ufffd<p>\uac56\ufffd<p>"),
        (b"\xfe<\x81\xfe\xff!", "big5", "\ufffd<\ufffd\ufffd!"),
        (b"\x81\x30\x20", "gb18030", "\ufffd0 "),
        (b"\x84\x31\xa5\x30!", "gb18030", "\ufffd!"),
        (b"\xa0\xfd\x81\x20\x81\xad!", "shift_jis", "\ufffd\ufffd\ufffd \ufffd!"),
        (b"\xa9\xa1!\x8e\xff!\x8f\xa1\xa1!\xa1", "euc-jp", "\ufffd!\ufffd!\ufffd!\ufffd"),
    ],
)
def test_decoders_follow_the_standards_indexes(raw, name, text):
    assert decode_as(raw, name) == text


def test_order_mark_header_meta():
    body = b'<meta charset="koi8-r"><p>\xd0'
    assert detect_encoding(b"\xef\xbb\xbf" + body, "text/html; charset=big5") == ("utf-8", "bom")
    assert detect_encoding(body, "text/html; charset=big5") == ("big5", "header")
    assert detect_encoding(body, "text/html; charset=nonsense") == ("koi8-r", "meta")
    assert detect_encoding("é".encode()) == ("utf-8", "detected")
    assert detect_encoding(b"plain") == ("windows-1252", "default")
    assert detect_encoding(b'<?xml version="1.0" encoding="iso-8859-2"?><a/>', "text/xml") == (
        "iso-8859-2",
        "xml",
    )


def test_bodies_cut_inside_a_character_stay_utf8():
    assert detect_encoding("né à la carte €".encode()[:-1]).name == "utf-8"


def test_a_few_wrong_bytes_are_no_other_encoding():
    text = "<p>It’s a naïve café — “quoted”, for 5 €. " * 3
    assert decode(text.encode() + b"caf\xe9 " + text.encode()) == (
        text + "caf\ufffd " + text,
        ("utf-8", "detected"),
    )
    assert detect_encoding("é".encode() + b" caf\xe9 x").name != "utf-8"
    assert detect_encoding("这是联通的中文网页".encode("gbk")).name != "utf-8"


def test_utf16_without_a_mark():
    assert decode("<p>Zoë жук</p>".encode("utf-16-le"))[0] == "<p>Zoë жук</p>"


def test_bytes_of_other_encodings_are_detected():
    russian = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
    japanese = "これは日本語の文章です。文字コードを推定します。" * 5
    assert decode(russian.encode("cp1251"))[0] == russian
    assert decode(japanese.encode("cp932"))[0] == japanese
    assert decode(japanese.encode("iso-2022-jp")) == (japanese, ("iso-2022-jp", "detected"))
    assert (
        "hello" in decode(b"\x1b$)C\x0eabc\x0f hello " * 3)[0]
    )  # ISO-2022-KR is one of those that are replaced whole, if a label says so


def test_header_parameter():
    assert header_charset('text/html; a=b ; CHARSET="utf-8"') == "utf-8"
    assert header_charset("text/html; xcharset=utf-8") is None
    assert header_charset(None) is None
    assert (
        header_charset('text/html; a="; charset=big5\\"; charset=gbk"; charset=koi8-r') == "koi8-r"
    )  # a quoted string is one value (RFC 9110 5.6.6)
    assert header_charset('text/html; charset="utf\\-8"') == "utf-8"  # 5.6.4
    assert header_charset("text/html; charset=; charset='utf-8'; charset=big5") == "utf-8"


def test_queries_are_escaped_in_the_documents_encoding():
    # WHATWG URL 4.4: percent-encode after encoding; a character that the encoding lacks is a
    # numeric reference
    assert document_query("/ü?q=ü&r=ж#ü", "windows-1252") == "/ü?q=%FC&r=%26%231078%3B#ü"
    assert document_query("/x?q=ü", "utf-8") == "/x?q=ü"


@pytest.mark.parametrize(
    "name, query, escaped",
    [
        # as a browser sends them (every character of the BMP was compared); Encoding Standard 9.1,
        # 10.2, 12 to 14
        ("gbk", "€中\u01f9", "%80%D6%D0%A8%BF"),
        ("gb18030", "€中\ufe10😀", "%A2%E3%D6%D0%A6%D9%949%FC6"),
        ("big5", "中¢￠～", "%A4%A4%26%23162%3B%A2F%A1%E3"),
        ("shift_jis", "ソ−￢∵ｱ¥纊①", "%83\\%81|%81%CA%81%E6%B1\\%FA\\%87@"),
        ("euc-jp", "日−ｱ¥丂", "%C6%FC%A1%DD%8E%B1\\%26%2319970%3B"),
        ("iso-2022-jp", "日本é", "%1B%24BF%7CK%5C%1B%28B%26%23233%3B"),
        ("koi8-u", "Ўў", "%BE%AE"),
        ("windows-1252", "\x81", "%81"),
        ("euc-kr", "한똠é", "%C7%D1%8Cc%26%23233%3B"),
    ],
)
def test_queries_in_the_encoding_of_the_document(name, query, escaped):
    assert document_query(f"/?{query}", name) == f"/?{escaped}"


@given(st.binary(max_size=300), st.one_of(st.none(), st.text(max_size=40)))
def test_never_raises(body, content_type):
    text, encoding = decode(b"<meta " + body, content_type)
    assert isinstance(text, str) and encoding.name in set(LABELS.values())
    prescan(body)
    for name in set(LABELS.values()):
        decode_as(body, name)


def test_plain_text_declares_nothing_by_markup():
    assert detect_encoding(b"<meta charset=koi8-r>", "text/plain").how == "default"
