"""spark-submit jobs/rank.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]: the
same as `crawlkit rank`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["rank", *sys.argv[1:]])
