"""`make setup-render`: a Chromium out of an npm package, fetched by npm, checked and unpacked."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.resources import files
from pathlib import Path

import brotli

from crawlkit.adapters.browser.rendering import own_chromium

_MEMBER = "package/bin/chromium.br"
_PIECE_BYTES = 1 << 20
_TIMEOUT_S = 300


class ChromiumError(RuntimeError):
    """The package cannot be had, or it is not the one that was locked."""

    exit_code = 2


def fetch_chromium(to: Path) -> None:
    """Put the Chromium of data/chromium.lock at `to`, if it is not there. Raises ChromiumError."""
    name, version, sha256 = files("crawlkit").joinpath("data/chromium.lock").read_text().split()
    stamp = to.with_suffix(".version")
    if to.is_file() and stamp.is_file() and stamp.read_text() == version:
        return
    npm = shutil.which("npm")
    if npm is None:
        raise ChromiumError("npm is not on PATH: name a Chromium of your own by render.chromium")
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        command = [npm, "pack", "--silent", f"{name}@{version}"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        packed = next(Path(folder).glob("*.tgz"), None)
        if done.returncode or packed is None:
            raise ChromiumError(f"npm pack {name}@{version}: {done.stderr.strip()[-300:]}")
        if hashlib.sha256(packed.read_bytes()).hexdigest() != sha256:
            raise ChromiumError(f"{packed.name} is not the package that was locked")
        unpacked = Path(folder) / "chromium"
        _unpack(packed, unpacked)
        unpacked.chmod(0o755)
        os.replace(unpacked, to)
        stamp.write_text(version)


def _unpack(packed: Path, to: Path) -> None:
    stream = brotli.Decompressor()
    with tarfile.open(packed) as tar, open(to, "wb") as out:
        member = tar.extractfile(_MEMBER)
        if member is None:
            raise ChromiumError(f"{packed.name} has no {_MEMBER}")
        while piece := member.read(_PIECE_BYTES):
            out.write(stream.process(piece))


def main() -> int:
    """`python -m crawlkit.runtime.chromium_setup`."""
    try:
        fetch_chromium(own_chromium())
    except (ChromiumError, OSError, subprocess.TimeoutExpired) as e:
        print(f"crawlkit: {e}", file=sys.stderr)
        return 2
    print(own_chromium())
    return 0


if __name__ == "__main__":
    sys.exit(main())
