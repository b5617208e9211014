# Every target builds its own environment: nothing but Python has to be installed by hand.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
# The processes that tests start import torch and the library again and again: compiled modules are kept.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo check test lint types benchmark benchmark-theory bench-weights bench-gradients bench-chains bench-busy bench-residual bench-watch bench-watch-warnings calibrate stock results-page reference-pages page-outputs picture docs viewer browser compiler clean

demo: .venv/demo.stamp  ## diagnose the built-in gallery; writes report.html and report.json
	$(BIN)/orthoscope diagnose --html report.html --json report.json

# Where all tests have a marker that `make check` leaves out: their imports alone take seconds.
ALL_MARKED := browser distributed zoo papers errata watcher/test_lightning.py watcher/test_trainer.py

check: lint  ## lint, types and the fast tests: under two minutes
	@# Types and tests side by side: each keeps one of two cores busy most of the time.
	@$(BIN)/mypy > .venv/mypy.txt & types=$$!; \
	$(PYTEST) -m "not (slow or browser or distributed or zoo or papers)" $(ALL_MARKED:%=--ignore=tests/%); tests=$$?; \
	wait $$types || { cat .venv/mypy.txt; exit 1; }; cat .venv/mypy.txt; exit $$tests

test: .venv/test.stamp browser compiler  ## the whole test suite
	@# Which test needs them first depends on the order.
	$(BIN)/orthoscope data get mnist fashion-mnist cifar10
	$(PYTEST)

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell src tests docs examples viewer/src benchmarks README.md CONTRIBUTING.md CHANGELOG.md Makefile

types: .venv/test.stamp
	$(BIN)/mypy

benchmark: .venv/test.stamp  ## what a diagnosis costs, beside a plain forward and backward pass
	$(BIN)/python benchmarks/diagnosis.py

benchmark-theory: .venv/test.stamp  ## kernel maps beside dks, and predictions beside measurements
	$(PIP) --editable '.[peers]'
	$(BIN)/python benchmarks/kernel_map.py
	$(BIN)/python benchmarks/prediction_accuracy.py

bench-weights: .venv/test.stamp  ## orthogonal weights beside the peers; writes docs/weights_benchmark.md, fifteen minutes
	$(PIP) --editable '.[peers]'
	$(BIN)/python benchmarks/weights.py

bench-gradients: .venv/test.stamp  ## Muon beside the peers, and trainings; writes docs/gradients_benchmark.md, twenty minutes
	$(PIP) --editable '.[peers]'
	-$(BIN)/orthoscope reproduce ju2025/optimizer_comparison
	$(BIN)/python benchmarks/gradients.py

bench-chains: .venv/test.stamp  ## random networks beside loops; writes docs/chains_benchmark.md, seven minutes
	$(BIN)/python benchmarks/chains.py

bench-busy: .venv/test.stamp  ## the same ratios beside a busy process; writes docs/busy_benchmark.md, two minutes
	$(PIP) --editable '.[peers]'
	$(BIN)/python benchmarks/busy.py

bench-residual: .venv/test.stamp  ## Jacobians of residual blocks beside dense ones; writes docs/residual_benchmark.md
	$(BIN)/python benchmarks/residual.py

WRITE_CALIBRATION := $(BIN)/python -m orthoscope_papers.calibration.write

calibrate: .venv/test.stamp  ## train 457 networks, fit the limits of the verdict, test them and the fixes; an hour and a half
	$(BIN)/orthoscope reproduce calibration/outcomes
	$(WRITE_CALIBRATION) outcomes results
	$(BIN)/orthoscope reproduce calibration/verdict
	$(WRITE_CALIBRATION) calibration results
	$(BIN)/orthoscope reproduce calibration/verdict  # by the new limits: other runs
	$(WRITE_CALIBRATION) calibration results
	$(BIN)/orthoscope reproduce calibration/trainability calibration/diagnoses
	$(WRITE_CALIBRATION) steps results
	$(BIN)/orthoscope reproduce calibration/cure
	$(WRITE_CALIBRATION) docs results

stock: .venv/test.stamp  ## diagnose every stock architecture of the list on real data; writes docs/stock_architectures.md
	$(BIN)/orthoscope data get cifar10
	$(BIN)/python -m orthoscope_papers.calibration.stock_list  # families that are not in the list yet
	-$(BIN)/orthoscope reproduce calibration/stock
	$(WRITE_CALIBRATION) stock results

bench-watch: .venv/test.stamp  ## what watching a training costs; writes docs/watch_benchmark.md, five minutes
	$(BIN)/python benchmarks/watch.py

bench-watch-warnings: .venv/test.stamp  ## whether a watch names a learning rate that is too high, ten minutes
	$(BIN)/python benchmarks/watch_warnings.py

reference-pages: .venv/demo.stamp  ## docs/glossary.md, metrics.md, theorems.md and errata.md from the source
	$(BIN)/python docs/reference_pages.py

page-outputs: .venv/test.stamp  ## what the code in README and docs prints, written below it
	$(BIN)/python docs/page_code.py

picture: .venv/demo.stamp browser  ## docs/images/report.png, the picture in README, from a real diagnosis
	$(BIN)/python docs/picture.py

docs: .venv/test.stamp  ## the documentation as a site in build/site, readable from files
	$(BIN)/mkdocs build --strict

results-page: .venv/test.stamp  ## docs/results.md from the tables in results/; `orthoscope reproduce` makes those
	$(BIN)/orthoscope reproduce --page docs/results.md

viewer: .venv/demo.stamp  ## schema, types and the page's script from report/document and viewer/; needs Node 20, commit what it writes
	$(BIN)/python viewer/generate.py
	cd viewer && npm ci --ignore-scripts --silent && npm run --silent check && npm run --silent build

# The page is tested in a real browser. Where there is none and packages may be installed, it is installed.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >/dev/null || \
	  { echo "tests of the page need chromium and chromedriver: install the packages chromium and chromium-driver" >&2; exit 1; }

# Compiled layers and steps are tested with the code that torch generates, which needs a compiler.
compiler:
	@command -v g++ >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends g++; } >/dev/null || \
	  { echo "tests of compiled layers need a C++ compiler: install the package g++" >&2; exit 1; }

clean:
	rm -rf .venv build dist

.venv/demo.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) --editable .
	@touch $@

# torchvision is here because timm imports it; the constraint keeps it from replacing torch.
.venv/test.stamp: .venv/demo.stamp
	$(PIP) torchvision
	$(PIP) --editable '.[dev,docs,zoo,lightning,serve]'
	@touch $@
