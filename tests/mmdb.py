"""A file in MaxMind's format made of networks, by its specification 2.0
(maxmind.github.io/MaxMind-DB): IPv4, records of 24 bits.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any


class NodeCount(int):
    """The only uint32 of the metadata."""


def make_mmdb(networks: Mapping[str, Any]) -> bytes:
    """networks: `127.0.0.0/24` -> its record."""
    nodes: list[list[Any]] = [[None, None]]
    data = b""
    for name, record in networks.items():
        network = ipaddress.ip_network(name)
        bits = f"{int(network.network_address):032b}"[: network.prefixlen]
        node = 0
        for bit in bits[:-1]:
            if nodes[node][int(bit)] is None:
                nodes.append([None, None])
                nodes[node][int(bit)] = len(nodes) - 1
            node = nodes[node][int(bit)]
        nodes[node][int(bits[-1])] = ("data", len(data))
        data += _value(record)
    tree = b"".join(_record(side, len(nodes)) for node in nodes for side in node)
    about = {
        "node_count": NodeCount(len(nodes)),
        "record_size": 24,
        "ip_version": 4,
        "database_type": "Test-Country",
        "languages": ["en"],
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "build_epoch": 1_767_225_600,
        "description": {"en": "for tests"},
    }
    return tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + _value(about)


def _record(side: Any, count: int) -> bytes:
    if side is None:
        return count.to_bytes(3, "big")
    return (count + 16 + side[1] if isinstance(side, tuple) else side).to_bytes(3, "big")


def _value(value: Any) -> bytes:
    """Strings, whole numbers (uint16, else uint64), maps and arrays of less than 29 parts."""
    if isinstance(value, NodeCount):
        return bytes([6 << 5 | 4]) + value.to_bytes(4, "big")
    if isinstance(value, str):
        return bytes([2 << 5 | len(value)]) + value.encode()
    if isinstance(value, int) and value < 1 << 16:
        return bytes([5 << 5 | 2]) + value.to_bytes(2, "big")
    if isinstance(value, int):  # of the extended type 9
        return bytes([8, 9 - 7]) + value.to_bytes(8, "big")
    if isinstance(value, dict):
        parts = b"".join(_value(k) + _value(v) for k, v in value.items())
        return bytes([7 << 5 | len(value)]) + parts
    return bytes([len(value), 11 - 7]) + b"".join(map(_value, value))
