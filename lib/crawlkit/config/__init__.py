"""The configuration: the model by sections, and its reading."""

from crawlkit.config.section import ConfigError, Section, of_host
from crawlkit.config.scope_sections import (
    PLACEHOLDER_INFO_URL,
    Crawl,
    Agent,
    Urls,
    ScopeConfig,
    Frontier,
    Round,
)
from crawlkit.config.fetch_section import Fetch
from crawlkit.config.politeness_sections import Politeness, Retry, Breaker, Robots, Lease
from crawlkit.config.content_sections import Warc, Dedup, Parse, Schedule
from crawlkit.config.operation_sections import (
    Maintain,
    Alerts,
    ControlApi,
    SparkConfig,
    Storage,
    S3,
)
from crawlkit.config.model import Config
from crawlkit.config.load import known_keys, load_config, parse_config

__all__ = [
    "Agent",
    "Alerts",
    "Breaker",
    "Config",
    "ConfigError",
    "ControlApi",
    "Crawl",
    "Dedup",
    "Fetch",
    "Frontier",
    "Lease",
    "Maintain",
    "PLACEHOLDER_INFO_URL",
    "Parse",
    "Politeness",
    "Retry",
    "Robots",
    "Round",
    "S3",
    "Schedule",
    "ScopeConfig",
    "Section",
    "SparkConfig",
    "Storage",
    "Urls",
    "Warc",
    "known_keys",
    "load_config",
    "of_host",
    "parse_config",
]
