"""The configuration: the model by sections, and its reading."""

from crawlkit.config.content_sections import Dedup, Freshness, Parse, Render, Schedule, Warc
from crawlkit.config.fetch_section import Fetch
from crawlkit.config.load import known_keys, load_config, parse_config
from crawlkit.config.operation_sections import (
    S3,
    Alerts,
    ControlApi,
    EngineConfig,
    Maintain,
    SparkConfig,
    Storage,
)
from crawlkit.config.politeness_sections import Breaker, Lease, Politeness, Retry, Robots
from crawlkit.config.scope_sections import (
    PLACEHOLDER_INFO_URL,
    Agent,
    Crawl,
    Frontier,
    Round,
    ScopeConfig,
    Urls,
)
from crawlkit.config.section import ConfigError, Section, of_host
from crawlkit.config.whole import Config

__all__ = [
    "Agent",
    "Alerts",
    "Breaker",
    "Config",
    "ConfigError",
    "ControlApi",
    "Crawl",
    "Dedup",
    "EngineConfig",
    "Fetch",
    "Freshness",
    "Frontier",
    "Lease",
    "Maintain",
    "PLACEHOLDER_INFO_URL",
    "Parse",
    "Politeness",
    "Render",
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
