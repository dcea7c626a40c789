# The front door. `make` alone checks everything that `make test` does; `make help` lists what there is.
SHELL := /bin/bash
BIN := .venv/bin
PYTEST := $(BIN)/pytest -n $(or $(JOBS),auto) --dist loadfile --hypothesis-profile=$(or $(PROFILE),steady)

.DEFAULT_GOAL := test
.PHONY: help venv run test test-browser test-slow vendors test-vendors check-rest check lint format generate docs build size pictures bench shape pins clean

help:        ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

venv:        ## prepare .venv and the embedding model (idempotent; every other command calls it)
	@scripts/venv

run: venv    ## start the server on http://127.0.0.1:8321
	@$(BIN)/quipu serve

test: lint   ## format, lint, types, import contracts, then every test that is neither slow nor needs a browser or a vendor
	@$(PYTEST) -m "not slow and not browser and not vendor" tests
	@echo "left out: the page in a browser (make test-browser), the slow tests (make test-slow), other systems' packages (make test-vendors)"

test-browser: venv   ## the page in Chromium, which is installed when there is none
	@scripts/browser
	@$(PYTEST) -m "browser" tests

test-slow: venv   ## kill -9, fuzz and scale, with more examples
	@$(PYTEST) -m "slow and not browser and not vendor" --hypothesis-profile=thorough tests

vendors: venv   ## environments with other systems' real packages (VENDOR=name: one of them)
	@scripts/vendors $(VENDOR)

test-vendors: venv   ## the tests with other systems' real packages (VENDOR=name: those of one of them)
	@scripts/vendors $(VENDOR)
	@$(PYTEST) -m "vendor$(if $(VENDOR),(name='$(VENDOR)'))" tests

check-rest: docs build size   ## the documentation's site, the wheel, and what the base package weighs

check: test test-browser test-slow test-vendors check-rest   ## everything that CI runs

lint: venv   ## format, lint, types, import contracts
	@scripts/lint

format: venv ## rewrite the code in the one format
	@$(BIN)/ruff format src tests scripts bench examples
	@$(BIN)/ruff check --fix-only --quiet src tests scripts bench examples

generate: venv   ## write api.py, sync.py, schemas and the reference anew from the operations
	@$(BIN)/python scripts/generate.py

docs: generate   ## the same, and the site into build/site
	@$(BIN)/mkdocs build --quiet --strict
	@echo "docs: built build/site/index.html"

build: venv  ## the wheel and the source archive, into dist
	@$(BIN)/python -m build --no-isolation

size: venv   ## install the base package into a fresh environment and weigh it
	@scripts/size

pictures: venv   ## take the pictures of the page anew, into docs/pictures
	@scripts/browser
	@$(BIN)/python -m tests.browser.pictures

bench: venv  ## measure; results are written under bench/results
	@$(BIN)/python -m bench

shape: venv  ## print lines, modules, folders, the walks, and where an operation's fields are listed
	@$(BIN)/python scripts/shape.py

pins: venv   ## renew the pinned requirements
	@scripts/pins

clean:       ## remove what was built, but not .venv
	@rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
