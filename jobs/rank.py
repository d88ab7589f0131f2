"""spark-submit jobs/rank.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]: the
same as `crawlkit rank`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["rank", *sys.argv[1:]])
