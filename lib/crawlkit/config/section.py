"""What all sections of the configuration share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)

Value = TypeVar("Value")
# Host, *.suffix, * or start of a URL. It becomes text in queries: no quotes, backslashes, braces.
Named = Annotated[str, StringConstraints(pattern=r"""^[^\s'"\\{}]{1,2000}$""")]


class ConfigError(ValueError):
    """The configuration is unusable; the message names source, line, key and the fix."""

    exit_code = 2


def setting(default: Any, text: str, **limits: Any) -> Any:
    """A key with its default and its meaning, which docs and conf/default.yaml show."""
    return Field(default, description=text, **limits)


class Section(BaseModel):
    """A section of the configuration: an unknown key and a value of another type are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, v: Any, info: ValidationInfo) -> Any:
        if isinstance(v, bool) and cls.model_fields[info.field_name or ""].annotation in (
            int,
            float,
        ):
            raise ValueError(
                "expected a number"
            )  # YAML's yes and on are true, which would count as 1
        return v


def of_host(settings: Mapping[str, Value], host: str) -> Value | None:
    """The setting of a host: its own entry, else that of the longest `*.suffix` that covers it,
    else of `*`.
    """
    found = settings.get(host)
    while found is None and host:
        host = host.partition(".")[2]
        found = settings.get(f"*.{host}" if host else "*")
    return found
