"""spark-submit jobs/dedup.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]: the
same as `crawlkit dedup`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["dedup", *sys.argv[1:]])
