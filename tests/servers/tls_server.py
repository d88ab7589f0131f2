"""A loopback TLS server for each fault of a certificate, with keys made on the spot."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from crawlkit.adapters.net.tls import harden
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\nConnection:"
    b" close\r\n\r\nhello"
)
_DAY = datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@cache
def _authority() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    return _certificate("crawlkit test authority", None, -1, 2)


def _certificate(
    name: str,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
    starts: int,
    ends: int,
    alternative: bool = True,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer[0].subject if issuer else _name(name))
    )
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now + starts * _DAY).not_valid_after(now + ends * _DAY)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True
    )
    if "." in name and alternative:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256()), key


def trusting_context() -> ssl.SSLContext:
    """A client context as ours, which trusts the test authority only."""
    return harden(
        ssl.create_default_context(
            cadata=_authority()[0].public_bytes(serialization.Encoding.PEM).decode()
        )
    )


# How the faults are called: the first of these words that a fault's name holds decides.
_KINDS = {
    "expire": "expired",
    "not_yet": "not_yet_valid",
    "future": "not_yet_valid",
    "self": "self_signed",
    "intermediate": "untrusted",
    "chain": "untrusted",
    "root": "untrusted",
    "trust": "untrusted",
    "issuer": "untrusted",
    "unknown_ca": "untrusted",
    "authority": "untrusted",
    "san": "no_name",
    "cn": "no_name",
    "name": "wrong_name",
    "host": "wrong_name",
    "mismatch": "wrong_name",
    "no_tls": "plain",
    "plain": "plain",
    "garbage": "plain",
    "handshake": "plain",
    "alert": "plain",
    "protocol": "old_version",
    "version": "old_version",
    "tls1": "old_version",
    "tlsv1": "old_version",
    "ssl": "old_version",
    "cipher": "old_version",
}


def kind_of(fault: str | None) -> str | None:
    """What the server does for a fault of this name; None: nothing wrong.

    Raises KeyError for a name that says nothing.
    """
    if fault in (None, "", "none", "ok", "valid"):
        return None
    if fault in ("no_tls", "handshake", "handshake_failure", "protocol_error", "garbage"):
        return "plain"
    return next((kind for word, kind in _KINDS.items() if word in fault), None) or _KINDS[fault]


def _server_context(fault: str | None, host: str) -> ssl.SSLContext:
    kind = kind_of(fault)
    issuer = (
        None
        if kind == "self_signed"
        else _certificate("another authority", None, -1, 2)
        if kind == "untrusted"
        else _authority()
    )
    starts, ends = {"expired": (-10, -1), "not_yet_valid": (1, 10)}.get(kind or "", (-1, 2))
    certificate, key = _certificate(
        "other.example" if kind == "wrong_name" else host,
        issuer,
        starts,
        ends,
        alternative=kind != "no_name",
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if kind == "old_version":
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):  # that they are old is the point
            context.minimum_version, context.maximum_version = (
                ssl.TLSVersion.TLSv1,
                ssl.TLSVersion.TLSv1_1,
            )
    with tempfile.TemporaryDirectory() as folder:
        pem = Path(folder) / "server.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
        context.load_cert_chain(pem)
    return context


def write_certificate(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Files of the test authority, of a certificate for a name by it, and of its key."""
    certificate, key = _certificate(name, _authority(), -1, 2)
    files = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
    for file, made in zip(files, (_authority()[0], certificate), strict=False):
        file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[2].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


@contextlib.contextmanager
def tls_server(fault: str | None, host: str) -> Iterator[int]:
    """A server on 127.0.0.1 that shows the fault and answers PAGE; yields its port."""
    context = None if kind_of(fault) == "plain" else _server_context(fault, host)

    def serve(client: socket.socket) -> None:
        stream = context.wrap_socket(client, server_side=True) if context else client
        stream.recv(65536)
        stream.sendall(PAGE)
        if context:
            stream.unwrap()

    with serving(serve, 5) as port:
        yield port


@contextlib.contextmanager
def serving(serve: Callable[[socket.socket], None], timeout_s: float) -> Iterator[int]:
    """One thread that gives each connection to 127.0.0.1 to `serve`; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                client.settimeout(timeout_s)
                with contextlib.suppress(OSError), client:
                    serve(client)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout_s)
