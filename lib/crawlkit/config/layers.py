"""Settings in layers: the defaults, what a crawl has kept, a file, then single keys.

A later layer replaces a key of an earlier one whole; only `--set` reaches into a mapping.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from crawlkit.config.load import (
    assign,
    explain_errors,
    line_of,
    read_file,
    read_tree,
)
from crawlkit.config.whole import Config

Tree = dict[str, Any]  # section -> key -> value
DEFAULT = "default"
SECRET = "(not shown)"


class Layer(NamedTuple):
    """A YAML text of settings. source: its name in messages."""

    source: str
    text: str


class Change(NamedTuple):
    """A key whose value is not the kept one."""

    key: str
    was: Any
    now: Any


@dataclass(frozen=True)
class Settings:
    """The configuration in force, and how it came to be.

    own: the keys that any layer names. kept: those that the crawl has kept; None: nothing yet.
    origins: key (section.key) -> where its value stands. passing: assignments of this command
    alone.
    """

    config: Config
    own: Tree
    kept: Tree | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    passing: tuple[str, ...] = ()

    def changes(self) -> list[Change]:
        """The keys that --config and --set give other values than the crawl has kept."""
        if self.kept is None:
            return []
        before = _values(Config.model_validate(self.kept))
        now = _values(Config.model_validate(self.own))
        return [Change(key, before[key], now[key]) for key in now if before[key] != now[key]]

    def with_sets(self, sets: Sequence[str], source: str) -> Settings:
        """The settings with further assignments. Raises ConfigError."""
        own = copy.deepcopy(self.own)
        for text in sets:
            assign(own, text)
        origins = {**self.origins, **{_head(text): source for text in sets}}
        return replace(self, own=own, origins=origins)._checked(source)

    def with_passing(self, sets: Sequence[str], source: str) -> Settings:
        """The settings with assignments of this command alone, which are never kept."""
        return replace(self, passing=(*self.passing, *sets))._checked(source)

    def _checked(self, source: str) -> Settings:
        tree = copy.deepcopy(self.own)
        for text in self.passing:
            assign(tree, text)
        return replace(self, config=_validate(tree, [Layer(source, "")], {}))


def read_settings(
    kept: Layer | None = None, file: str | Path | None = None, sets: Sequence[str] = ()
) -> Settings:
    """The settings of a command: what the crawl has kept, --config, then --set.

    Raises ConfigError, which names source, line, key and the fix.
    """
    layers = [] if kept is None else [kept]
    if file is not None:
        layers.append(Layer(str(file), read_file(file)))
    trees = [read_tree(layer.text, layer.source) for layer in layers]
    own: Tree = {}
    origins: dict[str, str] = {}
    for layer, tree in zip(layers, trees, strict=True):
        for section, keys in tree.items():
            if not isinstance(keys, dict) or not isinstance(own.get(section, {}), dict):
                own[section] = keys  # an error that the model explains
                origins[section] = layer.source
                continue
            own.setdefault(section, {}).update(copy.deepcopy(keys))
            for key in keys:
                line = line_of(layer.text, (section, key))
                origins[f"{section}.{key}"] = f"{layer.source}:{line}"
    for text in sets:
        assign(own, text)
        origins[_head(text)] = "--set"
    config = _validate(own, [*layers, Layer("--set" if sets else "defaults", "")], origins)
    return Settings(config, own, None if kept is None else trees[0], origins)


def _head(assignment: str) -> str:
    return ".".join(assignment.partition("=")[0].split(".")[:2])


def _validate(own: Tree, layers: Sequence[Layer], origins: Mapping[str, str]) -> Config:
    try:
        return Config.model_validate(own)
    except ValidationError as e:
        texts = {layer.source: layer.text for layer in layers}
        raise explain_errors(e, texts, origins, layers[-1].source) from None


def _values(config: Config) -> dict[str, Any]:
    """section.key -> value."""
    return dict(_flat(config.model_dump(by_alias=True)))


def _flat(tree: Tree) -> Iterator[tuple[str, Any]]:
    for section, keys in tree.items():
        for key, value in keys.items():
            yield f"{section}.{key}", value


def describe(settings: Settings) -> list[dict[str, Any]]:
    """Every key with its value and where that stands (`from`)."""
    return [
        {"key": key, "value": hide(key, value), "from": settings.origins.get(key, DEFAULT)}
        for key, value in _values(settings.config).items()
    ]


def hide(key: str, value: Any) -> Any:
    """A value as it may be shown: passwords of proxies and sessions are not."""
    return SECRET if key in _SECRETS and value else value


_SECRETS = ("fetch.proxy", "fetch.session_headers")


def recorded(config: Config) -> dict[str, Any]:
    """The whole configuration as a round records it: section -> key -> value."""
    tree = config.model_dump(by_alias=True, mode="json")
    return {s: {k: hide(f"{s}.{k}", v) for k, v in keys.items()} for s, keys in tree.items()}


def to_kept(own: Tree) -> str:
    """The text of crawl.yaml."""
    tree = {section: keys for section, keys in own.items() if keys}
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True) if tree else ""
    return f"{_HEAD}{text}"


_HEAD = """\
# The settings of this crawl: every command on its folder reads them. --config and --set change a
# key for one command; with --save it is written here. `crawlkit config --data DIR` shows them.
"""
