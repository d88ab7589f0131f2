"""A slot: one task of the fetch stage, many hosts at once, each at its pace (REQUIREMENTS D, E2, N1).

`run_slot` takes the slot's lease, skips what earlier attempts have done, and gives every other row exactly one outcome.
Which host comes next is rules/pacing.py; robots.txt is slot_robots.py; what is kept, and when, is slot_record.py.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import logging
import math
import os
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from crawlkit.adapters.fetcher import request_headers
from crawlkit.adapters.guard import Guard, parse_place
from crawlkit.adapters.lease import Lease, LeaseLost
from crawlkit.adapters.objects import LocalObjects
from crawlkit.adapters.slot_io import Earlier, SlotClock, SlotIO, claim_attempt, put_progress, read_earlier, read_stop_list
from crawlkit.adapters.slot_record import Recorder, describe
from crawlkit.adapters.slot_robots import Origin, Origins, copy_of
from crawlkit.config import Config
from crawlkit.outcomes import Outcome, Reason, Refused
from crawlkit.records import Answer, Capture, FetchItem, FetchRequest
from crawlkit.rules.answers import NEVER_SENT, Judged, judge, refused_by_robots_error
from crawlkit.rules.blocks import challenge_of
from crawlkit.rules.conditional import conditional_headers
from crawlkit.rules.content_coding import decode_content
from crawlkit.rules.domains import registered_domain
from crawlkit.rules.pacing import GiveUp, Pacer, Resolve, Send
from crawlkit.rules.politeness import Event, HostState, after_answer, is_urgent
from crawlkit.rules.urls import UrlPolicy, host_of, origin_of, url_key

log = logging.getLogger(__name__)
_STEPS_AT_ONCE = 200  # then the sockets get their turn
_CHALLENGE_BYTES = 32_768
