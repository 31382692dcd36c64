# README's two commands are "make demo" and "make test"; what CI runs stands in .ci/run.
SHELL := /bin/bash
GO    ?= go
BIN   := bin/mediator

PACKAGES ?= evidence internal/strictjson gate policy policy/decide gate/challenge signer internal/wire custody internal/problem trigger
DURATION ?= 2m
SEED     ?= 1

.PHONY: help build build-pkcs11 demo test check fmt vet lint sec vuln fuzz mutate soak bench bench-growth bench-postgres bench-reputation bench-compare bench-go autonomy simulate release docs clean setup

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/mediator, statically linked
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags='-s -w' -o $(BIN) ./cmd/mediator

build-pkcs11: ## build bin/mediator with PKCS #11 custody, which needs cgo
	CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -ldflags='-s -w' -o $(BIN) ./cmd/mediator

demo: build ## play every scenario with real processes
	$(BIN) demo

setup: ## install what the tests need besides Go: clients to try the proxy with
	@./test/scripts/setup.sh

test: setup build ## run all tests, with the race detector
	$(GO) test -race -shuffle=on -timeout=60m ./...

check: fmt vet lint sec vuln test ## what to run before a change is sent

fmt: ## refuse files that gofmt would change
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }

vet: ## go vet
	$(GO) vet ./...

lint: ## staticcheck
	$(GO) tool staticcheck ./...

sec: ## gosec; what it leaves out, and why, stands in test/gosec/excluded.json
	$(GO) run -C test/gosec . $(CURDIR) $$($(GO) list -f '{{.Dir}}' ./...)

vuln: ## govulncheck, where its database can be reached
	@./test/scripts/vuln.sh

fuzz: ## each fuzz target for FUZZTIME (default 30s)
	@./test/scripts/fuzz.sh

mutate: ## disable each check of PACKAGES in turn; a test must fail
	nice -n 10 $(GO) run ./test/mutate $(PACKAGES)

soak: ## the processes under load and faults for DURATION (default 2m), with the race detector
	nice -n 5 $(GO) test -race -count=1 -v -timeout=24h -run='^TestSoak$$' ./cmd/mediator -soak.duration=$(DURATION) -soak.seed=$(SEED)

bench: build ## measure the mediator beside its peers: test/bench/RESULTS.md
	@./test/scripts/bench.sh

bench-growth: build ## what a post costs among many records, rules and sessions: test/bench/GROWTH.md
	$(GO) run ./test/bench growth $(FLAGS)

bench-postgres: build ## sidecars that share a PostgreSQL database: test/bench/POSTGRES.md
	$(GO) run ./test/bench postgres $(FLAGS)

bench-reputation: build ## posts whose policy asks for the agent's reputation: test/bench/REPUTATION.md
	$(GO) run ./test/bench reputation $(FLAGS)

bench-compare: ## the benchmarks beside the hot paths against the last release tag, or REF
	$(GO) run ./test/bench compare -ref '$(REF)' $(FLAGS)

bench-go: ## the benchmarks beside the hot paths
	$(GO) test -run='^$$' -bench=. -benchmem ./...

autonomy: ## judge the autonomy score by synthetic sessions: docs/autonomy.md, test/autonomy/RESULTS.md
	$(GO) run ./test/autonomy/judge $(FLAGS)

simulate: ## let a thousand agents live by the rules of reputations and disputes: docs/reputation.md, docs/reputation.svg
	$(GO) run ./test/simulate $(FLAGS)

release: ## static binaries, their bills of materials and checksums: dist/
	@./test/scripts/release.sh

docs: ## write the pages that are made from the source
	$(GO) test ./internal/config ./policy ./internal/problem -run 'TestDocs' -update

clean: ## remove what was built
	rm -rf bin dist
