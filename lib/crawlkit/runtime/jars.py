"""Fetch the JARs that Delta needs, once, and check them: `python -m crawlkit.runtime.jars conf/jars.lock`.

With `conf/jars-s3.lock s3` those that tables in S3 need beside them, into the folder's own folder
`s3` (`make setup-s3`).

They are resolved by the Ivy that pyspark ships, without transitive dependencies, over a lock file
of `group artifact version sha256` lines, and then used offline from one folder
(spark.*.extraClassPath).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

SETTINGS = """<ivysettings><settings defaultResolver="main"/><caches defaultCacheDir="{cache}"/>
<resolvers><ibiblio name="main" m2compatible="true"/></resolvers></ivysettings>"""


class JarsError(RuntimeError):
    """JARs or Java are missing or damaged; the message says how to get them."""

    exit_code = 2


class Jar(NamedTuple):
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def jar_folder() -> Path:
    """Where the JARs stand: $CRAWLKIT_JARS, else share/crawlkit/jars of the Python environment."""
    return Path(os.environ.get("CRAWLKIT_JARS") or Path(sys.prefix) / "share" / "crawlkit" / "jars")


def s3_jar_folder() -> Path:
    """Where the JARs for tables in S3 stand."""
    return jar_folder() / "s3"


def archive_file() -> Path:
    """Where the class archive stands, if it was made (classes.py)."""
    return jar_folder().parent / "classes.jsa"


def read_lock(path: Path) -> list[Jar]:
    """The lock file's rows. Raises JarsError with file and line."""
    jars = []
    try:
        text = path.read_text("utf-8")
    except OSError as e:
        raise JarsError(f"{path}: cannot be read: {e.strerror}") from None
    for n, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if words and len(words) != 4:
            raise JarsError(f"{path}:{n}: expected `group artifact version sha256`")
        if words:
            jars.append(Jar(*words))
    return jars


def is_good(folder: Path, jar: Jar) -> bool:
    path = folder / jar.file_name
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256


def find_java() -> str:
    """Path of the java command ($JAVA_HOME first). Raises JarsError."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        raise JarsError(
            "Java is not found: install a Java 17 runtime and put it on PATH, or set JAVA_HOME"
        )
    return java


def fetch(lock: Path, folder: Path) -> int:
    """Bring what is missing or damaged into `folder`; returns how many were fetched.

    Raises JarsError.
    """
    import pyspark

    jars = read_lock(lock)
    missing = [j for j in jars if not is_good(folder, j)]
    if not missing:
        return 0
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"), None)
    if ivy is None:
        raise JarsError("pyspark's own Ivy JAR is missing: install pyspark again")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        settings, module = Path(tmp, "settings.xml"), Path(tmp, "ivy.xml")
        settings.write_text(SETTINGS.format(cache=Path(tmp, "cache")))
        deps = "".join(
            f'<dependency org="{j.group}" name="{j.artifact}" rev="{j.version}"'
            ' transitive="false"/>'
            for j in missing
        )
        module.write_text(
            '<ivy-module version="2.0"><info organisation="x"'
            f' module="x"/><dependencies>{deps}</dependencies></ivy-module>'
        )
        cmd = [
            find_java(),
            "-jar",
            str(ivy),
            "-settings",
            str(settings),
            "-ivy",
            str(module),
            "-retrieve",
            f"{tmp}/out/[artifact]-[revision].[ext]",
            "-types",
            "jar",
        ]
        try:
            done = subprocess.run(cmd, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            raise JarsError(
                "fetching the JARs took longer than 10 minutes; run the same command again"
            ) from None
        for j in missing:
            if not is_good(Path(tmp, "out"), j):
                there = Path(tmp, "out", j.file_name).is_file()
                why = (
                    f"its SHA-256 differs from {lock}"
                    if there
                    else f"it was not found\n{(done.stdout + done.stderr)[-1500:]}"
                )
                raise JarsError(f"{j.group}:{j.artifact}:{j.version} could not be fetched: {why}")
            part = folder / (j.file_name + ".part")
            shutil.copyfile(Path(tmp, "out", j.file_name), part)
            part.replace(folder / j.file_name)
    return len(missing)


def main() -> int:
    lock = Path(sys.argv[1] if len(sys.argv) > 1 else "conf/jars.lock")
    try:
        n = fetch(lock, jar_folder().joinpath(*sys.argv[2:3]))
    except JarsError as e:
        print(f"crawlkit: {e}", file=sys.stderr)
        return 2
    print(f"JARs: {n} fetched, {len(read_lock(lock)) - n} already there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
