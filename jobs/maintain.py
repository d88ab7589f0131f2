"""spark-submit jobs/maintain.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit maintain`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["maintain", *sys.argv[1:]])
