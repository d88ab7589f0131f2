"""One request of a slot, and what its answer means for the host's pace."""

from __future__ import annotations

import logging
import random
import time
from typing import Any

from crawlkit.adapters.net.engine import request_headers
from crawlkit.adapters.store.lease import Lease, LeaseLost
from crawlkit.config import Config
from crawlkit.model import Answer, FetchRequest
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.frontier.fetch_outcome import NEVER_SENT
from crawlkit.rules.politeness.block_pages import challenge_of
from crawlkit.rules.politeness.host_state import Event, after_answer, is_urgent
from crawlkit.rules.politeness.pacer import Send
from crawlkit.slot.hosts import SlotHosts
from crawlkit.slot.inputs import Fetches, SlotClock
from crawlkit.slot.ledger import Ledger
from crawlkit.slot.robots import decode_answer

log = logging.getLogger(__name__)
_CHALLENGE_BYTES = 32_768


class Sender:
    """Sends requests and takes each answer's meaning into the host's state.

    `chance` makes the jitter.
    """

    def __init__(
        self,
        cfg: Config,
        lease: Lease,
        engine: Fetches,
        hosts: SlotHosts,
        ledger: Ledger,
        clock: SlotClock,
        chance: random.Random,
    ) -> None:
        self._cfg = cfg
        self._lease = lease
        self._engine = engine
        self._hosts = hosts
        self._ledger = ledger
        self._clock = clock
        self._chance = chance

    async def fetch(
        self,
        url: str,
        etag: str | None = None,
        last_modified: str | None = None,
        accept: str | None = None,
        **limits: Any,
    ) -> Answer:
        """One request and its answer, whose body counts as held until `release_body`.

        Raises LeaseLost: this process was frozen since the lease was last looked at.
        """
        try:
            headers = request_headers(
                self._cfg.agent, url, etag, last_modified, **({"accept": accept} if accept else {})
            )
        except Refused as refusal:
            return Answer(url, error=refusal.reason, error_detail=refusal.detail)
        if not self._lease.may_send(self._cfg.fetch.timeout_s):
            raise LeaseLost(f"{self._lease.key}: held up, nothing more is sent")
        started = time.time()
        # a fault of ours in reading one answer is no reason to lose the slot
        try:
            answer = await self._engine.fetch(FetchRequest(url, headers), **limits)
        except Exception as e:
            log.exception("fetching %s", url)
            return Answer(
                url,
                error=Reason.HTTP_MALFORMED,
                error_detail=f"internal error: {e!r:.200}",
                wall_start=started,
                wall_end=time.time(),
            )
        self._engine.budget.take(len(answer.body))
        return answer

    def release_body(self, answer: Answer) -> None:
        """The answer's body is with the writer's file."""
        self._engine.budget.give(len(answer.body))

    async def settle(self, ticket: Send, answer: Answer) -> None:
        """Take what the answer means for the host's pace into its state.

        Returns when what must not be forgotten is durable: before the host's next request.
        """
        pacer = self._hosts.pacer
        if answer.error in NEVER_SENT:
            pacer.give_back(ticket)
            return
        host = ticket.host
        event = self._event(ticket, answer)
        before = pacer.state(host)
        state = after_answer(before, event, self._cfg, self._chance.random())
        self._hosts.set_state(host, state)
        if answer.ip is not None:
            pacer.set_address(host, answer.ip)
        if is_urgent(before, state, event):
            await self._ledger.store_state(state)
        pacer.end(ticket)

    def _event(self, ticket: Send, answer: Answer) -> Event:
        now = self._clock()
        refused_by_us = answer.error == Reason.CONTENT_TYPE  # the server did answer
        status = 200 if refused_by_us else answer.status
        return Event(
            now - (answer.mono_end - answer.mono_start),
            now,
            status,
            answer.header("retry-after"),
            answer.header("date"),
            _challenge(answer, status) if status else None,
            ticket.job.is_page,
            answer.ip,
        )


def _challenge(answer: Answer, status: int) -> str | None:
    """The block page that an answer is, by name."""
    body = decode_answer(answer, _CHALLENGE_BYTES).body if status >= 400 else b""
    return challenge_of(status, answer.headers, body)
