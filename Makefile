# Every target makes its own set-up: a virtual environment in .venv and what the target needs.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
STAMP := .venv/.installed
# Files whole, and in the order of tests/conftest.py: the longest first, so that none is left over.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all test-kernels test-browser bench audit figures gallery lint docs clean

demo: $(STAMP)-demo
	$(BIN)/masquerade demo --out out

test: lint
	$(BIN)/python -m pytest $(PARALLEL)

test-all: lint
	$(BIN)/python -m pytest $(PARALLEL) -m "slow or not slow"

# The page in a real browser; Debian's chromium is installed if there is none.
test-browser: $(STAMP)-dev
	@command -v chromium >/dev/null || { apt-get update && apt-get install -y chromium; } || echo "No chromium: install it by hand."
	$(BIN)/python -m pytest -m "slow or not slow" tests/report/test_page_browser.py

# All tests again for each kind of kernels that this processor can run.
test-kernels: lint
	@for kind in by_place oldest avx2; do $(BIN)/python tests/kernels.py $$kind $(PARALLEL) || exit 1; done

lint: $(STAMP)-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP)-bench
	@for script in benchmarks/*.py; do echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

audit: $(STAMP)-demo
	$(BIN)/python -m experiments audits --long --out docs/audits.md

gallery: $(STAMP)-demo
	$(BIN)/python tools/gallery.py --out docs/gallery --stage docs/stage

figures: $(STAMP)-bench
	$(BIN)/python tools/figures.py --out docs/figures.md

docs: $(STAMP)-docs
	$(BIN)/python -m experiments papers --out docs/papers.md
	@$(BIN)/mkdocs build --strict --site-dir site >.venv/docs.log 2>&1 || { cat .venv/docs.log; exit 1; }  # --quiet would not count warnings
	@echo "The docs: site/index.html"

clean:
	rm -rf .venv out site

$(STAMP)-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Masquerade needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "This Python has no venv: apt-get install python3-venv (or use another Python: make PYTHON=...)"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

$(STAMP)-core: $(STAMP)-venv pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(STAMP)-%: $(STAMP)-core
	$(PIP) -e ".[$*]"
	@touch $@
