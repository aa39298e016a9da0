# Two commands need nothing but Python >= 3.11 and a package index: make demo, make test.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
export ADACORR_DATA ?= $(wildcard ../shared/data)

.PHONY: demo test lint types unit bench hard docs build clean browser

# One stamp per set of extras: `make demo` installs less than `make test`.
$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[images,review]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/.demo

demo: $(VENV)/.demo           ## find and correct wrong labels among real handwritten digits
	$(BIN)/python examples/demo.py

test: lint types unit         ## everything CI runs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/pyright

unit: $(VENV)/.dev browser
	$(BIN)/python -m pytest

browser:                      ## the review page is tested in Debian's Chromium
	@command -v chromium >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
	  && apt-get update -qq && apt-get install -y -qq chromium fonts-dejavu-core >/dev/null; } \
	  || echo "chromium not found: install it (Debian: apt-get install chromium) to run the browser tests"

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.dev           ## speed and memory, as ratios measured in one run
	for script in benchmarks/kernel.py benchmarks/table.py benchmarks/startup.py benchmarks/train.py; do $(BIN)/python $$script || exit 1; done

hard: $(VENV)/.dev            ## kills, malformed input, faults, load: half an hour on two quiet cores, 3 h at most
	rm -f results/hard.json
	code=0; ADACORR_HARD_RESULTS=results/hard.json OMP_NUM_THREADS=1 timeout -k 60 3h \
	  $(BIN)/python -m pytest -p no:warnings -p no:cacheprovider \
	  -o addopts=--import-mode=importlib -v tests/hard tests/core/test_numerical.py || code=$$?; \
	  $(BIN)/python tests/hard/summary.py && exit $$code

build: $(VENV)/.dev           ## wheel and sdist; then the wheel in an empty environment
	$(BIN)/python -m build
	$(BIN)/python tests/packaging/check_wheel.py

clean:
	rm -rf $(VENV) dist docs/_build .pytest_cache .ruff_cache adacorr-demo
