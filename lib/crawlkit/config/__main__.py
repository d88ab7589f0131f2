"""`python -m crawlkit.config docs|yaml` prints docs/configuration.md or conf/default.yaml."""

import sys

from crawlkit.config.docs import to_markdown, to_yaml

if __name__ == "__main__":
    print(to_yaml() if sys.argv[1:] == ["yaml"] else to_markdown(), end="")
