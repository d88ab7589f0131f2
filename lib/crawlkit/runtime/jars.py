"""The JARs that Delta needs: fetched once, checked, and used offline (`crawlkit jars`).

They are resolved by the Ivy that pyspark ships, without transitive dependencies, over a lock file
of `group artifact version sha256` lines (data/jars.lock; for tables in S3 also data/jars-s3.lock),
and then used from one folder (spark.*.extraClassPath).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FETCH_TIMEOUT_S = 600

SETTINGS = """<ivysettings><settings defaultResolver="main"/><caches defaultCacheDir="{cache}"/>
<resolvers><ibiblio name="main" m2compatible="true"/></resolvers></ivysettings>"""


class JarsError(RuntimeError):
    """JARs or Java are missing or damaged; the message says how to get them."""

    exit_code = 2


class Jar(NamedTuple):
    """A row of the lock file."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """As Maven repositories name it."""
        return f"{self.artifact}-{self.version}.jar"


def jar_folder() -> Path:
    """Where the JARs are: $CRAWLKIT_JARS, else share/crawlkit/jars of the Python environment."""
    return Path(os.environ.get("CRAWLKIT_JARS") or Path(sys.prefix) / "share" / "crawlkit" / "jars")


def s3_jar_folder() -> Path:
    """Where the JARs for tables in S3 are."""
    return jar_folder() / "s3"


def archive_file() -> Path:
    """Where the class archive is, if it was made (local/class_archive.py)."""
    return jar_folder().parent / "classes.jsa"


def lock_file(s3: bool = False) -> Path:
    """The package's lock file of Delta's JARs, or of those for tables in S3."""
    return Path(__file__).parents[1] / "data" / ("jars-s3.lock" if s3 else "jars.lock")


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
    """Whether the JAR is in the folder with the right content."""
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
    jars = read_lock(lock)
    missing = [j for j in jars if not is_good(folder, j)]
    if not missing:
        return 0
    # its folder alone: to import it takes a tenth of a second, and every command would
    pyspark = importlib.util.find_spec("pyspark")
    folders = pyspark.submodule_search_locations if pyspark else None
    ivy = next((jar for f in folders or () for jar in Path(f).glob("jars/ivy-*.jar")), None)
    if ivy is None:
        raise JarsError("pyspark's own Ivy JAR is missing: install pyspark again")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        output = _resolve(ivy, missing, Path(tmp))
        for jar in missing:
            if not is_good(Path(tmp, "out"), jar):
                is_other = Path(tmp, "out", jar.file_name).is_file()
                why = f"its SHA-256 differs from {lock}" if is_other else f"not found\n{output}"
                name = f"{jar.group}:{jar.artifact}:{jar.version}"
                raise JarsError(f"{name} could not be fetched: {why}")
            part = folder / f"{jar.file_name}.part"
            shutil.copyfile(Path(tmp, "out", jar.file_name), part)
            part.replace(folder / jar.file_name)
    return len(missing)


def _resolve(ivy: Path, jars: list[Jar], tmp: Path) -> str:
    """Let Ivy fetch JARs into TMP/out; the end of what it printed. Raises JarsError."""
    settings, module = tmp / "settings.xml", tmp / "ivy.xml"
    settings.write_text(SETTINGS.format(cache=tmp / "cache"))
    dependencies = "".join(
        f'<dependency org="{j.group}" name="{j.artifact}" rev="{j.version}" transitive="false"/>'
        for j in jars
    )
    module.write_text(
        '<ivy-module version="2.0"><info organisation="x" module="x"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    command = [find_java(), "-jar", str(ivy), "-settings", str(settings), "-ivy", str(module)]
    command += ["-retrieve", f"{tmp}/out/[artifact]-[revision].[ext]", "-types", "jar"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise JarsError(
            "fetching the JARs took longer than 10 minutes; run the same command again"
        ) from None
    return (done.stdout + done.stderr)[-1500:]


def fetch_all(s3: bool = False) -> str:
    """Fetch the JARs of the package's own lock files; what was done. Raises JarsError.

    s3: those for tables in S3, not Delta's.
    """
    lock = lock_file(s3)
    n = fetch(lock, s3_jar_folder() if s3 else jar_folder())
    return f"JARs: {n} fetched, {len(read_lock(lock)) - n} already there"


def main() -> int:
    """`python -m crawlkit.runtime.jars [s3]`."""
    try:
        print(fetch_all(sys.argv[1:] == ["s3"]))
    except JarsError as e:
        print(f"crawlkit: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
