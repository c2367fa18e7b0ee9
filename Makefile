# The one front door. It hands everything on: to tools/setup.sh (packages), CMake and Ninja (building), CTest (tests).
# `make help` lists what there is; CMakePresets.json names the kinds of build and their folders.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build demo check test bench kernels fuzz docs install format sizes clean setup debug asan tsan clang arm

prefix ?= /usr/local
FUZZ_SECONDS ?= 60
NAME ?=

# $(call make-kind,PRESET,FOLDER,TARGET...): configures on the first run only; Ninja does so again when it must.
define make-kind
@for tool in cmake ninja pkg-config; do command -v $$tool >/dev/null && continue; \
  echo "$$tool is not installed; 'tools/setup.sh' installs what building needs"; exit 1; done
@[ -e $(2)/build.ninja ] || cmake --preset $(1) >$(2).log 2>&1 || { cat $(2).log; rm -f $(2).log; exit 1; }
@rm -f $(2).log
@cmake --build $(2) $(if $(3),--target $(3))
endef
# $(call test-kind,FOLDER,SELECTION)
test-kind = @tools/fixed_addresses.sh ctest --test-dir $(1) --output-on-failure -j $$(nproc) \
  $(if $(NAME),-R '$(NAME)',$(2))

help: ## this list
	@echo "quipu: a local engine for large language models. Begin with 'make demo'."
	@echo
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'
	@echo
	@echo "  make NAME=pages test     only the tests whose name has 'pages'"
	@echo "  make FUZZ_SECONDS=5 fuzz, make prefix=/usr DESTDIR=/tmp/stage install"

build: ## build/bin/quipu and the libraries; installs nothing
	$(call make-kind,release,build)

demo: ## installs what is missing, builds, and lets the demo model tell a story
	@tools/setup.sh demo page
	$(call make-kind,release,build,quipu)
	@echo
	@[ -t 1 ] || printf "Once upon a time" # on a terminal the program shows the prompt itself
	@build/bin/quipu generate -m models/demo -p "Once upon a time" -n 200 --temperature 0.7 --top-p 0.9 --seed 1

check: ## installs what is missing, builds with gcc and clang and runs every test (a dozen minutes)
	@tools/setup.sh demo tests page browser
	@tools/check.py

test: ## the tests of the release build; NAME=... picks some
	$(call make-kind,release,build)
	$(call test-kind,build)

bench: ## how fast this machine is and what share of it quipu uses; results in bench/results
	$(call make-kind,release,build,quipu)
	@bench/run.sh

kernels: ## compiles the GPU kernels for every architecture, installing nvcc if needed; no spills (7 minutes of two cores)
	@tools/kernels.sh

fuzz: ## the unit tests under ASan, UBSan and TSan, then each fuzz target for FUZZ_SECONDS (60)
	@tools/check.py fuzz tsan
	@tools/fuzz.sh $(FUZZ_SECONDS)

docs: ## writes docs/api.md from the header, runs every command that the documentation shows
	@tools/make_api.py
	$(call make-kind,release,build)
	@tools/run_docs.py build

install: ## program, libraries, header, man page, completions and demo model to prefix (/usr/local)
	$(call make-kind,release,build)
	@cmake --install build --prefix $(prefix)

format: ## brings the code into the shape of .clang-format
	@tools/format.sh

sizes: ## the largest files and functions, to look at again
	@tools/sizes.py

setup: ## only installs the packages that are missing for demo and check
	@tools/setup.sh demo tests page browser

debug: ## unit tests of a debug build
	$(call make-kind,debug,build-debug)
	$(call test-kind,build-debug,-L unit)

asan: ## unit tests under the address and undefined-behaviour sanitizers
	$(call make-kind,asan,build-asan)
	$(call test-kind,build-asan,-L unit)

tsan: ## the tests that use threads, under the thread sanitizer
	$(call make-kind,tsan,build-tsan,thread_tests)
	$(call test-kind,build-tsan,-L threads)

clang: ## unit tests of a build by clang
	$(call make-kind,clang,build-clang)
	$(call test-kind,build-clang,-L unit)

arm: ## the kernels for 64-bit ARM: built by a cross compiler, tested under QEMU; NAME=... picks some
	@tools/arm.sh $(NAME)

clean: ## removes all build folders
	@rm -rf build build-debug build-asan build-tsan build-clang build-fuzz build-kernels build-arm
