"""`python -m crawlkit`: the same as the command `crawlkit`."""

from crawlkit.cli.main import start

if __name__ == "__main__":
    start()
