"""The hosts of a slot: their pace, their robots.txt, and what operators have ordered for them."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

from crawlkit.adapters.store.objects import StoreUnavailable
from crawlkit.adapters.store.stop_list import Orders, read_orders
from crawlkit.model import FetchItem
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.politeness.pacer import Pacer
from crawlkit.rules.url.domains import registered_domain
from crawlkit.slot.robots import Origins
from crawlkit.slot.setup import SlotSetup

log = logging.getLogger(__name__)


class SlotHosts:
    """Lives in the event loop. `touched`: hosts whose state has changed and is to be stored."""

    def __init__(self, setup: SlotSetup, pacer: Pacer) -> None:
        self.pacer = pacer
        self.origins = Origins(setup.cfg, setup.allow_private, self.owns)
        self.touched: set[str] = set()
        self._objects = setup.io.objects
        self._round_id = setup.round_id
        self._earlier = setup.earlier
        self._domains: dict[str, str] = {}  # host -> registered domain
        self._orders = Orders({}, {}, {}, frozenset(), frozenset())
        self._has_orders = False

    def add(self, item: FetchItem) -> HostState | None:
        """Take in the host of a row; its state, or None if the host is known already."""
        self._domains[item.host] = item.domain
        if item.host in self.pacer:
            return None
        state = self._earlier.states.get(item.host) or _state_of(item)
        self.pacer.add_host(item.domain, state)
        return state

    def domain_of(self, host: str) -> str:
        """The registered domain of a host of this slot."""
        return self._domains[host]

    def owns(self, host: str) -> bool:
        """Whether this slot paces the requests to a host; adds new hosts of its domains."""
        domain = registered_domain(host)
        if host not in self.pacer and self.pacer.owns_domain(domain):
            self.pacer.add_host(domain, HostState(host))
            self._domains[host] = domain
            self._obey(host)
        return host in self.pacer

    def heed_crawl_delay(self, host: str) -> None:
        """Take over the Crawl-delay of the host's robots.txt files."""
        state = self.pacer.state(host)
        delay_s = self.origins.crawl_delay_s(host, state.robots_delay_s)
        if delay_s != state.robots_delay_s:
            self.set_state(host, dataclasses.replace(state, robots_delay_s=delay_s))

    async def heed_orders(self) -> None:
        """Read the stop list and obey it.

        If the store is unavailable, the orders read last stay in force; the lease bounds for how
        long. Raises ValueError for orders that cannot be read: nothing is sent against them;
        StoreUnavailable before they were read once.
        """
        try:
            self._orders = await asyncio.to_thread(read_orders, self._objects)
            self._has_orders = True
        except StoreUnavailable as e:
            if not self._has_orders:
                raise
            log.warning("stop list not read: %s", e)
            return
        for host in self.pacer.hosts():
            self._obey(host)

    @property
    def round_paused(self) -> bool:
        """Whether operators hold this round."""
        return self._round_id in self._orders.paused

    @property
    def round_abandoned(self) -> bool:
        """Whether operators have ended this round."""
        return self._round_id in self._orders.abandoned

    def _obey(self, host: str) -> None:
        """Bar a host that is stopped, and set the pace that is ordered for it."""
        if self._orders.stopped(host, self._domains[host]) is not None:
            self.pacer.bar(host, Reason.STOP_LIST)
        policy = self._orders.policies.get(host)
        if policy is None:
            return
        state = self.pacer.state(host)
        ordered = dataclasses.replace(
            state,
            operator_delay_s=policy["delay_s"],
            parallel=policy["parallel"],
            quota_max=policy["quota_max"],
            cycle_quota_max=policy["cycle_quota_max"],
        )
        if ordered != state:
            self.set_state(host, ordered)

    def set_state(self, host: str, state: HostState) -> None:
        """Replace a host's state, to be stored at the end."""
        self.pacer.set_state(host, state)
        self.touched.add(host)


def _state_of(item: FetchItem) -> HostState:
    """The host's state as handed over; a new one if that cannot be read."""
    if item.host_state:
        try:
            return HostState.from_json(item.host_state)
        except ValueError as e:
            log.warning("state of %s dropped: %s", item.host, e)
    return HostState(item.host)
