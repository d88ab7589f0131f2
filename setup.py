"""The parts in C (metadata: setup.cfg).

Optional: without a compiler their pure-Python fallbacks do the work.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

FLAGS = ["-O3", "-Wall", "-Wextra", "-Wno-unused-parameter"]
HEADERS = {
    "_features": [],
    "_prints": [],
    "_tree": ["_lexbor.h", "_text.h"],
}


class BuildWithDags(build_py):
    """Puts the DAGs and jobs beside the package's other data, for `crawlkit init --airflow`."""

    def run(self):
        super().run()
        for folder in () if self.editable_mode else ("airflow_dags", "jobs"):
            out = Path(self.build_lib, "crawlkit", "data", "airflow", folder)
            self.mkpath(str(out))
            for path in sorted(Path(folder).glob("*.[pj]*")):
                self.copy_file(str(path), str(out / path.name))


NATIVE = "lib/crawlkit/native"
setup(
    cmdclass={"build_py": BuildWithDags},
    ext_modules=[
        Extension(
            f"crawlkit.native.{name}",
            [f"{NATIVE}/{name}.c"],
            depends=[f"{NATIVE}/{h}" for h in headers],
            extra_compile_args=FLAGS,
            optional=True,
        )
        for name, headers in HEADERS.items()
    ],
)
