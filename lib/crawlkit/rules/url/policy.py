"""Which parts of a URL are not part of its identity: the settings of the canonical form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from crawlkit.config import Urls


def _names(file: str) -> tuple[str, ...]:
    text = files("crawlkit").joinpath("data", file).read_text("ascii")
    return tuple(
        line for line in (raw.partition("#")[0].strip() for raw in text.splitlines()) if line
    )


TRACKING_PARAMS = _names("tracking_params.txt")
SESSION_PARAMS = _names("session_params.txt")
SESSION_PARAMS_BY_VALUE = frozenset(_names("session_params_by_value.txt"))


@dataclass(frozen=True)
class UrlPolicy:
    """What the canonical form leaves out. Build it with `UrlPolicy.of(config.urls)`."""

    remove_session: bool = True
    param_names: frozenset[str] = frozenset()  # removed from queries; lower case
    param_prefixes: tuple[str, ...] = ()  # likewise, by the start of the name
    value_params: frozenset[str] = frozenset()  # removed if the value is a session's; lower case
    host_params: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    collapse_repeats: bool = False
    route_fragment_hosts: frozenset[str] = frozenset()
    fold_www: bool = False
    fold_index: bool = False
    fold_slash: bool = False

    @classmethod
    def of(cls, urls: Urls) -> UrlPolicy:
        """The policy that the configuration describes."""
        names = [
            *(TRACKING_PARAMS if urls.remove_tracking else ()),
            *(SESSION_PARAMS if urls.remove_session else ()),
            *urls.extra_tracking,
            *urls.extra_session,
        ]
        lower = [n.lower() for n in names]
        return cls(
            remove_session=urls.remove_session,
            param_names=frozenset(n for n in lower if not n.endswith("*")),
            value_params=SESSION_PARAMS_BY_VALUE if urls.remove_session else frozenset(),
            param_prefixes=tuple(sorted({n[:-1] for n in lower if n.endswith("*") and n != "*"})),
            host_params={
                host.lower(): frozenset(n.lower() for n in params)
                for host, params in urls.host_params.items()
            },
            collapse_repeats=urls.collapse_repeats,
            route_fragment_hosts=frozenset(h.lower() for h in urls.keep_route_fragments),
            fold_www=urls.fold_www,
            fold_index=urls.fold_index,
            fold_slash=urls.fold_slash,
        )


DEFAULT_POLICY = UrlPolicy.of(Urls())
