# make setup: .venv with crawlkit in it, for crawls on this machine; the other targets call what they need.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: setup setup-spark setup-s3 setup-render setup-tests outside crawl check format-check lint types quick test-stages test test-slow bench docs zip airflow airflow-setup clean
setup: $(VENV)/.done

# The lock names every package, so that pip has nothing to resolve; it would compile them on one processor.
$(VENV)/.done: conf/requirements.lock setup.cfg setup.py pyproject.toml $(wildcard lib/crawlkit/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info[:2] == (3, 11) else "crawlkit needs Python 3.11; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -r conf/requirements.lock
	@$(BIN)/python -m compileall -q -j 0 -x '/tests?/' $(VENV)/lib >/dev/null || true
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# What the engine spark needs beside that: Java 17, pyspark, Delta's JARs, a class archive that lets its JVM start faster.
setup-spark: $(VENV)/.spark

$(VENV)/.spark: $(VENV)/.done conf/spark.lock lib/crawlkit/data/jars.lock
	@command -v java >/dev/null || { echo "the engine spark needs a Java 17 runtime on PATH; the engine local needs none" >&2; exit 2; }
	$(PIP) -r conf/spark.lock
	@$(BIN)/python -m compileall -q -j 0 -x '/tests?/' $(VENV)/lib >/dev/null || true
	$(BIN)/python -m crawlkit.runtime.jars
	$(BIN)/python -m crawlkit.local.class_archive data/samples/site
	touch $@

# What tables in S3 need beside that (docs/s3.md).
setup-s3: setup-spark
	$(PIP) -r conf/s3.lock
	$(BIN)/python -m crawlkit.runtime.jars s3

# What rendering needs beside `setup`: Playwright and a Chromium, from the package registries (docs/rendering.md).
setup-render: $(VENV)/.render

$(VENV)/.render: $(VENV)/.done conf/render.lock lib/crawlkit/data/chromium.lock
	$(PIP) -r conf/render.lock
	$(BIN)/python -m crawlkit.runtime.chromium_setup && touch $@ || echo "no Chromium could be had: pages are not rendered, and tests with one are skipped" >&2

# What tests, lint and types need: all of the above, and their own tools.
setup-tests: $(VENV)/.tests

$(VENV)/.tests: $(VENV)/.spark conf/s3.lock conf/tests.lock conf/render.lock
	$(PIP) -r conf/s3.lock -r conf/tests.lock -r conf/render.lock
	@$(BIN)/python -m compileall -q -j 0 -x '/tests?/' $(VENV)/lib >/dev/null || true
	touch $@

# Three rounds over the sample site, served on loopback. DATA=folder to choose where, ENGINE=spark for Spark.
DATA ?= crawl-data
ENGINE ?= local
crawl: $(if $(filter spark,$(ENGINE)),setup-spark,setup)
	$(BIN)/crawlkit crawl --sample --rounds 3 --data $(DATA) --engine $(ENGINE)

# Four speeds of tests; what a test needs is told by its markers (setup.cfg). `make check`: 30 seconds.
check: setup-tests
	@$(MAKE) --no-print-directory -j2 --output-sync format-check lint types quick

format-check: setup-tests
	$(BIN)/ruff format --check --quiet .

lint: setup-tests
	$(BIN)/ruff check --quiet .

types: setup-tests
	$(BIN)/mypy

# pytest rewrites the asserts of each test module, two thirds of collecting them: kept beside the module.
quick test-stages test test-slow: export PYTHONDONTWRITEBYTECODE :=

quick: setup-tests
	$(BIN)/python -m pytest -q -n 2 --hypothesis-profile quick -m "not waits and not spark and not rounds and not slow"

# Each stage on small tables, in one Spark session, without rounds and servers: two minutes.
test-stages: setup-tests
	$(BIN)/python -m pytest -m "not rounds and not slow" tests/stages

# Everything but slow tests: two processes, of which one has the Spark session.
test: setup-tests setup-s3 setup-render outside
	$(BIN)/python -m pytest -n 2 -m "not slow"

# Soaks, kills, fuzz at full size, rounds in Airflow and in S3: hours.
test-slow: setup-tests setup-s3 setup-render outside
	$(BIN)/python -m pytest -m slow

# Tools of others that tests compare with, in an environment of their own; where they cannot be had, those tests say that they skip.
outside: .venv-outside/.done

.venv-outside/.done: conf/outside.lock
	test -x .venv-outside/bin/python || $(PYTHON) -m venv .venv-outside
	.venv-outside/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r conf/outside.lock && touch $@ || echo "the tools of conf/outside.lock cannot be installed: tests with them are skipped" >&2

# Benchmarks beside other libraries (bench/results); NAME=rules for one of them.
bench: setup-tests
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r conf/bench.lock
	$(BIN)/python -m bench $(NAME)

# The package for spark-submit --py-files (docs/spark-submit.md).
zip:
	@mkdir -p dist
	@find lib/crawlkit -name __pycache__ -prune -exec rm -rf {} +
	@rm -f dist/crawlkit.zip
	cd lib && $(PYTHON) -m zipfile -c ../dist/crawlkit.zip crawlkit

# Airflow in an environment of its own, and one round of the sample site through it (docs/airflow.md).
airflow-setup: .venv-airflow/.done

.venv-airflow/.done: conf/airflow.lock
	test -x .venv-airflow/bin/python || $(PYTHON) -m venv .venv-airflow
	.venv-airflow/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r conf/airflow.lock
	touch $@

AIRFLOW_DATA ?= airflow-data
airflow: setup-spark airflow-setup zip
	$(BIN)/python -m crawlkit.local.airflow --folder $(AIRFLOW_DATA)

docs: setup-tests
	$(BIN)/python -m crawlkit.round.contracts > docs/tables.md
	$(BIN)/python -m crawlkit.round.contracts json > airflow_dags/contracts.json
	$(BIN)/python -m crawlkit.config docs > docs/configuration.md
	$(BIN)/python -m crawlkit.config yaml > conf/default.yaml

clean:
	rm -rf $(VENV) .venv-airflow .venv-outside crawl-data airflow-data
