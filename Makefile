# hopbench: `make help` lists what can be made.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
OUT     ?= out
# Short enough that measuring and drawing take under a minute on two cores.
SIZES   ?= 64,1KiB,16KiB,256KiB,4MiB,64MiB,256MiB
EACH    ?= 200ms --round 30ms
PACKAGES ?= ./...

# go-nvml's header marks functions as deprecated, and its symbols are looked up when they are first called.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
LDFLAGS := -X hopbench/bench/internal/cli.release=$(VERSION)
ifneq ($(CGO_ENABLED),0)
LDFLAGS += -extldflags=-Wl,-z,lazy
endif

.DEFAULT_GOAL := help
.PHONY: help setup build planner run figures test race check fmt peers generate dist image clean

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1: \2/p' Makefile

setup: ## install what is missing of a compiler, iproute2 and RDMA headers, and say what
	@scripts/setup.sh

build: ## bin/hopbench, with the report's planner where `make planner` has built it (which then is built anew)
	@if [[ -e bench/report/built/planner.wasm.gz ]]; then $(MAKE) --no-print-directory planner; fi; \
	if [[ $${CGO_ENABLED:-1} != 0 ]] && ! command -v "$${CC:-gcc}" >/dev/null; then echo "make: no C compiler: building without cgo, which leaves memory copy and TCP"; export CGO_ENABLED=0; fi; \
	ldflags='$(LDFLAGS)'; [[ $${CGO_ENABLED:-1} != 0 ]] || ldflags=$${ldflags%% -extldflags*}; \
	mkdir -p bin && $(GO) build $$([[ -e bench/report/built/planner.wasm.gz ]] && echo -tags planner) -ldflags "$$ldflags" -o bin/hopbench ./bench && bin/hopbench --version

planner: ## the TTFT planner of a report's page, as WebAssembly; a build with the tag planner embeds it
	@mkdir -p bench/report/built; GOOS=js GOARCH=wasm CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -buildid=' -o bench/report/built/planner.wasm ./bench/report/planner; \
	gzip -9nf bench/report/built/planner.wasm; \
	cp "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" bench/report/built/wasm_exec.js

run: setup build ## measure every transport of this host; tables, figures and a result file under out/
	@mkdir -p $(OUT); file=$(OUT)/run.jsonl; \
	if [[ -e $$file ]]; then mv $$file $(OUT)/run-$$(date -u -r $$file +%Y%m%dT%H%M%SZ).jsonl; fi; \
	bin/hopbench run --transport all --op write,read,send --sizes $(SIZES) --duration $(EACH) --out $$file; \
	for metric in bandwidth latency; do for format in svg png; do \
		bin/hopbench plot --metric $$metric --out $(OUT)/$$metric.$$format --force $$file; \
	done; done; \
	echo; echo "result file  $$file"; \
	echo "figures      $(OUT)/bandwidth.svg $(OUT)/bandwidth.png $(OUT)/latency.svg $(OUT)/latency.png"; \
	echo; echo "next"; \
	echo "  bin/hopbench doctor                          what the transports lack that did not run, and what to do"; \
	printf '  %-44s %s\n' "bin/hopbench table $$file" "the tables again; --help for other views"; \
	echo "  bin/hopbench ttft --help                     what each of these links costs in time to first token"; \
	echo "  bin/hopbench serve --listen 0.0.0.0:18515    on another host; it prints a token: put it into a file here, then"; \
	echo "  bin/hopbench run --peer HOST:18515 --token-file FILE"

RUN ?= results/runs/vm-2cpu-2026-12-01/run.jsonl
figures: build ## plots/figures, drawn from the committed runs byte for byte
	@hopbench=bin/hopbench scripts/figures.sh $(RUN)

test: ## the tests; what was skipped, and why, at the end. GUEST=0 leaves out those on soft-RoCE in a virtual machine
	@HOPBENCH_SKIP=guest $(GO) run ./scripts/tests $(if $(RACE),-race) $(TESTFLAGS) $(PACKAGES)
	@$(if $(filter 0,$(GUEST))$(filter-out ./...,$(PACKAGES)),true,scripts/test-verbs.sh --where-possible)

race: ## the tests with the race detector
	@$(MAKE) --no-print-directory test RACE=1

check: ## gofmt, go vet and staticcheck (pinned in go.mod), with and without cgo
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' 2>/dev/null || find . -name '*.go')); [[ -z $$unformatted ]] || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	@$(GO) vet ./...
	@CGO_ENABLED=0 $(GO) vet ./...
	@$(GO) tool staticcheck ./...
	@echo "check: gofmt, vet and staticcheck are quiet"

fmt: ## gofmt -w
	@gofmt -w $$(git ls-files '*.go')

PEERS ?= tcp verbs
peers: build ## in turn with iperf3, sockperf and, on soft-RoCE, perftest: ratios with intervals (half an hour; root). PEERS=verbs: one of them
	@case " $(PEERS) " in *" tcp "*) $(GO) run ./scripts/peers -hopbench bin/hopbench $(PEERSFLAGS) ;; esac
	@case " $(PEERS) " in *" verbs "*) scripts/peers-verbs.sh $(ROUNDS) ;; esac

generate: ## the control channel's Go code from its .proto (needs protoc)
	@harness/control/controlpb/generate.sh

dist: ## release archives of linux/amd64 and linux/arm64 under dist/, with checksums
	@VERSION='$(VERSION)' scripts/dist.sh

image: ## a container image, where docker, podman or buildah is present; its file is checked in any case
	@VERSION='$(VERSION)' scripts/image.sh

clean: ## remove bin, dist and out
	rm -rf bin dist $(OUT)
