"""`python -m tests.fakeweb --seed 7 --log FILE --ready FILE`: serve a synthetic web until
terminated.

FILE of --ready is written (JSON: port, pid, hosts) when every socket listens.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path

from tests.fakeweb import build
from tests.fakeweb.server import Server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakeweb")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", required=True)
    parser.add_argument("--day-file")
    parser.add_argument("--ready")
    args = parser.parse_args()
    server = Server(build(args.seed, args.scale), args.log, args.port, args.day_file)
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: server.http.stop())
    if args.ready:
        fresh = Path(args.ready + ".new")
        fresh.write_text(
            json.dumps({"port": server.port, "pid": os.getpid(), "hosts": len(server.web.hosts)})
        )
        os.replace(fresh, args.ready)
    server.http.run()


if __name__ == "__main__":
    main()
