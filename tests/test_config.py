"""Configuration text: what is refused, with the key and its line."""

from __future__ import annotations

import pytest
from crawlkit.config import ConfigError, parse_config

from tests.cputime import within


@pytest.mark.parametrize(
    "text, words",
    [
        (
            "politeness:\n  delay_s: 1\n  delay_s: 2\n",
            ("c.yaml:3: politeness.delay_s is given twice", "line 2"),
        ),
        (
            "politeness: {delay_s: 1}\nagent: {}\npoliteness: {max_delay_s: 9}\n",
            ("c.yaml:3: politeness is given twice",),
        ),
        ("agent: {name: a, name: a}\n", ("agent.name is given twice",)),
        ("politeness: {delay_s: .inf}\n", ("c.yaml:1: politeness.delay_s", "finite")),
        ("politeness: {delay_s: .nan}\n", ("politeness.delay_s",)),
        ("politeness: {delay_s: 1e400}\n", ("politeness.delay_s",)),
        ("schedule: {generic_s: [1, .inf]}\n", ("schedule.generic_s",)),
        ("politeness: {delay_s: yes}\n", ("politeness.delay_s: expected a number",)),
        ("frontier: {buckets: true}\n", ("frontier.buckets: expected a number",)),
        ("fetch: {ports: [80, 0]}\n", ("fetch.ports", "0 is no port")),
        ("fetch: {ports: [70000]}\n", ("fetch.ports", "70000")),
        (
            "fetch: {resolvers: [not an address]}\n",
            ("fetch.resolvers", "'not an address' is no name server"),
        ),
        ("fetch: {resolvers: ['127.0.0.1:99999']}\n", ("fetch.resolvers",)),
        ("control: {host: ''}\n", ("control.host",)),
        ("storage: {warc: ''}\n", ("storage.warc",)),
        ('storage: {tables: "a\\0b"}\n', ("storage.tables",)),
        ("a: 1\n---\nb: 2\n", ("c.yaml", "not plain YAML")),
        ("a: &a [*a]\n", ("c.yaml",)),
        ("a: &a {b: *a}\n", ("c.yaml",)),
        ("[" * 1000, ("c.yaml",)),
    ],
)
def test_refused(text, words):
    with pytest.raises(ConfigError) as e:
        parse_config(text, "c.yaml")
    for word in words:
        assert word in str(e.value), e.value


@pytest.mark.waits
def test_aliases_that_unfold_without_end_are_refused_at_once():
    text = (
        "a0: &a0 [x, x]\n"
        + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
        + "scope: {hosts: *a39}\n"
    )

    def refused():
        with pytest.raises(ConfigError):
            parse_config(text, "c.yaml")

    within(2, refused)


def test_read():
    assert parse_config("\ufeffpoliteness: {delay_s: 2}\r\n").politeness.delay_s == 2
    assert (
        parse_config("").politeness.delay_s == parse_config("# nothing\n").politeness.delay_s == 1
    )


@pytest.mark.parametrize(
    "at",
    [
        "9.9.9.9",
        "127.0.0.1:5353",
        "2620:fe::fe",
        "[2620:fe::fe]:53",
        "[2620:fe::fe]",
        "https://dns.example/dns-query",
        "https://127.0.0.1:8443/dns-query",
    ],
)
def test_name_servers(at):
    assert parse_config(f"fetch: {{resolvers: ['{at}']}}\n", "c.yaml").fetch.resolvers == (at,)
