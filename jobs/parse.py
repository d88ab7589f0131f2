"""spark-submit jobs/parse.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]: the
same as `crawlkit parse`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["parse", *sys.argv[1:]])
