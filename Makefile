# `make run` and `make test` do their own set-up. They need Python 3.11+; without a JDK 17+, the tests that need Java are skipped.

PYTHON ?= python3
# A faster build of the same Python is used instead of python3 if there is one; a PYTHON that is given is used as it is.
CHOSEN := $(if $(filter file,$(origin PYTHON)),"$$($(PYTHON) tools/choose_python.py)",$(PYTHON))
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# Processes for all tests: two more than two cores, because many tests wait. Selected tests (ARGS) run in one process, for -s and --pdb.
WORKERS ?= 4
SEEDS  ?= 20

# The Java that Spark and Kafka use.
JAVA       := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
JAVA_PLACE := $(if $(JAVA_HOME),in JAVA_HOME ($(JAVA_HOME)),on the PATH and JAVA_HOME is not set)
JAVA_17    := 'version "(1[7-9]|[2-9][0-9])'

.DEFAULT_GOAL := help
.PHONY: help run demo test test-all peers-kafka spark-faults conformance bench bench-clients bench-oracle generate types lint scenarios explore readme properties wheel image containers frameworks requirements clean check-python check-java need-java

help:           ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*##/ { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Stuntbroker needs Python 3.11 or newer: install it, or name one with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "This Python cannot make virtual environments: install its venv package (Debian: python3-venv)" >&2; exit 1; }

check-java:
	@"$(JAVA)" -version 2>&1 | grep -qE $(JAVA_17) || \
	  echo "No JDK 17 or newer $(JAVA_PLACE): the tests on Spark, and those against Apache Kafka and its Java client, are skipped" >&2

need-java:
	@"$(JAVA)" -version 2>&1 | grep -qE $(JAVA_17) || \
	  { echo "Spark needs a JDK 17 or newer: there is none $(JAVA_PLACE)" >&2; exit 1; }

$(VENV)/run: pyproject.toml | check-python
	@test -x $(BIN)/python || { echo "A virtual environment in $(VENV)" && $(CHOSEN) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	$(BIN)/python -m compileall -q broker cli client control coordinator fixture groups pipeline protocol security storage stuntbroker $(VENV)/lib
	@touch $@

$(VENV)/pipeline: $(VENV)/run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[pipeline]'
	@touch $@

# PySpark is no wheel yet: pip makes one of 450 MB, which is not compressed to be unpacked at once. Of some 10,000 files a tenth is ever imported:
# Python compiles those then, on every core, where pip would compile all of them on one.
$(VENV)/dev: $(VENV)/run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@printf '[bdist_wheel]\ncompression = stored\n' > $(VENV)/wheels.cfg
	DIST_EXTRA_CONFIG="$$PWD/$(VENV)/wheels.cfg" $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --group dev
	@touch $@

run: $(VENV)/run  ## start a broker on localhost:9092 (ARGS="--port 9093 ..." for more)
	@exec $(BIN)/stuntbroker serve $(ARGS)

demo: $(VENV)/pipeline need-java  ## run a Spark query from orders to payments while everything is killed, then the audit (ARGS="--open")
	@$(BIN)/python demo/run.py $(ARGS)

# Tests start hundreds of processes, which would compile the same files again where Python is told not to keep bytecode.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/dev check-java  ## run the tests, except those of tests/long_tests.py (ARGS="tests/groups -k name" for some)
	@! command -v "$(JAVA)c" >/dev/null || $(BIN)/python tools/jars.py >/dev/null
	TMPDIR="$${TMPDIR:-$$($(BIN)/python tools/temporary_folder.py)}" $(BIN)/python -m pytest $(or $(ARGS),-n $(WORKERS) -m "not long")

test-all:  ## run all tests
	@$(MAKE) --no-print-directory test ARGS="-n $(WORKERS) $(ARGS)"

peers-kafka: $(VENV)/dev  ## run the tests with real clients against Apache Kafka itself
	$(BIN)/python tools/jars.py >/dev/null
	$(BIN)/python -m pytest tests/peers --peer-broker=kafka $(ARGS)

spark-faults: $(VENV)/dev need-java  ## test the Spark sink under random faults of every kind (SEEDS=200; ARGS="--first 17")
	$(BIN)/python tests/spark/seeded_faults.py --seeds $(SEEDS) $(ARGS)

conformance: $(VENV)/dev  ## compare the responses to random requests with Apache Kafka's (ARGS="--seeds 100 --only transactions")
	$(BIN)/python tools/jars.py >/dev/null
	$(BIN)/python -m tests.conformance --seeds 20 $(ARGS)

bench: $(VENV)/dev  ## measure this broker beside kfake and Apache Kafka, and without ARGS the producers too (docs/benchmarks.md)
	$(BIN)/python bench/run.py $(ARGS)
	$(if $(ARGS),,$(BIN)/python bench/clients.py)

bench-clients: $(VENV)/dev  ## measure our transactional producers beside aiokafka's and librdkafka's
	$(BIN)/python bench/clients.py $(ARGS)

bench-oracle: $(VENV)/dev  ## run a million transactions under random faults, checked by the oracle (ARGS="--transactions 20000")
	$(BIN)/python bench/oracle.py $(ARGS)

generate:       ## write protocol/messages from tools/schemas
	$(PYTHON) tools/generate.py

types: $(VENV)/dev  ## check types with mypy --strict
	$(BIN)/python tests/house/typing_links.py
	$(BIN)/python -m mypy

lint: $(VENV)/dev  ## check style with ruff
	$(BIN)/python -m ruff check .

scenarios: $(VENV)/dev  ## rewrite the transcripts of tests/coordinator/scenarios, to review the difference
	$(BIN)/python -m pytest -q tests/coordinator tests/scenarios -k 'not test_kafka' --rewrite-scenarios

explore: $(VENV)/dev  ## explore every interleaving of small coordinator scenarios, deeper than the tests do (minutes; ARGS=--faults)
	$(BIN)/python tests/coordinator/exploration/explore.py $(ARGS)

readme: $(VENV)/run  ## write the table of APIs into README.md
	$(BIN)/python tools/api_table.py

properties: $(VENV)/run  ## write docs/properties.md, docs/stops.md, docs/client.md and the tables of faults in docs/control.md
	$(BIN)/python tools/properties_page.py
	$(BIN)/python tools/stops_page.py
	$(BIN)/python tools/faults_tables.py
	$(BIN)/python tools/client_page.py

wheel: $(VENV)/dev  ## build a wheel into dist/, compiled where there is a C compiler (ARGS=--pure)
	@$(BIN)/python tools/build_wheel.py $(ARGS)

image:          ## build the container image `stuntbroker` (ARGS="--network=host ...")
	docker build $(ARGS) --build-arg REVISION="$$(git rev-parse HEAD 2>/dev/null)" -f docker/Dockerfile -t stuntbroker -t stuntbroker:8.0.0 .

containers: $(VENV)/dev image  ## test the image, compose files and Testcontainers in four languages, with a container engine
	STUNTBROKER_IMAGE=stuntbroker $(BIN)/python -m pytest tests/docker

frameworks: $(VENV)/dev need-java  ## test Spring Boot, Kafka Streams, Flink and Kafka Connect, with Maven
	STUNTBROKER_FRAMEWORKS=1 $(BIN)/python -m pytest tests/frameworks

PIP_COMPILE = $(BIN)/python -m piptools compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --no-header --upgrade --allow-unsafe

requirements: $(VENV)/dev  ## write docker/*requirements.txt: versions and hashes of the packages in the image, and of its build tools
	$(PIP_COMPILE) --extra image -o docker/requirements.txt pyproject.toml
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["image"], sep="\n")' \
	  | $(PIP_COMPILE) --no-annotate -o docker/build-requirements.txt -

clean:          ## remove everything that was built
	rm -rf $(VENV) .typing build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
