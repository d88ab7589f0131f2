"""`crawlkit plan`: the planner's profiles on the command line, and a rate measured here."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from crawlkit.adapters.warc.writer import WarcWriter
from crawlkit.config import ConfigError
from crawlkit.model import Answer
from crawlkit.planner.capacity import PlanError, differences, plan, with_inputs
from crawlkit.planner.profiles import PROFILES
from crawlkit.rules.page.page import parse_page

_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def plan_command(profile: str, assignments: list[str], measure: bool) -> dict[str, Any]:
    """The plan of a profile with some inputs replaced. Raises ConfigError."""
    if profile not in PROFILES:
        raise ConfigError(f"--profile {profile!r:.40}: expected one of {', '.join(PROFILES)}")
    inputs = dict(a.partition("=")[::2] for a in assignments)
    if measure:
        inputs["cpu_ms_per_page"] = str(
            measured_cpu_ms(
                int(float(inputs.get("page_bytes", PROFILES[profile].workload.page_bytes)))
            )
        )
    try:
        workload = with_inputs(PROFILES[profile].workload, inputs)
        outputs = plan(workload)
    except PlanError as e:
        raise ConfigError(f"plan: {e}") from None
    changed = {n: v for n, v in vars(workload).items() if n in inputs}
    return {
        "profile": profile,
        "title": PROFILES[profile].title,
        "inputs": changed,
        "outputs": outputs,
        "source": [] if inputs else differences(PROFILES[profile]),
        "changes": list(PROFILES[profile].changes),
    }


def plan_text(p: dict[str, Any]) -> str:
    """The result of plan_command for a terminal."""
    width = max(map(len, p["outputs"]))
    inputs = ", ".join(f"{name} = {value:g}" for name, value in p["inputs"].items())
    lines = [f"{p['profile']}: {p['title']}" + (f" with {inputs}" if inputs else "")]
    lines += [f"  {name:<{width}}  {readable(value)}" for name, value in p["outputs"].items()]
    if p["source"]:
        lines.append("beside the source:")
        lines += [_beside(row, width) for row in p["source"]]
    return "\n".join([*lines, *(f"  {change}" for change in p["changes"])])


def _beside(row: dict[str, Any], width: int) -> str:
    if row["slip"]:
        verdict = "SLIP OF THE SOURCE"
    else:
        verdict = "within 5%" if row["within"] else f"{row['off']:+.0%}"
    note = f": {row['note']}" if row["note"] else ""
    return (
        f"  {row['output']:<{width}}  {readable(row['computed']):>9}  source"
        f" {readable(row['source']):>9}  {verdict}{note}"
    )


def readable(value: float) -> str:
    """A number with a unit prefix: 1.2e9 -> 1.2 G."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g}"


def measured_cpu_ms(page_bytes: int, seconds: float = 2.0) -> float:
    """CPU ms of one core to store and parse a made-up page of this size on this machine.

    Fetching and the rounds' own work come on top.
    """

    para = (
        "<p>The harbour master keeps the tide tables of the year and <a href='/page-{0}'>page"
        " {0}</a> names every mooring between the quays.</p>"
    )
    body = (
        "<html><head><title>Tides</title></head><body>"
        + "".join(para.format(n) for n in range(max(page_bytes // len(para), 1)))
        + "</body></html>"
    ).encode()[: max(page_bytes, 1000)]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = Answer(
        "http://site.example/",
        status=200,
        http_version="1.1",
        headers=[("Content-Type", "text/html")],
        header_bytes=head,
        body=body,
    )
    n, begin = 0, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        writer = WarcWriter(Path(folder), ("plan", "r", 0, 1), {}, roll_bytes=1 << 30, roll_s=1e9)
        while time.process_time() - begin < seconds:
            writer.write(answer, f"c{n}")
            parse_page(body, answer.url, "text/html", answer.headers, "crawlkit")
            n += 1
        writer.close()
    return round((time.process_time() - begin) / n * 1000, 3)
