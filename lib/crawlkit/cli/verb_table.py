"""The verbs of the command line: module, help, group and example. Loads nothing."""

from __future__ import annotations

# The groups of `crawlkit --help`, in their order.
PANELS = {
    "Crawl": "crawl round init fetch-one parse-one".split(),
    "Look": (
        "status log queues freshness sql hosts errors cat explain diff params alerts metrics"
    ).split(),
    "Steer": (
        "recrawl hint boost block unblock complain host pause resume abandon command import"
        " websub serve"
    ).split(),
    "Check": "normalize scope-test robots config agent-page audit reconcile doctor plan".split(),
    "Export": "export cdxj".split(),
    "Upkeep": "maintain rebuild reparse rebucket purge jars".split(),
    "Stages": "open inject generate fetch commit parse dedup update rank report".split(),
}

# verb -> its module, its line in `crawlkit --help`
VERBS: dict[str, tuple[str, str]] = {
    "init": (
        "init",
        (
            "Begin a crawl's folder with a commented crawl.yaml; nothing that is there is"
            " overwritten."
        ),
    ),
    "crawl": (
        "crawl",
        "Crawl in rounds: inject the seeds, then fetch what is due, round after round.",
    ),
    "round": (
        "crawl",
        (
            "One round of what is due (no seeds). With --round-id, go on with that round or do"
            " nothing if it is closed."
        ),
    ),
    "inject": ("stages", "Add seeds to the frontier. Opens a round if none is open."),
    "generate": ("stages", "Choose what is due and write the round's fetch list."),
    "fetch": ("stages", "Fetch the fetch list politely into WARC files."),
    "commit": ("stages", "Record exactly one outcome for each planned URL."),
    "parse": ("stages", "Read the stored pages: text, links, metadata."),
    "dedup": ("stages", "Find identical and near-duplicate pages."),
    "update": ("stages", "Write each URL's next state and fold it into crawldb."),
    "rank": ("stages", "Count in-links and host quality."),
    "report": ("stages", "Write the report page; closes the round."),
    "maintain": (
        "stages",
        "Compact tables, pack small WARC files, drop folded log rows, remove orphans.",
    ),
    "open": (
        "look",
        (
            "Open a round of that name, or find it; starts no JVM. Its name goes to the stages as"
            " --round-id."
        ),
    ),
    "status": (
        "look",
        "Rounds, known URLs by state, what is due (reads the tables without Spark).",
    ),
    "log": (
        "watch",
        (
            "One line a request, also while a fetch runs (the columns of Heritrix's crawl.log):"
            " time, status, bytes, URL, kind:depth, media type, slot, start+ms, outcome."
        ),
    ),
    "queues": (
        "watch",
        (
            "The longest queues: URLs by host, its delay and what sets it, when it may be asked"
            " next, and why not before."
        ),
    ),
    "freshness": (
        "watch",
        "How the promises of freshness are kept: share, worst lag, pages that are late.",
    ),
    "explain": (
        "look",
        (
            "Everything known of a URL: canonical form, scope, robots line, host, schedule,"
            " captures, duplicates, and why it was not fetched."
        ),
    ),
    "diff": (
        "look",
        (
            "What two rounds brought, side by side, with a page beside the report: crawlkit diff"
            " r000001 r000002 --data DIR."
        ),
    ),
    "params": (
        "look",
        (
            "Query parameters that hosts' own pages say do not matter, with the evidence; accepted"
            " ones are removed from the host's URLs."
        ),
    ),
    "metrics": ("look", "The newest round's metrics and the alerts as Prometheus text."),
    "alerts": (
        "look",
        "The alert rules over the newest round (docs/alerts.md). Exit 1 if one fires.",
    ),
    "sql": ("sql", "Ask the tables by SQL."),
    "hosts": ("sql", "Hosts with their delay, health and pages."),
    "errors": (
        "sql",
        "Newest failures with their reasons, the pages that link there, and how many there are.",
    ),
    "normalize": ("check", "The canonical form of URLs. Exit 2 if one is refused."),
    "scope-test": (
        "check",
        "Whether the scope lets a URL in, and which rule does not. Exit 1 if refused.",
    ),
    "robots": (
        "check",
        "Whether a robots.txt allows a URL, and which line decides. Exit 1 if not.",
    ),
    "config": (
        "check",
        (
            "The settings in force and where each stands. With --save, what --config and --set say"
            " is kept in the crawl's crawl.yaml."
        ),
    ),
    "agent-page": (
        "check",
        "The page for agent.info_url: what the crawler is, and how to keep it away.",
    ),
    "recrawl": (
        "steer",
        "Fetch URLs again in the next round, whatever their schedule says; wakes dead ones.",
    ),
    "hint": ("steer", "URLs that may have changed: known ones become due, new ones candidates."),
    "boost": (
        "steer",
        "Points (-100..100) added to the score of URLs, and with --priority another class.",
    ),
    "block": ("steer", "Send nothing more to a host: running tasks stop within 10 s."),
    "unblock": ("steer", "Allow a blocked host again."),
    "complain": (
        "steer",
        (
            "Record a complaint about a host: it is blocked (or slowed) before its next request,"
            " and an alert fires."
        ),
    ),
    "pause": (
        "steer",
        "Hold a round: its tasks send nothing more within 10 s, and no further stage starts.",
    ),
    "resume": ("steer", "Let a paused round go on."),
    "abandon": (
        "steer",
        "End an open round: its tasks stop, what it has not committed is due as before.",
    ),
    "host": ("steer", "The pace of single hosts."),
    "websub": (
        "hubs",
        "Subscribe to feeds at the hubs that they name: what changes is told, not polled for.",
    ),
    "command": (
        "steer",
        "Tell a crawl what to do. Each order is a row of the table commands (docs/api.md).",
    ),
    "cat": (
        "single",
        (
            "Print a stored page: its newest body as text, its header, its bytes or what is read"
            " from it."
        ),
    ),
    "fetch-one": (
        "single",
        "Fetch one URL as a round would: guard, robots.txt, pace. Exit 1 if it was not fetched.",
    ),
    "parse-one": (
        "single",
        "Read one page as the parse stage does: title, text, links, robots directives.",
    ),
    "serve": ("upkeep", "The control API and its status page (docs/api.md)."),
    "audit": (
        "upkeep",
        "Prove from the tables that no request was disallowed or too early. Exit 1 if one was.",
    ),
    "reconcile": (
        "upkeep",
        "Compare tables and WARC files record by record. Exit 1 if they differ.",
    ),
    "jars": (
        "plan",
        "Fetch the JARs that Spark needs for Delta tables, once for each Python environment.",
    ),
    "rebuild": (
        "upkeep",
        (
            "Rebuild crawldb from captures, pages and links, or with --from-warc the whole"
            " crawl from its WARC files."
        ),
    ),
    "reparse": (
        "upkeep",
        "Read stored pages of closed rounds again, by the parser of today; nothing is fetched.",
    ),
    "rebucket": (
        "upkeep",
        (
            "Change the number of host buckets between two rounds; from then on frontier.buckets"
            " must say the same."
        ),
    ),
    "purge": (
        "upkeep",
        (
            "Remove what was stored of a host, a domain or a URL from tables and WARC files; a host"
            " or domain is blocked first."
        ),
    ),
    "import": (
        "upkeep",
        (
            "Take URLs from other tools' lists into the frontier, with `ranks` a list RANK,DOMAIN"
            " into the quality of hosts, with `warc` the pages of other tools' WARC files."
        ),
    ),
    "export": (
        "export",
        (
            "Write files that other tools read: csv, jsonl, parquet, cdxj, wet, wat, wacz, urls,"
            " pages, hostgraph, cc-index."
        ),
    ),
    "cdxj": ("export", "The sorted CDXJ index of the stored records."),
    "plan": ("plan", "Capacity: machines, bandwidth, storage, filters and cost of a crawl."),
    "doctor": (
        "plan",
        (
            "What this machine and the stores lack for a crawl, and how to fix it. Exit 2 if"
            " something is missing."
        ),
    ),
}
EXAMPLES = (
    "crawlkit round --data site",
    "crawlkit inject --seeds urls.txt --priority high --data site",
    "crawlkit generate --data site",
    "crawlkit fetch --data site",
    "crawlkit commit --data site",
    "crawlkit parse --data site",
    "crawlkit dedup --data site",
    "crawlkit update --data site",
    "crawlkit rank --data site",
    "crawlkit report --data site",
    "crawlkit maintain --data site",
    "crawlkit cdxj --data site --out index.cdxj",
    "crawlkit hosts --data site",
    "crawlkit errors --data site --json",
    "crawlkit queues --data site --limit 50",
    "crawlkit freshness --data site --limit 50",
    "crawlkit status --data site",
    "crawlkit reparse r000001 --data site",
    "crawlkit audit --data site",
    "crawlkit normalize 'HTTP://Site.Example:80/a/../b?utm_source=x'",
    "crawlkit scope-test https://site.example/a/a/a/a/a --set scope.max_depth=5",
    "crawlkit robots robots.txt https://site.example/private --agent mybot",
    "crawlkit config --data site --all",
    "crawlkit agent-page --set agent.name=mybot --out bot.html",
    "crawlkit recrawl https://site.example/x --data site",
    "crawlkit hint https://site.example/x --data site",
    "crawlkit boost https://site.example/x --points 20 --data site",
    "crawlkit block site.example --reason 'asked to' --data site",
    "crawlkit unblock site.example --data site",
    "crawlkit complain site.example --domain --reason 'too fast' --action slow --data site",
    "crawlkit pause r000004 --data site",
    "crawlkit resume r000004 --data site",
    "crawlkit abandon r000004 --data site",
    "crawlkit host set site.example --delay-s 5 --data site",
    "crawlkit command seeds https://site.example/ --data site",
    "crawlkit command list --data site",
    "crawlkit command host-set site.example --delay-s 5 --data site",
    "crawlkit websub subscribe https://site.example/feed --data site",
    "crawlkit websub list --data site",
    "crawlkit websub renew --data site",
    "crawlkit websub unsubscribe https://site.example/feed --data site",
    "crawlkit explain https://site.example/x --data site",
    "crawlkit metrics --data site",
    "crawlkit alerts --data site --json",
    "crawlkit fetch-one https://site.example/x --data site --out page.html",
    "crawlkit fetch-one https://site.example/app --render --screenshot app.png",
    "crawlkit parse-one page.html --url https://site.example/x",
    "CRAWLKIT_TOKEN=... crawlkit serve --data site",
)
