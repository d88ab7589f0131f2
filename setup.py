"""The parts in C (metadata: setup.cfg).

Optional: without a compiler their pure-Python fallbacks do the work.
"""

from setuptools import Extension, setup

FLAGS = ["-O3", "-Wall", "-Wextra", "-Wno-unused-parameter"]
HEADERS = {
    "_features": [],
    "_prints": [],
    "_tree": ["_lexbor.h", "_text.h"],
}
NATIVE = "lib/crawlkit/native"
setup(
    ext_modules=[
        Extension(
            f"crawlkit.native.{name}",
            [f"{NATIVE}/{name}.c"],
            depends=[f"{NATIVE}/{h}" for h in headers],
            extra_compile_args=FLAGS,
            optional=True,
        )
        for name, headers in HEADERS.items()
    ]
)
