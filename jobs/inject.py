"""spark-submit jobs/inject.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit inject`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["inject", *sys.argv[1:]])
