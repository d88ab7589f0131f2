"""TLS contexts, and the name of each way in which a connection can fail."""

from __future__ import annotations

import errno
import functools
import ssl
from typing import Any

import certifi

from crawlkit.outcomes import Reason, Refused

# X509_V_ERR_... of OpenSSL (x509_vfy.h)
_EXPIRED = 10
_NAME_MISMATCH = {62, 64}  # host name, IP address


@functools.cache
def default_context() -> ssl.SSLContext:
    """Verifies certificate and name against the system's trust store, else that of certifi.

    certifi is a dependency of requests.
    """
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"] and not ssl.get_default_verify_paths().capath:
        context.load_verify_locations(certifi.where())
    return harden(context)


@functools.cache
def unverified_context() -> ssl.SSLContext:
    """Accepts any certificate: for hosts that the operator named."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return harden(context)


def harden(context: ssl.SSLContext) -> ssl.SSLContext:
    """Set what all our contexts have in common; the same context.

    HTTP/1.1 alone, no session tickets, since no connection resumes another, and no server name in a
    certificate's subject, which Python accepts if there is no alternative name (RFC 9525 2, 6.3).
    """
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_TICKET
    return context


# A wildcard stands for one whole label, whatever is in it (RFC 9525 6.3), as browsers have it;
# OpenSSL lets it match letters, digits and hyphens alone.
def needs_own_check(name: str) -> bool:
    """Whether OpenSSL would not let a wildcard stand for the first label of a host name."""
    first = name.partition(".")[0]
    return not first.replace("-", "").isalnum() and ":" not in name


@functools.lru_cache(maxsize=8)
def chain_context(context: ssl.SSLContext) -> ssl.SSLContext:
    """A context with the same trust that leaves the name to `covers`."""
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    own.check_hostname = False
    own.verify_mode = ssl.CERT_REQUIRED
    own.verify_flags = context.verify_flags
    if context.get_ca_certs():
        own.load_verify_locations(cadata=b"".join(context.get_ca_certs(binary_form=True)))
    own.set_default_verify_paths()
    return harden(own)


def covers(certificate: Any, name: str) -> bool:
    """Whether a verified certificate (as `getpeercert`) is for a host name (RFC 9525 6.3)."""
    names = [
        v.lower() for kind, v in (certificate or {}).get("subjectAltName", ()) if kind == "DNS"
    ]
    _, dot, parent = name.lower().partition(".")
    return name.lower() in names or (bool(dot) and "." in parent and f"*.{parent}" in names)


def name_mismatch(name: str) -> ssl.SSLCertVerificationError:
    """The error of a certificate that is for other names."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = min(_NAME_MISMATCH)
    error.verify_message = f"Hostname mismatch, certificate is not valid for '{name}'."
    return error


def connect_reason(failure: OSError | None) -> Refused:
    """The refusal that names a failure to connect or to agree on TLS."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        reason = (
            Reason.TLS_CERT_EXPIRED
            if failure.verify_code == _EXPIRED
            else (
                Reason.TLS_NAME_MISMATCH
                if failure.verify_code in _NAME_MISMATCH
                else Reason.TLS_CERT_INVALID
            )
        )
        return Refused(reason, failure.verify_message[:200])
    if isinstance(failure, ssl.SSLError):
        return Refused(Reason.TLS_FAIL, (failure.reason or str(failure))[:200])
    if isinstance(failure, TimeoutError):
        return Refused(Reason.CONNECT_TIMEOUT)
    if isinstance(failure, ConnectionRefusedError):
        return Refused(Reason.CONNECT_REFUSED)
    code = (
        errno.errorcode.get(failure.errno or 0, type(failure).__name__) if failure else "no address"
    )
    return Refused(Reason.CONNECT_FAIL, code)
