"""A name server on loopback, in a thread: answers by a table of names, or not at all."""

from __future__ import annotations

import socket
import threading

import dns.flags
import dns.message
import dns.rcode
import dns.rrset


class NameServer:
    """names: host -> IPv4 address, with `ttl` s. `questions`: names asked for, by type.

    While `down`, nothing is answered.
    """

    def __init__(self, names: dict[str, str], ttl: int = 3600) -> None:
        self.names, self.ttl, self.down = names, ttl, False
        self.questions: list[tuple[str, str]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                data, sender = self._socket.recvfrom(4096)
            except OSError:
                return
            query = dns.message.from_wire(data)
            name, kind = (
                query.question[0].name.to_text(omit_final_dot=True).lower(),
                dns.rdatatype.to_text(query.question[0].rdtype),
            )
            self.questions.append((name, kind))
            if self.down:
                continue
            reply = dns.message.make_response(query)
            reply.flags |= dns.flags.RA
            if name not in self.names:
                reply.set_rcode(dns.rcode.NXDOMAIN)
            elif kind == "A":
                reply.answer = [
                    dns.rrset.from_text(
                        query.question[0].name, self.ttl, "IN", "A", self.names[name]
                    )
                ]
            self._socket.sendto(reply.to_wire(), sender)
