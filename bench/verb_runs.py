"""Each verb of the command line run again and again under load: its exit code, and that no process
ends by a signal or aborts after its answer.

CRAWLKIT_VERB_RUNS: runs of each verb (3); CRAWLKIT_VERB_MINUTES: no run begins after so many (60).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from crawlkit.cli.verb_table import VERBS
from crawlkit.local.web_server import Reply, Request, WebServer

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "crawlkit"]
U = "http://site.test/1"
EITHER = -1  # 0 or 1: whether an alert fires is not the point
LANES = 2  # folders worked on at the same time
ABORTED = 128  # a code from here on is a shell's word for a signal

# What makes each verb answer on a small finished crawl, in an order that can be repeated. {d}: the
# folder; {n}: number of the run; a + is a space in a word. Then the exit code that is right.
STEPS: tuple[tuple[str, int], ...] = (
    ("init {d}/new{n}", 0),
    ("crawl --data {d}/site --rounds 1", 0),
    ("round --data {d}/site", 0),
    ("open --round-id p{n} --data {d}/site", 0),
    ("pause p{n} --data {d}/site", 0),
    ("resume p{n} --data {d}/site", 0),
    ("abandon p{n} --data {d}/site", 0),
    ("recrawl " + U + " --data {d}/site", 0),
    ("inject --seeds {d}/seeds.txt --data {d}/site", 0),
    ("import urls {d}/seeds.txt --data {d}/site", 0),
    *((f"{stage} --data {{d}}/site", 0) for stage in "generate fetch commit parse dedup".split()),
    *((f"{stage} --data {{d}}/site", 0) for stage in "update rank report".split()),
    ("status --data {d}/site", 0),
    ("log --data {d}/site", 0),
    ("queues --data {d}/site", 0),
    ("freshness --data {d}/site", 0),
    ("explain " + U + " --data {d}/site", 0),
    ("diff r000001 r000002 --data {d}/site", 0),
    ("params --data {d}/site", 0),
    ("metrics --data {d}/site", 0),
    ("alerts --data {d}/site", EITHER),
    ("sql SELECT+count(*)+FROM+pages --data {d}/site", 0),
    ("hosts --data {d}/site", 0),
    ("errors --data {d}/site", 0),
    ("normalize HTTP://Site.Test:80/a/../b", 0),
    ("scope-test http://site.test/x --data {d}/site", 0),
    ("robots {d}/robots.txt http://site.test/private --agent mybot", 1),
    ("config --data {d}/site", 0),
    ("agent-page", 0),
    ("hint " + U + " --data {d}/site", 0),
    ("boost " + U + " --points 5 --data {d}/site", 0),
    ("block other.test --reason test --data {d}/site", 0),
    ("unblock other.test --data {d}/site", 0),
    ("complain other.test --reason test --data {d}/site", 0),
    ("host set site.test --delay-s 0.01 --data {d}/site", 0),
    ("command list --data {d}/site", 0),
    ("cat " + U + " --data {d}/site", 0),
    ("fetch-one " + U + " --data {d}/site", 0),
    ("parse-one {d}/page.html --url " + U, 0),
    ("audit --data {d}/site", 0),
    ("reconcile --data {d}/site", 0),
    ("export jsonl pages --data {d}/site --out {d}/pages{n}.jsonl", 0),
    ("cdxj --data {d}/site --out {d}/index{n}.cdxj", 0),
    ("maintain --data {d}/site", 0),
    ("rebuild --data {d}/site", 0),
    ("reparse r000001 --data {d}/site", 0),
    ("rebucket 8 --data {d}/site", 0),
    ("purge other.test --reason test --data {d}/site", 0),
    ("jars --help", 0),  # without it, it asks the network
    ("plan --profile 1e7-a-day", 0),
    ("websub --help", 0),  # it asks hubs
    ("doctor --help", 0),  # without it, 2 where something is missing
    ("serve --data {d}/site --port 0", 0),
)


def _answer(request: Request) -> Reply:
    if request.target == "/robots.txt":
        return Reply(200, [("Content-Type", "text/plain")], b"User-agent: *\nAllow: /\n")
    links = "".join(f"<a href=/{n}>{n}</a>" for n in range(8))
    body = f"<!doctype html><title>{request.target}</title><p>About {request.target}.{links}"
    return Reply(200, [("Content-Type", "text/html")], body.encode())


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "lib"), "CRAWLKIT_TOKEN": "t" * 16}


def run_step(words: list[str]) -> tuple[int, str]:
    """Exit code (negative: a signal) and the last line of standard error. serve is interrupted."""
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(),
    )
    if words[0] == "serve":
        assert process.stderr is not None
        process.stderr.readline()  # where it listens
        process.send_signal(signal.SIGINT)
    try:
        err = process.communicate(timeout=300)[1].decode("utf-8", "replace").strip()
    except subprocess.TimeoutExpired:
        process.kill()
        err = "ran longer than 300 s"
        process.communicate()
    return process.returncode, err.rpartition("\n")[2][:300]


def make_crawl(folder: Path, port: int) -> None:
    """A small finished crawl, and the files that verbs are given. Raises CalledProcessError."""
    sets = (
        "agent.info_url=http://site.test/bot",
        f'fetch.connect_to={{"site.test":"127.0.0.1:{port}"}}',
        'fetch.allow_private=["127.0.0.0/8"]',
        "politeness.delay_s=0.01",
    )
    words = ["crawl", "http://site.test/", "--data", str(folder / "site"), "--rounds", "3"]
    options = [part for text in sets for part in ("--set", text)]
    subprocess.run(
        [*COMMAND, *words, *options], check=True, capture_output=True, env=_environment()
    )
    (folder / "seeds.txt").write_text(f"{U}\n")
    (folder / "robots.txt").write_text("User-agent: *\nDisallow: /private\n")
    (folder / "page.html").write_text("<title>one</title><p>A page.")


@contextlib.contextmanager
def under_load() -> Iterator[None]:
    """A busy loop on each core."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_all(runs: int, minutes: float) -> tuple[Counter[str], list[str]]:
    """Runs of each verb that were made, and what went wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    end = time.monotonic() + 60 * minutes

    def lane(folder: Path, numbers: range, first: int) -> None:
        for n in numbers:
            for text, right in (*STEPS[first:], *STEPS[:first]):
                if time.monotonic() > end:
                    return
                words = [w.replace("+", " ") for w in text.format(d=folder, n=n).split()]
                code, err = run_step(words)
                counts[words[0]] += 1
                if code != right and not (right == EITHER and code in (0, 1)):
                    kind = "ABORTED" if code < 0 or code >= ABORTED else "wrong"
                    wrong.append(f"{kind} {code}, not {right}: {' '.join(words)}: {err}")

    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / str(n) for n in range(LANES)]
        with WebServer(["127.0.0.1"], _answer) as web:
            folders[0].mkdir()
            make_crawl(folders[0], web.port)
            for folder in folders[1:]:
                shutil.copytree(folders[0], folder)
            with under_load():
                lanes = [
                    threading.Thread(
                        target=lane,
                        args=(folder, range(k, runs, LANES), len(STEPS) * k // LANES),
                    )
                    for k, folder in enumerate(folders)
                ]
                for thread in lanes:
                    thread.start()
                for thread in lanes:
                    thread.join()
    return counts, wrong


def main() -> None:
    """Print how often each verb was run and what went wrong; exits with 1 if anything did."""
    runs = int(os.environ.get("CRAWLKIT_VERB_RUNS", "3"))
    began = time.monotonic()
    counts, wrong = run_all(runs, float(os.environ.get("CRAWLKIT_VERB_MINUTES", "60")))
    aborted = sum(line.startswith("ABORTED") for line in wrong)
    print(
        f"{sum(counts.values())} runs of {len(counts)} of {len(VERBS)} verbs"
        f" ({min(counts.values(), default=0)} to {max(counts.values(), default=0)} of each) in"
        f" {time.monotonic() - began:.0f} s under a busy loop on each core:"
        f" {len(wrong) - aborted} wrong exit codes, {aborted} ended by a signal"
    )
    print("\n".join(wrong))
    if wrong:
        sys.exit(1)
