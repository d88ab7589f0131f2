"""spark-submit jobs/update.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit update`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["update", *sys.argv[1:]])
