"""spark-submit jobs/commit.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit commit`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["commit", *sys.argv[1:]])
