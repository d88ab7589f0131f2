"""Probes of topic cookies: Set-Cookie lines in order, then the header of a request."""

from __future__ import annotations

import pathlib

from crawlkit.adapters.net.address_guard import parse_place
from crawlkit.rules.http.cookies import Cookie, cookie_header, receive

_NOW = 1_709_294_400.0


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    jar: tuple[Cookie, ...] = ()
    if given.get("enabled", True):
        for url, line in given["set"]:
            place = parse_place(url)
            jar = receive(jar, place.host, place.target, place.scheme == "https", [line], _NOW)
    place = parse_place(given["request"])
    sent = cookie_header(jar, place.host, place.target, place.scheme == "https", _NOW)
    return {"cookie": sent, "cookies": sent.split("; ") if sent else []}
