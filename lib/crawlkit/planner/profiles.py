"""Published capacity plans as profiles, and the steps from one machine to 5e9 pages a day.

An input that a source does not state, and its figures need, is named in the note of the claim.
"""

from __future__ import annotations

from crawlkit.planner.capacity import DAY_S, MONTH_S, Claim, Profile, Workload

_A = Workload(
    pages=1e9,
    period_s=MONTH_S,
    page_bytes=100e3,
    compression=5,
    metadata_bytes=500,
    dns_miss_share=0.1,
    fetch_s=2,
    in_flight=50,
    peak_factor=3,
    known_urls=1e10,
)
_E = Workload(
    pages=5e9,
    period_s=DAY_S,
    page_bytes=100e3,
    stored_compressed=True,
    links_per_page=20,
    known_urls=5e10,
    frontier_urls=5e10,
    url_bytes=110,
    shards=64,
    hosts=5e8,
    duplicate_share=0.3,
    in_flight=500,
    fetch_s=1.5,
    peak_factor=2.6,
    size_for_peak=True,
)

PROFILES: dict[str, Profile] = {
    "A": Profile(
        "1 billion pages a month",
        _A,
        (
            Claim("pages_per_s", 386),
            Claim("pages_per_s", 400, "the source plans with a rounded rate"),
            Claim("peak_pages_per_s", 1200),
            Claim("raw_bytes_per_month", 100e12),
            Claim("stored_bytes_per_month", 20e12),
            Claim("raw_bytes_per_year", 1.2e15),
            Claim("metadata_bytes_per_month", 500e9),
            Claim("bytes_per_s", 40e6),
            Claim("bits_per_s", 320e6),
            Claim("peak_bits_per_s", 960e6),
            Claim("dns_queries_per_s", 40),
            Claim("pages_per_s_of_a_machine", 25),
            Claim("workers", 16),
            Claim("machines", 24),
            Claim(
                "filter_bytes",
                1.2e9,
                "slip of the source: 9.6 x 10^10 bits are 12 GB, not 1.2 GB",
                slip=True,
            ),
            Claim("filter_bytes", 12e9, "the slip put right"),
            Claim("filter_hashes", 7),
            Claim("robots_bytes", 5e9),
            Claim("shards", 1e4, "10^10 known URLs in shards of 10^6"),
            Claim("host_pages_per_day", 86_400),
            Claim("quota_binds", 0, "a quota of 100,000 a day never binds at 1 request/s"),
        ),
    ),
    "B": Profile(
        "1 billion pages a day",
        Workload(
            pages=1e9,
            period_s=DAY_S,
            page_bytes=100e3,
            links_per_page=50,
            dns_domains=1e7,
            dns_miss_share=0.1,
            known_urls=1e10,
        ),
        (
            Claim("pages_per_s", 11_600),
            Claim("bytes_per_s", 1.16e9),
            Claim("bits_per_s", 9.3e9),
            Claim("raw_bytes_per_day", 100e12),
            Claim("links_per_day", 5e10),
            Claim("dns_cache_bytes", 500e6),
            Claim("dns_hit_share", 0.9),
            Claim("filter_bytes", 12e9),
        ),
    ),
    "C": Profile(
        "10 billion pages a month",
        Workload(
            pages=1e10,
            period_s=MONTH_S,
            page_bytes=100e3,
            links_per_page=100,
            hosts=5e7,
            frontier_urls=1e8,
            url_bytes=200,
            known_urls=1e10,
            snapshots_kept=3,
            index_share=0.175,
            replicas=3,
            in_flight=50,
            cpu_ms_per_page=10,
        ),
        (
            Claim("pages_per_s", 3850),
            Claim("raw_bytes_per_month", 1e15),
            Claim(
                "history_bytes",
                4.7e15,
                "a month, three of snapshots, and indexes; their share is not stated: 17.5% gives"
                " the figure",
            ),
            Claim("replicated_bytes", 14e15),
            Claim("frontier_bytes", 20e9),
            Claim("filter_bytes", 12.5e9),
            Claim("host_state_bytes", 5e9),
            Claim("bits_per_s", 3e9),
            Claim("line_gbit", 10, "the peak of 9.3 Gbit/s needs a line of 10"),
            Claim(
                "machines",
                1000,
                "the source plans 1,000 nodes of 16 cores, 3.85 pages/s each; 50 requests in flight"
                " of 2 s would need 155, 233 with headroom: its nodes are filled by parsing, at"
                " about 3 CPU s a page",
            ),
        ),
    ),
    "D": Profile(
        "1 billion pages in 30 days by host affinity",
        Workload(pages=1e9, period_s=MONTH_S, page_bytes=100e3),
        (
            Claim("pages_per_s", 386),
            Claim("pages_per_s", 400, "about"),
            Claim("raw_bytes_per_month", 100e12),
            Claim("raw_bytes_per_year", 1.2e15),
        ),
    ),
    "E": Profile(
        "5 billion pages a day",
        _E,
        (
            Claim("pages_per_s", 58_000),
            Claim(
                "peak_pages_per_s", 150_000, "a peak factor of 2.6, not stated, gives the figure"
            ),
            Claim("bytes_per_s", 5.8e9),
            Claim("raw_bytes_per_day", 500e12),
            Claim("stored_bytes_per_month", 10e15),
            Claim("frontier_bytes", 5.5e12),
            Claim("shard_bytes", 85e9),
            Claim("filter_bytes", 60e9),
            Claim(
                "machines",
                450,
                "the time of a fetch is not stated: at 1.5 s, 450 nodes with 500 in flight hold the"
                " peak",
            ),
            Claim("url_checks_per_s", 1.16e6),
            Claim("largest_host_days", 12),
        ),
    ),
    "1e5-a-day": Profile(
        "10^5 pages a day",
        Workload(
            pages=1e5,
            period_s=DAY_S,
            known_urls=1e7,
            frontier_urls=1e7,
            hosts=1e4,
            cores=2,
            headroom=1.0,
        ),
        (Claim("machines", 1),),
        (
            "local mode, tables and WARC files in a folder",
            "the seen test is the fold's join alone",
            "one region, no rendering, or up to 5% of the pages",
        ),
    ),
    "1e7-a-day": Profile(
        "10^7 pages a day",
        Workload(
            pages=1e7, period_s=DAY_S, known_urls=1e9, frontier_urls=1e9, hosts=1e6, headroom=2.0
        ),
        (Claim("machines", 10, "about 10, with a headroom of 2"),),
        (
            "a Spark cluster, tables and WARC files in an object store, locks as leases",
            "1,024 buckets, folded 1/k a round",
            "rendering a few percent of the pages",
        ),
    ),
    "5e8-a-day": Profile(
        "5 x 10^8 pages a day",
        Workload(
            pages=5e8,
            period_s=DAY_S,
            known_urls=1e10,
            frontier_urls=1e10,
            hosts=1e8,
            in_flight=300,
            peak_factor=2.6,
            size_for_peak=True,
        ),
        (Claim("machines", 100, "about 100, with 300 in flight on each"),),
        (
            "a Bloom filter before the join, 12 GB over all buckets",
            "several regions, each with its own fetch job and resolvers",
            "WARC files packed and expired by retention; texts deduplicated across crawls",
        ),
    ),
    "5e9-a-day": Profile(
        "5 x 10^9 pages a day",
        _E,
        (Claim("machines", 450, "about 450, as case E"),),
        (
            (
                "64 shards and more of the frontier, hot hosts split off, a cold tier for low"
                " priorities"
            ),
            "regions on every continent, 400 Gbit/s of lines between them",
            "rendering a pool of machines of its own",
        ),
    ),
}
