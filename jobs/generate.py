"""spark-submit jobs/generate.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit generate`.
"""

import sys

from crawlkit.cli.main import run

if __name__ == "__main__":
    run(["generate", *sys.argv[1:]])
