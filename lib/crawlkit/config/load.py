"""Reading the configuration: a YAML file, then `--set a.b=c`, override the defaults.

An unknown key is an error that names file, line and key and suggests the nearest known one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from crawlkit.config.section import ConfigError
from crawlkit.config.whole import Config

MAX_NODES, MAX_DEPTH = 100_000, 50  # of one YAML document, its aliases unfolded


def known_keys(model: type[BaseModel] = Config, prefix: str = "") -> list[str]:
    """Every key as section.key, sections too."""
    keys: list[str] = []
    for name, info in model.model_fields.items():
        key = f"{prefix}{info.alias or name}"
        sub = info.annotation
        if isinstance(sub, type) and issubclass(sub, BaseModel):
            keys += [key, *known_keys(sub, key + ".")]
        else:
            keys.append(key)
    return keys


def _check_nodes(root: yaml.Node, source: str) -> None:
    """Refuses a key given twice in one mapping (the first would be ignored), and aliases that
    unfold without end.
    """
    stack, count = [(root, "", 0)], 0
    while stack:
        node, path, depth = stack.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise ConfigError(
                f"{source}: more than {MAX_NODES} values or nested deeper than {MAX_DEPTH}; not a"
                " configuration"
            )
        if isinstance(node, yaml.SequenceNode):
            stack += [(item, path, depth + 1) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            first: dict[str, yaml.Mark] = {}
            for key, value in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else ""
                if name in first:
                    raise ConfigError(
                        f"{source}:{key.start_mark.line + 1}: {path}{name} is given twice (first in"
                        f" line {first[name].line + 1}); keep one"
                    )
                first[name] = key.start_mark
                stack.append((value, f"{path}{name}.", depth + 1))


def line_of(text: str, path: tuple[Any, ...]) -> int | None:
    """Line (1-based) of a key path in YAML text, by the YAML node positions."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    line = None
    for part in path:
        if not isinstance(node, yaml.MappingNode):
            break
        for key, value in node.value:
            if key.value == str(part):
                line, node = key.start_mark.line + 1, value
                break
        else:
            break
    return line


_SECRET = {"proxy", "session_headers"}  # values that no message shows


def explain_errors(
    err: ValidationError, texts: Mapping[str, str], origins: Mapping[str, str], default: str
) -> ConfigError:
    """What is wrong with a configuration, a line for each key.

    texts: source -> its YAML text. origins: section.key -> where it stands. default: the source of
    errors that no key of a source has caused.
    """
    known = known_keys()
    out = []
    for e in err.errors():
        path = tuple(p for p in e["loc"])
        key = ".".join(str(p) for p in path)
        place = origins.get(".".join(map(str, path[:2]))) or origins.get(
            str(path[0] if path else "")
        )
        source = re.sub(r":[0-9]+$", "", place) if place else default
        line = line_of(texts.get(source, ""), path)
        where = f"{source}:{line}" if line else source
        if e["type"] == "extra_forbidden":
            near = difflib.get_close_matches(key, known, 1, 0.5) or [
                k for k in known if k.split(".")[-1] == str(path[-1])
            ]
            hint = (
                f"; did you mean {near[0]}?"
                if near
                else "; see docs/configuration.md for every key"
            )
            out.append(f"{where}: unknown key {key}{hint}")
        else:
            msg = e["msg"].removeprefix("Value error, ")
            got = (
                f" (got {e['input']!r:.80})"
                if key
                and not isinstance(e["input"], dict)
                and not _SECRET.intersection(map(str, path))
                else ""
            )
            out.append(f"{where}: {key + ': ' if key else ''}{msg}{got}")
    return ConfigError("\n".join(out))


def assign(tree: dict[str, Any], dotted: str) -> None:
    """Set `section.key=value` (YAML) in a tree of settings. Raises ConfigError."""
    key, sep, raw = dotted.partition("=")
    if not sep or not re.fullmatch(r"[A-Za-z_][\w]*(\.[A-Za-z_][\w]*)+", key):
        raise ConfigError(
            f"--set {dotted}: expected section.key=value, for example --set round.max_urls=500"
        )
    try:
        value = yaml.safe_load(raw) if raw else ""
    except yaml.YAMLError as e:
        raise ConfigError(f"--set {dotted}: the value is not YAML: {e}") from None
    *parents, last = key.split(".")
    for p in parents:
        tree = tree.setdefault(p, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {dotted}: {p} is not a section")
    tree[last] = value


def read_tree(text: str, source: str) -> dict[str, Any]:
    """Sections of a YAML text. Raises ConfigError."""
    loader = None
    try:
        loader = yaml.SafeLoader(text.removeprefix("\ufeff"))
        node = loader.get_single_node()
        if node is not None:
            _check_nodes(node, source)
        tree = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        raise ConfigError(f"{where}: not plain YAML: {getattr(e, 'problem', None) or e}") from None
    except RecursionError:
        raise ConfigError(f"{source}: nested too deeply") from None
    finally:
        if loader:
            loader.dispose()
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{source}:1: expected a mapping of sections, got {type(tree).__name__}")
    return tree


def parse_config(text: str, source: str = "configuration", sets: tuple[str, ...] = ()) -> Config:
    """Configuration from YAML text and `--set` assignments. Raises ConfigError."""
    tree = read_tree(text, source)
    for s in sets:
        assign(tree, s)
    try:
        return Config.model_validate(tree)
    except ValidationError as e:
        raise explain_errors(e, {source: text}, {}, source) from None


def read_file(path: str | Path) -> str:
    """The text of a configuration file. Raises ConfigError."""
    try:
        raw = Path(path).read_bytes()
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read: {e.strerror}") from None
    if len(raw) > 1_000_000:
        raise ConfigError(f"{path}: larger than 1 MB; not a configuration")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: not UTF-8 at byte {e.start}") from None


def load_config(path: str | Path | None, sets: tuple[str, ...] = ()) -> Config:
    """Configuration from a file (None: the defaults) and `--set` assignments.

    Raises ConfigError.
    """
    if path is None:
        return parse_config("", "--set" if sets else "defaults", sets)
    return parse_config(read_file(path), str(path), sets)
