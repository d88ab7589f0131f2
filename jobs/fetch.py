"""spark-submit jobs/fetch.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]: the
same as `crawlkit fetch`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["fetch", *sys.argv[1:]])
