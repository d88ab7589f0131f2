"""A whole Airflow on loopback for one crawl (`make airflow`), driven through its REST interface.

It lives in an environment of its own (.venv-airflow, conf/airflow.lock) and writes below one
folder; here are only its processes and its HTTP interface.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests
import yaml

from crawlkit.local.sample_site import serve
from crawlkit.runtime.session import java_options

ROOT = Path(__file__).resolve().parents[3]
STEP_S = 10.0
TASKS = 2  # at once


_FIXED_SETTINGS = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "5",
    "AIRFLOW__CORE__DEFAULT_POOL_TASK_SLOT_COUNT": str(TASKS),
    # one more than tasks: the callback for a late run waits for a slot
    "AIRFLOW__CORE__PARALLELISM": str(TASKS + 1),
    "AIRFLOW__API__HOST": "127.0.0.1",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_LOG_SERVER_PORT": "0",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "NO_COLOR": "1",
    "CRAWLKIT_SCHEDULE_CRAWL_ROUND": "none",
    "CRAWLKIT_SCHEDULE_FAST_ROUND": "none",
    "CRAWLKIT_SCHEDULE_DAILY_ANALYSIS": "none",
    "CRAWLKIT_SCHEDULE_MAINTENANCE": "none",
}


class AirflowError(RuntimeError):
    """Airflow did not do what was requested; the message names the log to read."""


class LocalAirflow:
    """A context manager.

    folder: everything it writes; env: further environment of Airflow's processes.

    Raises AirflowError if it is not installed, or not ready in `start_s`.
    """

    def __init__(
        self,
        folder: Path,
        env: dict[str, str] | None = None,
        start_s: float = 120.0,
        home: Path = ROOT,
    ) -> None:
        self.folder = folder.absolute()
        self.start_s = start_s
        self.port = _free_port()
        self.bin = home / ".venv-airflow" / "bin"
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = self.folder / "airflow.log"
        self.env = _own_environment() | self._settings(home) | (env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._session = requests.Session()
        self._session.trust_env = False

    def _settings(self, home: Path) -> dict[str, str]:
        """The environment that makes Airflow one of this folder, with the DAGs of `home`."""
        return {
            "AIRFLOW_HOME": str(self.folder),
            "HOME": str(self.folder),
            "PATH": f"{self.bin}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "airflow_dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(_free_port()),
            "CRAWLKIT_SPARK_PROPERTIES": str(self.folder / "spark.properties"),
            **_FIXED_SETTINGS,
        }

    # -- its processes -----------------------------------------------------------------
    def __enter__(self) -> LocalAirflow:
        if not (self.bin / "airflow").exists():
            raise AirflowError(f"Airflow is not in {self.bin}: run `make airflow-setup`")
        self.folder.mkdir(parents=True, exist_ok=True)
        quick = java_options(True)
        (self.folder / "spark.properties").write_text(
            "".join(f"spark.{side}.extraJavaOptions {quick}\n" for side in ("driver", "executor"))
            + f"spark.local.dir {self.folder}/spark\n"
        )
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(self.bin / "airflow"), "standalone"],
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait(self._ready, self.start_s, "Airflow to be ready")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End Airflow and what it started, at the latest after 3 x STEP_S."""
        if self._process is None:
            return
        mine = below(self._process.pid)
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            mine |= set().union(*(below(p) for p in mine if alive(p))) if mine else set()
            for pid in [self._process.pid] if how == signal.SIGINT else mine:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
            end = time.monotonic() + STEP_S
            while time.monotonic() < end and (
                self._process.poll() is None or any(map(alive, mine))
            ):
                time.sleep(0.1)
        self._process = None

    def _ready(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise AirflowError(f"Airflow has ended: see {self.log}")
        try:
            health = self._session.get(f"{self.url}/api/v2/monitor/health", timeout=STEP_S).json()
            if any(
                health[part]["status"] != "healthy"
                for part in ("metadatabase", "scheduler", "dag_processor")
            ):
                return False
            if "Authorization" not in self._session.headers:
                passwords = json.loads(
                    (self.folder / "simple_auth_manager_passwords.json.generated").read_text()
                )
                got = self._session.post(
                    f"{self.url}/auth/token",
                    json={"username": "admin", "password": passwords["admin"]},
                    timeout=STEP_S,
                )
                self._session.headers["Authorization"] = f"Bearer {got.json()['access_token']}"
            return bool(self.get("dags")["total_entries"] >= 6)
        except (requests.RequestException, OSError, ValueError, KeyError, AirflowError):
            return False

    def _wait(self, done: Any, seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise AirflowError(f"waited {seconds:g} s for {what}: see {self.log}")
            time.sleep(0.3)

    # -- its REST interface ------------------------------------------------------------
    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Send a request to the REST interface; its response, whatever the status."""
        return self._session.request(method, f"{self.url}/api/v2/{path}", json=body, timeout=60)

    def get(self, path: str) -> Any:
        """Raises AirflowError."""
        return _json(self.call("GET", path))

    def pause(self, dag_id: str, paused: bool = True) -> None:
        """A paused DAG (each is at first) starts no run. Raises AirflowError."""
        _json(self.call("PATCH", f"dags/{dag_id}", {"is_paused": paused}))

    def trigger(self, dag_id: str, conf: dict[str, Any], **more: Any) -> str:
        """Wake the DAG and start a run; its id. more: dag_run_id, run_after.

        Raises AirflowError with the answer's message (a value of the form that does not fit).
        """
        self.pause(dag_id, False)
        return _json(
            self.call(
                "POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf, **more}
            )
        )["dag_run_id"]

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Task instances of a run: task_id, map_index, state, try_number ..."""
        return self.get(f"dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances?limit=200")[
            "task_instances"
        ]

    def wait(self, dag_id: str, run_id: str, seconds: float, say: Any = lambda text: None) -> str:
        """The state in which the run ends: success or failed. Raises AirflowError."""
        seen: dict[str, str] = {}

        def done() -> bool:
            for t in self.tasks(dag_id, run_id):
                if t["state"] != seen.get(t["task_id"]) and t["state"] in (
                    "running",
                    "success",
                    "failed",
                    "up_for_retry",
                    "skipped",
                ):
                    say(f"{dag_id}: {t['task_id']} {t['state']}")
                seen[t["task_id"]] = t["state"]
            return self.get(f"dags/{dag_id}/dagRuns/{quote(run_id)}")["state"] in (
                "success",
                "failed",
            )

        self._wait(done, seconds, f"the run {run_id} of {dag_id}")
        return self.get(f"dags/{dag_id}/dagRuns/{quote(run_id)}")["state"]


def _json(response: requests.Response) -> Any:
    if response.status_code >= 400:
        try:
            detail = response.json()["detail"]
        except (ValueError, KeyError, TypeError):
            detail = response.text[:500]
        raise AirflowError(f"HTTP {response.status_code}: {detail}")
    return response.json()


def _own_environment() -> dict[str, str]:
    """This process's environment without what would steer Airflow or crawlkit."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "CRAWLKIT_"))
        and name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def below(pid: int) -> set[int]:
    """The process and all below it, by /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            children.setdefault(
                int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]), []
            ).append(int(entry.name))
    found, todo = {pid}, [pid]
    while todo:
        new = set(children.get(todo.pop(), [])) - found
        found |= new
        todo += new
    return found


def alive(pid: int) -> bool:
    """Whether a process runs and is no zombie, by /proc."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def sample_site(folder: Path, sample: Path) -> Iterator[tuple[Path, list[str]]]:
    """The sample site on loopback: (a configuration file for it, its seeds)."""
    with serve(sample) as site:
        config = folder / "site.yaml"
        config.write_text(yaml.safe_dump(site.config()))
        yield config, list(site.seeds)


def main() -> None:
    """Crawl one round of the sample site through Airflow.

    `python -m crawlkit.local.airflow --folder DIR`
    """
    args = _options().parse_args()
    folder = args.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    env = {"CRAWLKIT_DATA": str(folder / "crawl")}
    try:
        with sample_site(folder, args.sample) as (config, seeds):
            env["CRAWLKIT_CONFIG"] = str(config)
            with LocalAirflow(folder, env) as airflow:
                _crawl_round(airflow, seeds, folder / "crawl", args.wait_s)
                while args.keep:
                    time.sleep(1)
    except AirflowError as e:
        print(f"crawlkit: {e}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        pass


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m crawlkit.local.airflow",
        description=(
            "Start Airflow on loopback and crawl one round of the sample site through its REST"
            " interface."
        ),
        epilog="example: python -m crawlkit.local.airflow --folder airflow-data --keep",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "--folder",
        type=Path,
        default=Path("airflow-data"),
        help="folder of Airflow and of the crawl",
    )
    options.add_argument(
        "--sample",
        type=Path,
        default=ROOT / "data" / "samples" / "site",
        help="folder of the sample site",
    )
    options.add_argument(
        "--wait-s", type=float, default=600.0, help="the round must end in this time, s"
    )
    options.add_argument("--keep", action="store_true", help="leave Airflow running until Ctrl-C")
    return options


def _crawl_round(airflow: LocalAirflow, seeds: list[str], data: Path, wait_s: float) -> None:
    """Run the DAG of a round and print where its results are. Raises AirflowError."""
    _print(
        f"Airflow: {airflow.url} (user admin, password in"
        f" {airflow.folder}/simple_auth_manager_passwords.json.generated)"
    )
    run_id = airflow.trigger("crawl_round", {"seeds": seeds})
    state = airflow.wait("crawl_round", run_id, wait_s, _print)
    _print(f"run {run_id} of crawl_round: {state}")
    if state != "success":
        raise AirflowError(f"the round has failed: see {airflow.folder}/logs")
    _print(f"report: {data / 'report' / 'index.html'}")
    _print(f"WARC:   {data / 'warc'}")
    _print(f"tables: {data / 'tables'}")


def _print(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
