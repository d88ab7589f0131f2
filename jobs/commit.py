"""spark-submit jobs/commit.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit commit`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["commit", *sys.argv[1:]])
