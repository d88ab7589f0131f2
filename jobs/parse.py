"""spark-submit jobs/parse.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]: the
same as `crawlkit parse`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["parse", *sys.argv[1:]])
