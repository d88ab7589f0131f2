"""spark-submit jobs/report.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit report`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["report", *sys.argv[1:]])
