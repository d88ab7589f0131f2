"""The peer of bench.rounds: a broad crawl by Scrapy with link extraction and WARC writing.

`python -m bench.scrapy_crawl SETTINGS.json`.

SETTINGS: seeds, hosts (name -> address), documented (hosts crawled whole), articles (URLs of which
only these are), warc (file to write).
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import CachingThreadedResolver
from twisted.internet import defer
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

GIVEN = json.loads(Path(sys.argv[1]).read_text()) if __name__ == "__main__" else {}

# https://docs.scrapy.org/en/latest/topics/broad-crawls.html
SETTINGS = {
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "CONCURRENT_REQUESTS": 100,
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "LOG_LEVEL": "ERROR",
    "COOKIES_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 180,
    "RETRY_ENABLED": True,
    "ROBOTSTXT_OBEY": True,
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "Mozilla/5.0 (compatible; bench/1; +https://example.invalid/crawler)",
    "DEPTH_LIMIT": 15,
    "HTTPERROR_ALLOW_ALL": True,
}


class Loopback(CachingThreadedResolver):
    """Names of the web are addresses on loopback."""

    def getHostByName(self, name, timeout=None):
        return defer.succeed(GIVEN["hosts"][name])


class Spider(scrapy.Spider):
    name = "web"

    def __init__(self) -> None:
        super().__init__()
        self.links = LinkExtractor()
        self.file = open(GIVEN["warc"], "wb")  # noqa: SIM115 (open for the whole crawl)
        self.writer = WARCWriter(self.file, gzip=True)
        self.documented, self.articles = set(GIVEN["documented"]), set(GIVEN["articles"])
        self.statuses: dict[str, int] = {}
        self.found = 0

    async def start(self):  # noqa: ANN201
        for url in GIVEN["seeds"]:
            yield scrapy.Request(url)

    def parse(self, response):  # noqa: ANN001, ANN201
        self.statuses[str(response.status)] = self.statuses.get(str(response.status), 0) + 1
        self._store(response)
        if response.status != 200 or not isinstance(response, scrapy.http.HtmlResponse):
            return
        for link in self.links.extract_links(response):
            self.found += 1
            if urlsplit(link.url).hostname in self.documented or link.url in self.articles:
                yield scrapy.Request(link.url)

    def _store(self, response) -> None:  # noqa: ANN001
        fields = [
            (k.decode("latin-1"), v.decode("latin-1"))
            for k, vs in response.headers.items()
            for v in vs
        ]
        asked = [
            (k.decode("latin-1"), v.decode("latin-1"))
            for k, vs in response.request.headers.items()
            for v in vs
        ]
        record = self.writer.create_warc_record(
            response.url,
            "response",
            io.BytesIO(response.body),
            len(response.body),
            http_headers=StatusAndHeaders(f"{response.status} OK", fields, "HTTP/1.1"),
        )
        request = self.writer.create_warc_record(
            response.url,
            "request",
            http_headers=StatusAndHeaders("GET / HTTP/1.1", asked, is_http_request=True),
        )
        self.writer.write_request_response_pair(request, record)

    def closed(self, reason: str) -> None:
        self.file.close()
        stats = self.crawler.stats.get_stats()
        print(
            json.dumps(
                {
                    "statuses": self.statuses,
                    "links": self.found,
                    "requests": stats.get("downloader/request_count"),
                    "bytes": stats.get("downloader/response_bytes"),
                }
            )
        )


if __name__ == "__main__":
    process = CrawlerProcess(SETTINGS | {"DNS_RESOLVER": Loopback})
    process.crawl(Spider)
    process.start()
