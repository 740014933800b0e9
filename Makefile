PYTHON ?= python3
VENV := .venv
VENV_V4 := .venv-v4
PIP_FLAGS := --quiet --disable-pip-version-check

.PHONY: install browser chromium test test-slow test-v4 lint format demo bench defaults docs clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install $(PIP_FLAGS) --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV_V4)/.installed: pyproject.toml constraints-v4.txt
	$(PYTHON) -m venv $(VENV_V4)
	$(VENV_V4)/bin/pip install $(PIP_FLAGS) --constraint constraints-v4.txt --editable '.[test]'
	touch $@

browser: install  ## Chromium, for the tests of the report and the explorer in a browser
	command -v chromium || command -v chromium-browser || command -v google-chrome || $(MAKE) chromium

chromium:
	if [ "$$(id -u)" = 0 ]; then apt-get update && apt-get install --yes chromium; else sudo apt-get update && sudo apt-get install --yes chromium; fi

test: install  ## the default tests, in a few minutes
	$(VENV)/bin/python -m pytest

test-slow: install  ## the tests that take longer
	$(VENV)/bin/python -m pytest -m slow

test-v4: $(VENV_V4)/.installed  ## the same tests under transformers 4.57
	$(VENV_V4)/bin/python -m pytest

lint: install
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: install
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

demo: install  ## the main job
	$(VENV)/bin/headwise demo

bench: install  ## every benchmark, quickly
	for name in shrink_speed language_masks tuning_speed engine flips coverage shapley study robustness scorers soft_masks l0_path mean_ablation repair roles tuning_grid scheduler best_masks label_free alternatives language_models; do $(VENV)/bin/python -m benchmarks.$$name --quick || exit 1; done

defaults: install  ## make the tuned adapters again: needs the data folder, takes about an hour
	$(VENV)/bin/python -m recipes.defaults

docs: install
	$(VENV)/bin/mkdocs build --strict

clean:
	rm -rf $(VENV) $(VENV_V4) site build .pytest_cache .mypy_cache .ruff_cache .hypothesis
