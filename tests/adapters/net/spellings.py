"""Hosts as an attacker writes them: one forbidden address in many spellings (WHATWG URL 4.4 to 4.6;
RFC 4291, 6052, 3056, 4380, 6874).
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

V4 = (
    "127.0.0.1",
    "127.1.2.3",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.192",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "255.255.255.255",
)
V6 = (
    "::",
    "::1",
    "0:0:0:0:0:0:0:1",
    "0000:0000:0000:0000:0000:0000:0000:0001",
    "0::1",
    "::0:1",
    "100::1",
    "64:ff9b:1::a00:1",
    "2001:db8::1",
    "2001::1",
    "2001:10::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "FE80::A9FE:A9FE",
    "fec0::1",
    "ff02::1",
    "4000::1",
)
NAMES = (
    "localhost",
    "LOCALHOST",
    "localhost.",
    "LocalHost",
    "a.localhost",
    "x.y.localhost.",
    "loc%61lhost",
    "%6cocalhost",
    "ｌｏｃａｌｈｏｓｔ",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "lo\u00adcalhost",
    "loca\u200blhost",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "metadata",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "rancher-metadata",
    "kubernetes.default.svc",
    "host.docker.internal",
    "127.0.0.1.nip.io",
    "169.254.169.254.nip.io",
    "7f000001.nip.io",
    "localtest.me",
    "lvh.me",
    "spoofed.burpcollaborator.net",
    "1.0.0.127.in-addr.arpa",
    "ip6-localhost",
    "router.local",
    "intranet",
)


def of_v4(address: str) -> Iterator[str]:
    """Spellings of one IPv4 address as the host of a URL."""
    ip = IPv4Address(address)
    n, (a, b, c, d) = int(ip), ip.packed
    hi, lo = n >> 16, n & 0xFFFF
    yield from (
        address,
        address + ".",
        str(n),
        f"{n}.",
        hex(n),
        hex(n).upper(),
        f"0x{n:010x}",
        f"0{n:o}",
        f"000{n:o}",
    )
    yield from (
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"000{a:o}.00{b:o}.{c}.{d}",
        f"{a:#x}.{b:#x}.{c:#x}.{d:#x}",
        f"0X{a:X}.0{b:o}.{c}.{d:#x}",
        f"{a:#x}.{n & 0xFFFFFF}",
        f"{a}.{b}.{lo}",
        f"{a}.{n & 0xFFFFFF}",
        f"{a}.{b}.{lo:#x}",
        f"0{a:o}.{n & 0xFFFFFF:#x}",
    )
    yield from (
        "".join(f"%{ord(x):02x}" for x in address),
        address.replace(".", "%2e"),
        f"%3{address[0]}{address[1:]}",
    )
    yield from (
        address.translate({48 + i: 0xFF10 + i for i in range(10)}),
        address.replace(".", "。"),
        address.replace(".", "．"),
        address.replace(".", "｡"),
        address.translate({48 + i: 0x1D7CE + i for i in range(10)}),
        address.replace("1", "①"),
        address.replace("2", "²"),
    )
    yield from (
        f"[::ffff:{address}]",
        f"[::ffff:{hi:x}:{lo:x}]",
        f"[0:0:0:0:0:FFFF:{hi:04X}:{lo:04X}]",
        f"[::{address}]",
        f"[::{hi:x}:{lo:x}]",
    )
    yield from (
        f"[64:ff9b::{address}]",
        f"[64:FF9B:0:0:0:0:{hi:x}:{lo:x}]",
        f"[2002:{hi:x}:{lo:x}::]",
        f"[2002:{hi:x}:{lo:x}::1]",
        f"[2001:0:5db8:d822:0:0:{hi ^ 0xFFFF:x}:{lo ^ 0xFFFF:x}]",
        f"[fe80::5efe:{address}]",
        f"[::ffff:0:{address}]",
    )
    yield from (
        f"site.example@{address}",
        f"site.example:80@{address}",
        f"a%40b:c%3A@{address}",
        f"{address[:-1]}\t{address[-1]}",
        f"{address[:3]}\n{address[3:]}",
        f"{address[0]}\u00ad{address[1:]}",
        f"{address}\u200b",
    )


def of_v6(address: str) -> Iterator[str]:
    yield from (
        f"[{address}]",
        f"[{address.upper()}]",
        f"x@[{address}]",
        f"[{address}%25eth0]",
        f"[{address}%eth0]",
        f"[{address}%251]",
    )


def hosts() -> list[str]:
    """All of them, each once."""
    return list(
        dict.fromkeys(
            [*(s for a in V4 for s in of_v4(a)), *(s for a in V6 for s in of_v6(a)), *NAMES]
        )
    )


def urls(port: int) -> list[str]:
    """An absolute address for each spelling, at a port, each with a path of its own; then odd
    spellings of the rest.
    """
    plain = [f"http://{host}:{port}/s{n}" for n, host in enumerate(hosts())]
    odd = [form.format(at=f"127.0.0.1:{port}", n=n) for n, form in enumerate(_ODD)]
    return plain + odd


_ODD = (
    "http:\\\\{at}\\o{n}",
    "http:/{at}/o{n}",
    "http:{at}/o{n}",
    "http:///{at}/o{n}",
    "http://////{at}/o{n}",
    "HTTP://{at}/o{n}",
    "hTtP:\\/{at}/o{n}",
    " http://{at}/o{n} ",
    "\x01http://{at}/o{n}",
    "ht\ntp://{at}/o{n}",
    "http://\t{at}/o{n}",
    "http://site.example\\@{at}/o{n}",
    "http://{at}\\@site.example/o{n}",
    "http://{at}#@site.example/o{n}",
    "http://{at}?@site.example/o{n}",
    "http://site.example:80;@{at}/o{n}",
    "http://a:b:c@@{at}/o{n}",
    "http://{at}/..//o{n}",
    "http://{at}:80/o{n}",
    "https://{at}/o{n}",
    "ftp://{at}/o{n}",
    "file://{at}/o{n}",
    "gopher://{at}/o{n}",
    "dict://{at}/o{n}",
    "ws://{at}/o{n}",
    "javascript://{at}/o{n}",
    "jar:http://{at}!/o{n}",
    "view-source:http://{at}/o{n}",
    "feed:http://{at}/o{n}",
    "data:text/html,{at}{n}",
    "blob:http://{at}/o{n}",
)
