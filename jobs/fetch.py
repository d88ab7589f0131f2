"""spark-submit jobs/fetch.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]: the
same as `crawlkit fetch`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["fetch", *sys.argv[1:]])
