"""An example for the --help of each verb whose text has none."""

from __future__ import annotations

import typer

from crawlkit.cli.app import app

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
    "crawlkit status --data site",
    "crawlkit audit --data site",
    "crawlkit normalize 'HTTP://Site.Example:80/a/../b?utm_source=x'",
    "crawlkit scope-test https://site.example/a/a/a/a/a --set scope.max_depth=5",
    "crawlkit robots robots.txt https://site.example/private --agent mybot",
    "crawlkit config --set politeness.delay_s=2",
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
    "crawlkit explain https://site.example/x --data site",
    "crawlkit metrics --data site",
    "crawlkit alerts --data site --json",
    "crawlkit fetch-one https://site.example/x --data site --out page.html",
    "crawlkit parse-one page.html --url https://site.example/x",
    "CRAWLKIT_TOKEN=... crawlkit serve --data site",
)


def _add(group: typer.Typer, path: str) -> None:
    for command in group.registered_commands:
        name = command.name or command.callback.__name__.rstrip("_").replace("_", "-")
        words = f"{path} {name} "
        alone = words.replace("crawlkit command ", "crawlkit ")  # an order is a verb of its own too
        shown = next((e for e in EXAMPLES if words in f"{e} "), None) or next(
            (
                e.replace("crawlkit ", "crawlkit command ")
                for e in EXAMPLES
                if alone in f"{e} " and alone != words
            ),
            None,
        )
        if shown is not None:
            command.epilog = f"Example: {shown}"
    for sub in group.registered_groups:
        _add(sub.typer_instance, f"{path} {sub.name}")


_add(app, "crawlkit")
