"""The recipe of docs/install.md makes a crawlkit that crawls, outside the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from crawlkit.local.sample_site import serve

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "install.md").read_text("utf-8")
RECIPE = re.search(r"```dockerfile\n(.*?)```", PAGE, re.S)[1]
OF_THE_SYSTEM = ("useradd",)  # what only an image can do


def steps(recipe: str) -> list[str]:
    """The commands of its RUN lines."""
    lines = recipe.replace("\\\n", " ").splitlines()
    return [line.removeprefix("RUN ") for line in lines if line.startswith("RUN ")]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it in `folder` without anything of the checkout in its environment."""
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "CRAWLKIT", "VIRTUAL"))
    }
    done = subprocess.run(
        command, cwd=folder, env=kept, text=True, capture_output=True, timeout=1200, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done


def export_checkout(folder: Path) -> Path:
    """The files that git knows, without what was built in the checkout."""
    names = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "lib",
            "airflow_dags",
            "jobs",
            "conf",
            "setup.py",
            "setup.cfg",
            "pyproject.toml",
            "README.md",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in names.rstrip("\0").split("\0"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def has_docker() -> bool:
    """Whether images can be built here."""
    return (
        shutil.which("docker") is not None
        and subprocess.run(["docker", "info"], capture_output=True, timeout=60).returncode == 0
    )


def install(tmp: Path) -> list[str]:
    """What starts the crawlkit that the recipe made: of the image, or of a plain environment."""
    src = export_checkout(tmp / "src")
    if has_docker():
        (src / "Dockerfile").write_text(RECIPE)
        run(["docker", "build", "-t", "crawlkit-test", "-f", "Dockerfile", "."], src)
        return [
            "docker",
            "run",
            "--rm",
            "--network=host",
            "--user=0",
            f"-v={tmp}:{tmp}",
            "crawlkit-test",
        ]
    places = {"/src": src, "/dist": tmp / "dist", "/opt/crawlkit": tmp / "venv"}
    for step in steps(RECIPE):
        if step.startswith(OF_THE_SYSTEM):
            continue
        step = re.sub(r"^python\b", sys._base_executable, step)  # type: ignore[attr-defined]
        for place, here in places.items():
            step = re.sub(rf"(?<!\S){place}\b", str(here), step)
        run(["sh", "-c", step], tmp)
    return [str(tmp / "venv" / "bin" / "crawlkit")]


def test_the_steps_are_found():
    pip = "/opt/crawlkit/bin/pip"
    assert [s.split()[0] for s in steps(RECIPE)] == ["python", "python", pip, pip, "useradd"]


@pytest.mark.slow
def test_the_recipe_makes_a_crawlkit_that_crawls(tmp_path):
    crawlkit = install(tmp_path)
    with serve(ROOT / "data" / "samples" / "site") as web:
        settings = tmp_path / "crawl.json"
        settings.write_text(json.dumps(web.config()))
        host = sorted(web.hosts)[0]
        done = run(
            [
                *crawlkit,
                *("crawl", f"http://{host}/", "--data", str(tmp_path / "data"), "--rounds", "1"),
                *("--config", str(settings), "--json"),
            ],
            tmp_path,
        )
    assert (tmp_path / "data" / "report" / "index.html").is_file()
    assert list((tmp_path / "data" / "warc").rglob("*.warc.gz"))
    assert done.stdout
    run([*crawlkit, *("crawl", "--sample", "--rounds", "1", "--data", f"{tmp_path}/own")], tmp_path)
    assert list((tmp_path / "own" / "warc").rglob("*.warc.gz"))
    run([*crawlkit, *("init", f"{tmp_path}/new", "--airflow", f"{tmp_path}/dags")], tmp_path)
    assert (tmp_path / "dags" / "airflow_dags" / "crawl_round.py").is_file()
