"""Where a secret of the configuration comes from, so that the configuration need not hold it."""

from __future__ import annotations

import os
from pathlib import Path

from crawlkit.config import ConfigError

MAX_SECRET_BYTES = 64 * 1024


def secret(setting: str) -> str:
    """What `env:NAME` or `file:PATH` holds, without white space round it; any other text itself.

    Raises ConfigError, which names the source only.
    """
    source, _, name = setting.partition(":")
    if source == "env":
        if name not in os.environ:
            raise ConfigError(f"the environment has no {name}: export it")
        return os.environ[name].strip()
    if source == "file":
        try:
            with Path(name).open("rb") as file:
                return file.read(MAX_SECRET_BYTES).decode("utf-8").strip()
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError(f"{name}: {type(e).__name__}, no secret could be read") from None
    return setting
