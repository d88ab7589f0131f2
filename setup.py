"""The parts in C (metadata: setup.cfg). Optional: without a compiler their Python twins do the work."""

from setuptools import Extension, setup

FLAGS = ["-O3", "-Wall", "-Wextra", "-Wno-unused-parameter"]
setup(ext_modules=[Extension(f"crawlkit.rules.{name}", [f"lib/crawlkit/rules/{name}.c"], extra_compile_args=FLAGS, optional=True) for name in ("_scan", "_tree")])
