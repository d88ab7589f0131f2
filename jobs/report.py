"""spark-submit jobs/report.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit report`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["report", *sys.argv[1:]])
