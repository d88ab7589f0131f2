"""The verbs of `crawlkit`, a module for each group; main.py loads the one that is called."""
