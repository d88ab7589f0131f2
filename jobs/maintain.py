"""spark-submit jobs/maintain.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit maintain`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["maintain", *sys.argv[1:]])
