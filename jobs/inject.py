"""spark-submit jobs/inject.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit inject`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["inject", *sys.argv[1:]])
