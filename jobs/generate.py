"""spark-submit jobs/generate.py --data DIR [--round-id ID] [--config FILE] [--set a.b=c] [--json]:
the same as `crawlkit generate`.
"""

import sys

from crawlkit.cli.app import app

if __name__ == "__main__":
    app(["generate", *sys.argv[1:]])
