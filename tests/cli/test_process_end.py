"""How the process of a command ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.waits
COMMAND = [sys.executable, "-m", "crawlkit"]


@pytest.mark.parametrize(
    "words", [["config", "--all"], ["--help"], ["robots", "-h"], ["normalize", "http://a.b/"]]
)
def test_a_reader_that_went_away_is_no_error(words):
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        command.stdout.close()
        err = command.stderr.read()
        assert (command.wait(60), err) == (0, b"")


NATIVE_THREADS = """
import sys, threading, time
from unittest import mock
from crawlkit.cli import main
def answer():
    print("answered")
    threading.Thread(target=time.sleep, args=(60,)).start()  # the interpreter would wait for it
    raise SystemExit(1)
with mock.patch.object(main, "main", answer):
    main.start()
"""


def test_threads_that_still_run_do_not_keep_or_change_the_end():
    done = subprocess.run(
        [sys.executable, "-c", NATIVE_THREADS], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "answered\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_a_stream_that_was_closed_from_the_start_is_no_error(closed):
    words = f'"$0" -m crawlkit robots -h {closed}'
    done = subprocess.run(["sh", "-c", words, sys.executable], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
