"""Archives the JVM's loaded classes, so that later sessions start in half the time.

`python -m crawlkit.local.class_archive SITE`. One round over the sample site loads what a crawl
needs; the JVM writes its classes to a file beside the JARs when it ends (JEP 350). The file fits
one JVM and class path: if they have changed, the JVM ignores it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from crawlkit.config import parse_config
from crawlkit.local.sample_site import serve
from crawlkit.round.drive import run_round
from crawlkit.round.job import make_job
from crawlkit.runtime.jars import archive_file
from crawlkit.runtime.session import java_options


def make_archive(site: Path, target: Path, limit_s: float = 300) -> None:
    """Crawl `site` for a round and keep the classes in `target`.

    Raises OSError, RuntimeError, what a crawl raises.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="crawlkit-classes-") as folder, serve(site) as web:
        cfg = parse_config("", "the sample site", tuple(web.config_sets()))
        options = f"{java_options(True)} -XX:ArchiveClassesAtExit={target} -Xlog:disable"
        cfg = cfg.model_copy(
            update={
                "spark": cfg.spark.model_copy(
                    update={"extra": cfg.spark.extra | {"spark.driver.extraJavaOptions": options}}
                )
            }
        )
        job = make_job(Path(folder), cfg, quick=True, engine="spark")
        round_ = job.crawl.open_round(time.time())
        job.run("inject", round_, lines=web.seeds)
        run_round(job, round_)
        gateway: Any = job.spark.sparkContext._gateway  # no public way leads to the JVM's process
        job.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(limit_s)
    if not target.is_file():
        raise RuntimeError(
            "the JVM wrote no class archive; crawls run without it, only their start is slower"
        )


if __name__ == "__main__":
    make_archive(Path(sys.argv[1]), archive_file())
