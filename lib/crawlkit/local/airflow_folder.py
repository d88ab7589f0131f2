"""A folder that the DAGs run from without a checkout: airflow_dags, jobs, the package as a zip."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

from crawlkit.config.section import ConfigError

PACKAGE = Path(__file__).parents[1]
PARTS = {"airflow_dags": ("*.py", "contracts.json"), "jobs": ("*.py",)}


def check_free(folder: Path) -> None:
    """Raises ConfigError: something is there already, or the DAGs are not installed."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already: name an empty folder, or one to be made")
    _source()


def write_airflow_folder(folder: Path) -> Path:
    """Write what the DAGs look for in the folder above theirs: `jobs`, `dist/crawlkit.zip`, and as
    `.venv` a link to the environment of this command. Its absolute place. Raises OSError.
    """
    source, folder = _source(), folder.absolute()
    for part, patterns in PARTS.items():
        (folder / part).mkdir(parents=True, exist_ok=True)
        for path in (p for pattern in patterns for p in (source / part).glob(pattern)):
            shutil.copyfile(path, folder / part / path.name)
    (folder / "dist").mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "dist" / "crawlkit.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for path in sorted(p for p in PACKAGE.rglob("*") if "__pycache__" not in p.parts):
            z.write(path, path.relative_to(PACKAGE.parent))
    os.symlink(sys.prefix, folder / ".venv", target_is_directory=True)
    return folder


def _source() -> Path:
    """Where the DAGs and jobs are: in an installed package, or in the checkout around it."""
    places = (PACKAGE / "data" / "airflow", PACKAGE.parents[1])
    for place in places:
        if all((place / part).is_dir() for part in PARTS):
            return place
    raise ConfigError("the DAGs are not in this installation: install crawlkit from its wheel")
