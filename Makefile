# The front door. `make` alone checks everything; `make help` lists what there is.
SHELL := /bin/bash
BIN := .venv/bin
# Files are dealt out as tests/conftest.py orders them: the slow ones first, so that nobody works alone at the end.
PYTEST := $(BIN)/pytest -n $(or $(JOBS),auto) --dist loadfile --no-loadscope-reorder --hypothesis-profile=$(or $(PROFILE),steady)

.DEFAULT_GOAL := check
.PHONY: help venv browser vendors run test test-old check fast explore lint format coverage bench docs pictures docs-check pins build size clean

help:        ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

venv:        ## prepare .venv (idempotent; every other command calls it)
	@scripts/venv

browser:     ## a Chromium for the tests of the page, if there is none
	@scripts/browser

vendors: venv   ## environments with the vendors' real packages, for the tests marked vendor (about 2.7 GB)
	@scripts/vendors

run: venv    ## start the server: page, API and docs on http://127.0.0.1:8321
	@$(BIN)/quipu serve

test:        ## format, lint, types, import contracts and tests of the tree under next/: this is what CI runs
	@$(MAKE) --no-print-directory -C next test

test-old: lint browser vendors   ## the same for the tree that `make run` starts, which is frozen
	@$(PYTEST) tests

check: lint docs-check browser vendors   ## the same, and a report of the longest modules and functions
	@$(BIN)/python scripts/shape.py
	@$(PYTEST) tests

fast: lint browser   ## the same without the tests marked slow or vendor
	@$(PYTEST) -m "not slow and not vendor" tests

explore:     ## the same as fast, with property tests that try more and by chance
	@$(MAKE) --no-print-directory fast PROFILE=explore

lint: venv   ## format, lint, types, import contracts
	@scripts/lint

format: venv ## rewrite the code in the one format
	@$(BIN)/ruff format $(wildcard src tests scripts bench examples)
	@$(BIN)/ruff check --fix-only --quiet $(wildcard src tests scripts bench examples)

coverage: venv   ## branch coverage; model, rules and service must be complete
	@scripts/coverage

bench: venv  ## measure; results are written under bench/results
	@$(BIN)/python -m bench

docs: venv   ## regenerate docs/reference, check every link, build the site into build/site
	@$(BIN)/python scripts/docs.py write
	@$(BIN)/python scripts/docs.py check
	@$(BIN)/mkdocs build --quiet --strict
	@echo "docs: built build/site/index.html"

pictures: venv browser   ## take the pictures of the review work again, into docs/pictures
	@$(BIN)/python scripts/screenshots.py

docs-check: venv   ## links, anchors and generated pages, without writing
	@$(BIN)/python scripts/docs.py check

pins: venv   ## renew the pinned requirements
	@scripts/pins

build: venv  ## the wheel and the source archive, into dist
	@$(BIN)/python -m build --no-isolation

size: venv   ## install the base package into a fresh environment and weigh it
	@scripts/size

clean:       ## remove what was built, but not .venv
	@rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
	@find src tests scripts examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
