"""`crawlkit init`: a commented crawl.yaml whose every line is true, and a folder for Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from crawlkit.config import Config
from crawlkit.config.edit import with_key

from tests.cli.call import call

ROOT = Path(__file__).parents[2]


def test_the_settings_are_the_defaults_with_their_meaning(tmp_path):
    assert call("init", tmp_path / "new" / "site").code == 0
    text = (tmp_path / "new/site/crawl.yaml").read_text()
    tree = yaml.safe_load(text)
    default = Config().model_dump(by_alias=True, mode="json")
    for section, keys in tree.items():
        for key, value in keys.items():
            assert value == default[section][key], f"{section}.{key}"
    assert {*tree} >= {"agent", "scope", "politeness", "round", "fetch"}
    assert {"name", "info_url"} <= {*tree["agent"]} and "delay_s" in tree["politeness"]
    lines = text.splitlines()
    assert all(len(line) <= 100 for line in lines)
    for n, line in enumerate(lines):  # each key stands below its meaning
        if line.startswith("  ") and not line.startswith("  #"):
            assert lines[n - 1].startswith("  # "), line
    shown = json.loads(call("config", "--data", tmp_path / "new/site", "--json").out)
    assert all(r["from"] == "default" or "crawl.yaml:" in r["from"] for r in shown["settings"])


@pytest.mark.waits
def test_what_is_set_is_written_and_nothing_is_overwritten(tmp_path):
    sets = ("--set", "agent.info_url=https://you.example/bot", "--set", "warc.roll_s=60")
    assert call("init", tmp_path, *sets).code == 0
    text = (tmp_path / "crawl.yaml").read_text()
    assert yaml.safe_load(text)["agent"]["info_url"] == "https://you.example/bot"
    assert yaml.safe_load(text)["warc"] == {"roll_s": 60}
    done = call("init", tmp_path)
    assert done.code == 2 and "is there already" in done.err
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags/mine.py").write_text("")
    done = call("init", tmp_path / "other", "--airflow", tmp_path / "dags")
    assert done.code == 2 and not (tmp_path / "other").exists()
    assert call("init", tmp_path / "x", "--set", "agent.name=a b").code == 2
    assert (tmp_path / "crawl.yaml").read_text() == text


@pytest.mark.waits
def test_the_folder_for_airflow(tmp_path):
    out = tmp_path / "airflow"
    done = call("init", tmp_path / "site", "--airflow", out, "--json")
    assert json.loads(done.out)["airflow"] == str(out)
    for part, pattern in (("airflow_dags", "*.[pj]*"), ("jobs", "*.py")):
        given = {p.name: p.read_bytes() for p in (ROOT / part).glob(pattern)}
        assert {p.name: p.read_bytes() for p in (out / part).iterdir()} == given
    names = zipfile.ZipFile(out / "dist/crawlkit.zip").namelist()
    assert "crawlkit/cli/main.py" in names and not [n for n in names if "__pycache__" in n]
    code = "import crawlkit.cli.main as m; print(m.__file__)"
    env = os.environ | {"PYTHONPATH": str(out / "dist/crawlkit.zip")}
    python = out / ".venv" / "bin" / "python"
    ran = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(str(out / "dist/crawlkit.zip"))


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a: 1 # x\n", 'a: 1 # x\nscope:\n  domains: ["x"]\n'),
        ("scope:\n  # which\n  domains: []\n  max_depth: 3\n", None),
        (
            "scope:\n    max_depth: 3 # few\n",
            'scope:\n    domains: ["x"]\n    max_depth: 3 # few\n',
        ),
        ("", 'scope:\n  domains: ["x"]\n'),
        ("scope:\n  domains:\n  - y\n", "scope:\n  domains:\n  - x\n"),
        ("scope: {max_depth: 3}\n", "scope:\n  max_depth: 3\n  domains:\n  - x\n"),
        ("scope:\n", 'scope:\n  domains: ["x"]\n'),
    ],
)
def test_a_key_is_written_and_other_lines_stay(text, made):
    made = made or text.replace("[]", '["x"]')
    assert with_key(text, "scope", "domains", ["x"]) == made


@pytest.mark.rounds
def test_a_crawl_that_begins_there_keeps_its_scope_and_the_comments(tmp_path):
    assert call("init", tmp_path).code == 0
    before = (tmp_path / "crawl.yaml").read_text()
    words = ("crawl", "harbour.example", "--sample", "--rounds", 1, "--data", tmp_path, "--json")
    assert call(*words).code == 0
    after = (tmp_path / "crawl.yaml").read_text()
    assert after == before.replace("  domains: []", '  domains: ["harbour.example"]')
    done = call("crawl", "kitchen.example", "--sample", "--rounds", 1, "--data", tmp_path)
    assert (tmp_path / "crawl.yaml").read_text() == after  # it has a scope now
    assert done.code == 2 and "refused" in done.err


def complete(typed: str, env=os.environ) -> list[str]:
    asked = env | {
        "_CRAWLKIT_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split(" ")) - 1),
    }
    command = Path(sys.executable).with_name("crawlkit")
    return subprocess.run([command], env=asked, capture_output=True, text=True).stdout.split()


@pytest.mark.waits
def test_a_shell_completes_verbs_and_their_options():
    assert {"fetch", "fetch-one"} <= {*complete("crawlkit fe")}
    assert complete("crawlkit crawl --max-p") == ["--max-pages"]
    assert complete("crawlkit export js") == ["jsonl"]
    command = Path(sys.executable).with_name("crawlkit")
    shown = subprocess.run(
        ["bash", "-c", f"{command} --show-completion; true"], capture_output=True, text=True
    )
    assert "complete -o default -F _crawlkit_completion" in shown.stdout
