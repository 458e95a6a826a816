# Two commands matter: `make demo` shows the product, `make test` proves it.
# Everything is installed into .venv; nothing has to be set up before.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
# Most tests wait for a cluster or a browser rather than for a processor.
PARALLEL ?= -n 6 --dist loadfile --no-loadscope-reorder
# CI counts the lines that run in pytest's own processes, for about a tenth of their time.
COVERAGE ?= $(if $(filter 1 true yes,$(CI)),--cov --cov-report=)
# What took the longest is shown where nobody watches.
SLOWEST ?= $(if $(filter 1 true yes,$(CI)),--durations=40 --durations-min=5)
BUNDLE := jupyter_hpc/labextension/package.json
NODE_MODULES := labextension/node_modules/.package-lock.json

FRONT_END := $(shell find labextension/src labextension/style labextension/schema -type f -not -name '*.test.*') \
             labextension/package.json labextension/tsconfig.json \
             labextension/redocly.yaml docs/developers/openapi.yaml
PACKAGE := pyproject.toml jupyter_hpc/__init__.py labextension/install.json \
           $(wildcard jupyter-config/*/*.json)

# A .venv that was moved, copied or lost its Python is made again; one that works is kept.
VENV_WORKS := $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
              && $(BIN)/pip --version | grep -qF '$(CURDIR)/$(VENV)/'
$(shell { $(VENV_WORKS); } >/dev/null 2>&1 || rm -rf $(STAMPS))

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(STAMPS)/demo ## Start the embedded cluster and open JupyterLab on its GPU node
	@JUPYTER_HPC_DEMO='$(CURDIR)/.demo' $(BIN)/jupyter-hpc demo $(ARGS)

.PHONY: test
test: ## Run every test and every gate (ARGS="tests/slurm -x" for some of them)
	@$(MAKE) --no-print-directory -j 4 install cluster-python torch
	@$(BIN)/python -m tests.cluster prepare
	@$(BIN)/python -m pytest $(PARALLEL) $(COVERAGE) $(SLOWEST) $(ARGS)

# Each takes a minute of one processor, beside the minutes of `install`.
.PHONY: packages cluster-python torch
torch: | $(STAMPS)/venv
	@$(BIN)/python -m tests.training.site

packages:
	@sh tests/install-packages.sh

cluster-python: packages | $(STAMPS)/venv
	@$(BIN)/python -m tests.cluster.environment

.PHONY: coverage
coverage: ## Run every test and write down how much of the package they run
	@COVERAGE='--cov --cov-report=' $(PYTHON) -m tests.ci
	@$(BIN)/python -m tests.covered '$(ARGS)'

.PHONY: matrix
matrix: install packages ## Run the tests of a cluster on four releases of Slurm (ARGS="26.05 -x")
	@$(BIN)/python -m tests.matrix $(ARGS)

.PHONY: faults
faults: install ## Run the long fault-injection tests
	@$(BIN)/python -m pytest -m faults $(ARGS)

.PHONY: rounds
rounds: install packages ## Every fault of the network twenty times, into docs/reliability.md (20 minutes)
	@$(BIN)/python -m pytest -m faults -s -n 0 tests/connect/real/test_fault_rounds_real.py $(ARGS)

.PHONY: sites
sites: install ## Run the usual workflow on a replica of every built-in site
	@$(BIN)/python -m pytest -m '' tests/sites $(ARGS)

.PHONY: bench
bench: install ## Measure, side by side with the alternatives
	@$(BIN)/python -m bench $(ARGS)

.PHONY: screenshots
screenshots: install ## Take the pictures of the documentation anew
	@JUPYTER_HPC_SCREENSHOTS=.cache/screenshots $(BIN)/python -m pytest tests/browser $(ARGS)
	@for name in $$(grep -oh 'images/[a-z-]*\.png' README.md docs/users/*.md | sort -u); do \
	  cp .cache/screenshots/$${name#images/} docs/users/images/; \
	done

.PHONY: lint
lint: install ## Run the gates alone
	@$(BIN)/python -m pytest tests/gates $(ARGS)

.PHONY: format
format: install ## Format Python and TypeScript
	@$(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format --quiet .
	@cd labextension && npm run --silent format

.PHONY: install
install: $(STAMPS)/dev ## Install the package with all that its development needs

.PHONY: clean
clean: ## Remove everything that make created
	rm -rf $(VENV) .cache .coverage .demo dist labextension/node_modules labextension/lib \
	  labextension/generated labextension/tsconfig.tsbuildinfo jupyter_hpc/labextension

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "jupyter-hpc needs Python 3.10 or newer; choose one with: make PYTHON=python3.12 …" >&2; exit 1; }
	@{ $(VENV_WORKS); } >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
	  echo "Python cannot create a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@# An older pip takes twice as long to find what it installs.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/demo: $(PACKAGE) $(BUNDLE) | $(STAMPS)/venv
	@echo "Installing jupyter-hpc and JupyterLab into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

# What the package needs is installed beside the build of its front end.
$(STAMPS)/requirements: pyproject.toml tests/requirements.py | $(STAMPS)/venv
	@echo "Installing what jupyter-hpc and its development need into $(VENV)"
	@$(BIN)/python -m tests.requirements dev >$@.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --requirement $@.txt
	@touch $@

$(STAMPS)/dev: $(PACKAGE) $(BUNDLE) $(STAMPS)/requirements
	@echo "Installing jupyter-hpc into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@ $(STAMPS)/demo

$(NODE_MODULES): labextension/package.json labextension/package-lock.json
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null && command -v npm >/dev/null || { \
	  echo "Building the JupyterLab extension needs node 20 or newer and npm: https://nodejs.org" >&2; exit 1; }
	@echo "Installing the build tools of the JupyterLab extension"
	@cd labextension && npm ci --loglevel=error --no-audit --no-fund
	@touch $@

$(BUNDLE): $(FRONT_END) $(NODE_MODULES)
	@echo "Building the JupyterLab extension"
	@cd labextension && npm run --silent build:prod >build.log 2>&1 || { cat build.log >&2; exit 1; }
	@rm -f labextension/build.log
