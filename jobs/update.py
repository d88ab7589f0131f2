"""spark-submit jobs/update.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit update`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["update", *sys.argv[1:]])
