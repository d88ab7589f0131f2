"""The data of a crawl in Python: tables as frames, stored records (docs/python.md)."""
