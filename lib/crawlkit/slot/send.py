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
from crawlkit.rules.politeness.pacer import Pacer, Send
from crawlkit.slot.inputs import Fetches, SlotClock
from crawlkit.slot.ledger import Ledger
from crawlkit.slot.robots import decoded

log = logging.getLogger(__name__)
_CHALLENGE_BYTES = 32_768


class Sender:
    """`touched`: hosts whose state has changed and is to be kept. `chance` makes the jitter."""

    def __init__(
        self,
        cfg: Config,
        lease: Lease,
        engine: Fetches,
        pacer: Pacer,
        ledger: Ledger,
        clock: SlotClock,
        chance: random.Random,
    ) -> None:
        (
            self._cfg,
            self._lease,
            self._engine,
            self._pacer,
            self._ledger,
            self._clock,
            self._chance,
        ) = (
            cfg,
            lease,
            engine,
            pacer,
            ledger,
            clock,
            chance,
        )
        self.touched: set[str] = set()

    async def ask(
        self,
        url: str,
        etag: str | None = None,
        last_modified: str | None = None,
        accept: str | None = None,
        **limits: Any,
    ) -> Answer:
        """One request and its answer, whose body counts as held until `stored`.

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
        try:
            answer = await self._engine.fetch(FetchRequest(url, headers), **limits)
        except (
            Exception
        ) as e:  # a fault of ours in reading one answer is no reason to lose the slot
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

    def stored(self, answer: Answer) -> None:
        """The answer's body is with the writer's file."""
        self._engine.budget.give(len(answer.body))

    async def settle(self, ticket: Send, answer: Answer) -> None:
        """What the answer means for the host's pace; what must not be forgotten is durable before
        its next request.
        """
        host = ticket.host
        if answer.error in NEVER_SENT:
            self._pacer.unused(ticket)
            return
        now = self._clock()
        status = (
            200 if answer.error == Reason.CONTENT_TYPE else answer.status
        )  # we refused, the server did answer
        challenge = (
            challenge_of(
                status,
                answer.headers,
                decoded(answer, _CHALLENGE_BYTES).body if status >= 400 else b"",
            )
            if status
            else None
        )
        event = Event(
            now - (answer.mono_end - answer.mono_start),
            now,
            status,
            answer.header("retry-after"),
            answer.header("date"),
            challenge,
            ticket.job.is_page,
            answer.ip,
        )
        before = self._pacer.state(host)
        state = after_answer(before, event, self._cfg, self._chance.random())
        self._pacer.set_state(host, state)
        self.touched.add(host)
        if answer.ip is not None:
            self._pacer.set_address(host, answer.ip)
        if is_urgent(before, state, event):
            await self._ledger.durable(state)
        self._pacer.ended(ticket)
