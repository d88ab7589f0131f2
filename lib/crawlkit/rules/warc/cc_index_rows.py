"""Rows with the column names and types of Common Crawl's columnar index (`cc-index-table`, flat
schema).
"""

from __future__ import annotations

import uuid
from typing import Any

from crawlkit.rules.url.canonical import split
from crawlkit.rules.url.domains import public_suffix, registered_domain
from crawlkit.rules.warc.cdxj_lines import mime_of, surt_key
from crawlkit.rules.warc.stored_http import target_uri

# name -> Spark SQL type; the last two are the partitions
COLUMNS = {
    "url_surtkey": "string",
    "url": "string",
    "url_host_name": "string",
    "url_host_tld": "string",
    "url_host_2nd_last_part": "string",
    "url_host_3rd_last_part": "string",
    "url_host_4th_last_part": "string",
    "url_host_5th_last_part": "string",
    "url_host_registry_suffix": "string",
    "url_host_registered_domain": "string",
    "url_host_private_suffix": "string",
    "url_host_private_domain": "string",
    "url_host_name_reversed": "string",
    "url_protocol": "string",
    "url_port": "int",
    "url_path": "string",
    "url_query": "string",
    "fetch_time": "timestamp",
    "fetch_status": "smallint",
    "fetch_redirect": "string",
    "content_digest": "string",
    "content_mime_type": "string",
    "content_mime_detected": "string",
    "content_charset": "string",
    "content_languages": "string",
    "content_truncated": "string",
    "warc_record_id": "binary",
    "warc_filename": "string",
    "warc_record_offset": "int",
    "warc_record_length": "int",
    "warc_segment": "string",
    "crawl": "string",
    "subset": "string",
}
CAPTURE = (
    "capture_id",
    "round_id",
    "url",
    "kind",
    "outcome",
    "status",
    "started",
    "content_type",
    "truncated",
    "redirect_to",
    "payload_digest",
    "warc_filename",
    "warc_record_offset",
    "warc_record_length",
    "warc_record_id",
    "record_type",
)
PAGE = (
    "capture_id",
    "kind",
    "charset",
    "language",
)  # of the page read from the capture, if there is one

_DETECTED = {
    "html": "text/html",
    "text": "text/plain",
    "json": "application/json",
    "xml": "application/xml",
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
# ISO 639-1 to 639-3 of the languages that are detected.
_ISO3 = dict(
    pair.split(":")
    for pair in (
        "af:afr am:amh an:arg ar:ara as:asm az:aze be:bel bg:bul bn:ben br:bre bs:bos ca:cat cs:ces"
        " cy:cym da:dan de:deu dz:dzo el:ell en:eng eo:epo es:spa et:est eu:eus fa:fas fi:fin"
        " fo:fao fr:fra ga:gle gl:glg gu:guj he:heb hi:hin hr:hrv ht:hat hu:hun hy:hye id:ind"
        " is:isl it:ita ja:jpn jv:jav ka:kat kk:kaz km:khm kn:kan ko:kor ku:kur ky:kir la:lat"
        " lb:ltz lo:lao lt:lit lv:lav mg:mlg mk:mkd ml:mal mn:mon mr:mar ms:msa mt:mlt nb:nob"
        " ne:nep nl:nld nn:nno no:nor oc:oci or:ori pa:pan pl:pol ps:pus pt:por qu:que ro:ron"
        " ru:rus rw:kin se:sme si:sin sk:slk sl:slv sq:sqi sr:srp sv:swe sw:swa ta:tam te:tel"
        " th:tha tl:tgl tr:tur ug:uig uk:ukr ur:urd vi:vie vo:vol wa:wln xh:xho zh:zho zu:zul"
    ).split()
)


_HOST_PARTS = (
    "url_host_tld",
    "url_host_2nd_last_part",
    "url_host_3rd_last_part",
    "url_host_4th_last_part",
    "url_host_5th_last_part",
)


def cc_row(capture: dict[str, Any], page: dict[str, Any] | None, crawl: str) -> dict[str, Any]:
    """The index row of a stored capture (a row with CAPTURE, its page with PAGE).

    `fetch_time` is taken over as it is.

    `crawl` is crawl.id, `warc_segment` the round. Subsets: `warc` responses of successful fetches;
    `robotstxt`; `crawldiagnostics` redirects, errors and revisits.
    """
    url = target_uri(capture["url"])
    page = page or {}
    return dict.fromkeys(COLUMNS) | {
        **_url_columns(url),
        "fetch_time": capture["started"],
        "fetch_status": capture["status"],
        "fetch_redirect": capture["redirect_to"],
        "content_digest": (capture["payload_digest"] or "").rpartition(":")[2] or None,
        "content_mime_type": mime_of(capture["content_type"]),
        "content_mime_detected": _DETECTED.get(page.get("kind") or ""),
        "content_charset": _charset(page.get("charset")),
        "content_languages": _ISO3.get(page.get("language") or ""),
        "content_truncated": capture["truncated"],
        "warc_record_id": _uuid(capture["warc_record_id"]),
        "warc_filename": capture["warc_filename"],
        "warc_record_offset": capture["warc_record_offset"],
        "warc_record_length": capture["warc_record_length"],
        "warc_segment": capture["round_id"],
        "crawl": crawl,
        "subset": subset_of(capture),
    }


def _url_columns(url: str) -> dict[str, Any]:
    """The columns about a URL and its host."""
    scheme, host, _, path_query = split(url)
    path, mark, query = path_query.partition("?")
    port = url[len(scheme) + 3 + len(host) :].partition("/")[0].removeprefix(":")
    is_address = host.startswith("[") or host.replace(".", "").isdigit()
    labels = [] if is_address else host.split(".")[::-1]
    return {
        **dict(zip(_HOST_PARTS, labels, strict=False)),
        **_suffix_columns(host),
        "url_surtkey": surt_key(url),
        "url": url,
        "url_host_name": host,
        "url_host_name_reversed": ".".join(labels) or None,
        "url_protocol": scheme,
        "url_port": int(port) if port else None,
        "url_path": path,
        "url_query": query if mark else None,
    }


def _suffix_columns(host: str) -> dict[str, str | None]:
    """Public suffixes of a host, without and with private ones, and the domains below them."""
    columns: dict[str, str | None] = {}
    for private, suffix_column, domain_column in (
        (False, "url_host_registry_suffix", "url_host_registered_domain"),
        (True, "url_host_private_suffix", "url_host_private_domain"),
    ):
        suffix = public_suffix(host, private)
        if suffix is not None:
            columns[suffix_column] = suffix
            columns[domain_column] = registered_domain(host, private) if host != suffix else None
    return columns


def subset_of(capture: dict[str, Any]) -> str:
    """warc, robotstxt or crawldiagnostics."""
    if capture["kind"] == "robots":
        return "robotstxt"
    return (
        "warc"
        if capture["outcome"] == "fetched" and capture["record_type"] == "response"
        else "crawldiagnostics"
    )


def _charset(name: str | None) -> str | None:
    """As Common Crawl spells it: `UTF-8`, `ISO-8859-1`, `windows-1252`."""
    return name if name is None or name.startswith(("windows", "x-")) else name.upper()


def _uuid(record_id: str | None) -> bytes | None:
    """The 16 bytes of `<urn:uuid:...>`."""
    try:
        return uuid.UUID((record_id or "").strip("<>").removeprefix("urn:uuid:")).bytes
    except ValueError:
        return None
