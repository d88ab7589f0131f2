"""One Spark session for every job and test: Delta on, tuned for small operations, UTC, no
speculation.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import re
import sys
import threading
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crawlkit.config import S3, SparkConfig
from crawlkit.runtime.jars import JarsError, archive_file, find_java, jar_folder, s3_jar_folder
from crawlkit.runtime.spark_errors import first_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Measured with many small Delta operations; see docs/decisions/003-session-settings.md.
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": (
        "false"
    ),  # a state reconstruction after each commit
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": (
        "1000"
    ),  # listing known files needs no job
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "4194304",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.sql.dataFrameDebugging.enabled": (
        "false"
    ),  # the call site of every column costs more than planning it
}
# Not with spark-submit: executors on other machines must reach the driver.
ONE_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

# Compiling generated code costs more than it saves on rounds of some thousand rows.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}  # for those with more


class SessionError(RuntimeError):
    """No usable Spark session; the message says what to do."""

    exit_code = 2


def build_session(
    cfg: SparkConfig,
    app: str = "crawlkit",
    scratch: Path | None = None,
    quick: bool = False,
    s3: bool = False,
) -> "SparkSession":
    """The session, made or found. Raises SessionError.

    scratch: folder for Spark's own temporary files (default: Spark's choice).
    quick: compile less (for tests and short rounds).
    s3: with the JARs for tables in S3; `use_s3` gives it access.
    """
    try:
        find_java()
    except JarsError as e:
        raise SessionError(str(e)) from None
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit chose master, JARs and memory
    settings = {
        **({} if submitted else _own_settings(cfg, scratch, quick, s3)),
        **SETTINGS,
        **({} if submitted else ONE_MACHINE),
        **(QUICK if quick else {}),
        "spark.sql.shuffle.partitions": str(cfg.shuffle_partitions),
        **cfg.extra,
    }
    builder = SparkSession.builder.appName(app)
    for key, value in settings.items():
        builder = builder.config(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.update(jvm_locale(os.environ))
    # a JVM that dies is reported once, by cli/errors.py; py4j says some of it by the root logger
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
    try:
        if not submitted:
            _start_jvm(builder._options)
        spark = builder.getOrCreate()
    except Exception as e:  # the gateway raises several unrelated types
        said = first_cause("\n".join(_JVM_SAID)) if _JVM_SAID else ""
        cause = f"{first_cause(str(e)):.300}" + (f" Java said: {said:.300}" if said else "")
        fix = nameless_user() or "check that Java 17 runs and that spark.* settings are right"
        raise SessionError(f"Spark did not start: {cause}; {fix}") from None
    # it prints a stack when the JVM has died, and there is no public way to prevent that
    accumulators: Any = spark.sparkContext._accumulatorServer
    accumulators.handle_error = lambda *_: None
    _refuse_speculation(spark)
    return spark


def _own_settings(cfg: SparkConfig, scratch: Path | None, quick: bool, s3: bool) -> dict[str, str]:
    """Master, memory, JARs and JVM options of a session that spark-submit did not start.

    Raises SessionError.
    """
    jars = jar_folder()
    check_jars(jars)
    executor_jars = f"{jars}/*"
    if s3:
        check_jars(s3_jar_folder(), S3_JARS, "S3", "crawlkit jars --s3", "make setup-s3")
        executor_jars += f"{os.pathsep}{s3_jar_folder()}/*"
        # the driver's go behind Spark's own: so the class archive still fits
        before = os.environ.get("SPARK_DIST_CLASSPATH")
        places = filter(None, (before, f"{s3_jar_folder()}/*"))
        os.environ["SPARK_DIST_CLASSPATH"] = os.pathsep.join(places)
    settings = {
        "spark.master": cfg.master,
        "spark.driver.memory": cfg.driver_memory,
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.executor.extraClassPath": executor_jars,
        "spark.driver.extraJavaOptions": java_options(quick),
        "spark.executor.extraJavaOptions": java_options(quick),
    }
    if scratch is not None:
        settings["spark.local.dir"] = str(scratch)
        settings["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    return settings


def _refuse_speculation(spark: "SparkSession") -> None:
    """Raises SessionError if Spark may run a copy of a fetch task."""
    key = "spark.speculation"
    values = (spark.conf.get(key, "false"), spark.sparkContext.getConf().get(key, "false"))
    if any(str(v).lower() == "true" for v in values):
        raise SessionError(
            "spark.speculation is on: a copied fetch task would ask a host twice; set"
            " spark.speculation=false"
        )


def stop_session(spark: "SparkSession") -> None:
    """End a session; one whose JVM has died has ended already."""
    from py4j.protocol import Py4JError

    with contextlib.suppress(OSError, Py4JError):
        spark.stop()


def jvm_locale(env: Mapping[str, str]) -> dict[str, str]:
    """What the JVM's environment needs to name files as Python does: without a locale of UTF-8
    Python takes UTF-8 by itself, the JVM plain ASCII.
    """
    named = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    return (
        {"LC_ALL": "C.UTF-8"}
        if sys.getfilesystemencoding() == "utf-8" and not re.search(r"utf-?8", named, re.IGNORECASE)
        else {}
    )


@contextlib.contextmanager
def spark_settings(spark: "SparkSession", settings: dict[str, str]) -> Iterator[None]:
    """Settings of the session's queries for as long as the context is open."""
    before = {key: str(spark.conf.get(key)) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def use_s3(spark: "SparkSession", s3: S3) -> None:
    """Give a session access to tables in S3.

    Credentials come from the AWS chain on each machine; no setting holds them.

    Raises SessionError if its JVM, started before or by spark-submit, knows no s3a.
    """
    from py4j.protocol import Py4JJavaError

    from crawlkit.adapters.store.s3_client import region

    try:
        jvm: Any = spark._jvm
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(
            "org.apache.hadoop.fs.s3a.S3AFileSystem"
        )
    except Py4JJavaError:
        raise SessionError(
            "tables in S3 need further JARs (`crawlkit jars --s3`, `make setup-s3`), and "
            "this JVM was"
            " started without them: give them to spark-submit too (docs/spark-submit.md)"
        ) from None
    settings = {
        "endpoint.region": region(s3),
        "aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
        ),
        "path.style.access": str(s3.path_style).lower(),
        "connection.establish.timeout": f"{s3.timeout_s:.0f}s",
        "connection.timeout": f"{s3.timeout_s:.0f}s",
        "attempts.maximum": str(round(s3.give_up_s / 3) + 1),
    }
    if s3.endpoint_url:
        settings |= {
            "endpoint": s3.endpoint_url,
            "connection.ssl.enabled": str(s3.endpoint_url.startswith("https://")).lower(),
        }
    for name, value in settings.items():
        spark.conf.set(f"fs.s3a.{name}", value)


# What the JVM and Spark say at every start, whatever the log settings: nothing that a user can act
# on.
CHATTER = (
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "Setting default log level to ",
    "To adjust logging level use ",
)


# the last lines of the JVM's standard error while it starts
_JVM_SAID: deque[str] = deque(maxlen=200)


def nameless_user() -> str | None:
    """What to do where the user id has no name, which Spark's Java needs (SPARK-43166); None: it
    has one.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return (
            f"the user id {os.getuid()} has no name on this machine, and Spark's Java needs one:"
            " give it an entry in /etc/passwd (in a container: by its entry point), or run as a"
            " user that has one"
        )
    return None


def _start_jvm(options: dict[str, str]) -> None:
    """Start Spark's JVM as getOrCreate would, with its start-up chatter left out of stderr."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:  # pyspark gives no public way to the process's stderr
        read, write = os.pipe()  # of our own: it is needed too when no gateway comes back
        started = threading.Event()
        reader = threading.Thread(
            target=_pass_on, args=(os.fdopen(read, "rb"), started), name="jvm-stderr", daemon=True
        )
        _JVM_SAID.clear()
        reader.start()
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                SparkConf(False).setAll(list(options.items())), {"stderr": write}
            )
        finally:
            os.close(write)
            if sys.exc_info()[0] is not None:
                reader.join(timeout=2)
        SparkContext._ensure_initialized(gateway=gateway)
        started.set()
        _tell(list(_JVM_SAID))


def _pass_on(stream: IO[bytes], started: threading.Event) -> None:
    """Keep what the JVM says until it has started; pass on what it says later."""
    for raw in stream:
        line = raw.decode("utf-8", "replace")
        if started.is_set():
            _tell([line])
        else:
            _JVM_SAID.append(line)


def _tell(lines: list[str]) -> None:
    for line in lines:
        if not line.startswith(CHATTER):
            sys.stderr.write(line)
            sys.stderr.flush()


# A class that each JAR must hold: tells a cut or foreign file from a good one without reading it
# whole.
JARS = {
    "delta-spark": "io/delta/sql/DeltaSparkSessionExtension.class",
    "delta-storage": "io/delta/storage/LogStore.class",
}
S3_JARS = {
    "hadoop-aws": "org/apache/hadoop/fs/s3a/S3AFileSystem.class",
    "s3": "software/amazon/awssdk/services/s3/S3Client.class",
    "sdk-core": "software/amazon/awssdk/core/SdkClient.class",
}


def check_jars(
    folder: Path,
    jars: dict[str, str] = JARS,
    what: str = "Delta",
    command: str = "crawlkit jars",
    target: str = "make setup",
) -> None:
    """Raises SessionError if a JAR is missing or damaged."""
    fix = f"run `{command}` (`{target}` in a checkout does it)"
    for name, member in jars.items():
        found = list(folder.glob(f"{name}[-_][0-9]*.jar"))
        if not found:
            raise SessionError(
                f"the {what} JAR {name} is not in {folder}: {fix}, or set CRAWLKIT_JARS"
            )
        for jar in found:
            try:
                with zipfile.ZipFile(jar) as z:
                    z.getinfo(member)
            except (OSError, zipfile.BadZipFile, KeyError):
                raise SessionError(f"the {what} JAR {jar} is damaged: {fix}") from None


def java_options(quick: bool) -> str:
    """Options of the JVM.

    quick: compile less, with room for the garbage of planning, and start from the class archive if
    there is one.
    """
    log4j = Path(__file__).parents[1] / "data" / "log4j2.properties"
    # extraClassPath alone would let the JVM warn on each reflective access of Arrow; these are
    # Spark's own opens.
    opts = (
        f"-Dlog4j2.configurationFile=file:{log4j} -Dlog4j.configurationFile=file:{log4j}"
        " -Duser.timezone=UTC"
    )
    if not quick:
        return f"{opts} -XX:+UseParallelGC"
    archive = (
        f" -XX:SharedArchiveFile={archive_file()} -Xshare:auto -Xlog:disable"
        if archive_file().is_file()
        else ""
    )
    return (
        f"{opts} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -Xms1g"
        f" -Xmn640m -XX:MetaspaceSize=400m{archive}"
    )
