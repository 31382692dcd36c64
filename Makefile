# README's two commands are "make demo" and "make test"; what CI runs stands in .ci/run.
SHELL := /bin/bash
GO    ?= go
BIN   := bin/mediator

# Instrumented for the race detector, SQLite's translated C (whose data is outside of Go's memory) and the arithmetic of
# circl only cost time. -trimpath lets clones share the build cache.
RACE := -race -trimpath -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=github.com/cloudflare/circl/...=-race=false

# A few failed tests are run once more, and both results printed: CI's machine may be busy. A data race is not.
GOTEST := $(CURDIR)/bin/gotestsum --format=standard-quiet --packages=./... --rerun-fails=1 --rerun-fails-max-failures=10 \
	--rerun-fails-run-root-test --rerun-fails-abort-on-data-race --

# Without symbols for a debugger, a test links in two thirds of the time. "make vet" asks more than go test's own vet.
TESTFLAGS := -ldflags=-w -vet=off -shuffle=on -timeout=60m

# Modules besides the product's that "make test" runs too; those of test/deploy have targets of their own. Built as
# "make build" builds, they find what it has compiled.
MODULES := tools test/witness test/e2e/viewer
MODULE  := CGO_ENABLED=0 GOFLAGS="$$GOFLAGS -trimpath"

PACKAGES ?= evidence internal/strictjson gate policy policy/decide gate/challenge signer internal/wire custody internal/problem trigger
DURATION ?= 2m
SEED     ?= 1

.PHONY: help build build-pkcs11 demo test test-product test-modules check fmt vet lint sec vuln fuzz mutate plays test-agents test-deploy soak package test-package bench bench-compare bench-verifiers differential bench-go syscalls autonomy simulate release docs members clean setup

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

bin/gotestsum: tools/go.mod
	$(GO) build -C tools -o ../bin/gotestsum gotest.tools/gotestsum

test: setup build bin/gotestsum ## run all tests, with the race detector
	@$(MAKE) --no-print-directory -j2 test-modules test-product

test-product:
	$(GOTEST) $(RACE) $(TESTFLAGS) -parallel=4

test-modules:
	for m in $(MODULES); do (cd $$m && $(MODULE) $(GOTEST) $(TESTFLAGS)) || exit 1; done

check: fmt vet lint sec vuln test ## what to run before a change is sent

fmt: ## refuse files that gofmt would change
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }

vet: ## go vet, of what "make test" compiles anyway
	$(GO) vet $(RACE) ./...
	for m in $(MODULES); do (cd $$m && $(MODULE) $(GO) vet ./...) || exit 1; done

lint: ## staticcheck
	$(GO) build -C tools -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./... && cd tools && ../bin/staticcheck ./...

sec: ## gosec, but for what tools/gosec/excluded.json leaves out, with a reason each
	$(GO) run -C tools ./gosec $(CURDIR) $$($(GO) list -f '{{.Dir}}' ./...)

vuln: ## govulncheck, where its database can be reached
	@./test/scripts/vuln.sh

fuzz: ## each fuzz target for FUZZTIME (default 30s)
	@./test/scripts/fuzz.sh

mutate: ## change the code of PACKAGES in one place after the other; a test should fail each time
	$(GO) build -C tools -o ../bin/gremlins github.com/go-gremlins/gremlins/cmd/gremlins
	for p in $(PACKAGES); do nice -n 10 bin/gremlins unleash ./$$p || exit 1; done

plays: setup build ## play the long forms of the plays, before a release
	nice -n 5 $(GO) test $(RACE) -count=1 -v -timeout=24h ./test/e2e/... ./internal/archive -long

AGENTS ?= all
test-agents: setup build ## play published agents, of which none is configured for the mediator; AGENTS names some
	./test/scripts/agents.sh
	$(GO) test -count=1 -v -timeout=60m ./test/e2e/agents -agents $(AGENTS)

test-deploy: setup build bin/gotestsum ## run pods as processes under a real Kubernetes control plane, as root; minutes to build it once
	cd test/deploy && $(GO) vet ./... && $(GOTEST) -count=1 -timeout=60m

soak: ## the processes under load and faults for DURATION (default 2m), with the race detector
	nice -n 5 $(GO) test $(RACE) -count=1 -v -timeout=24h -run='^TestSoak$$' ./test/e2e/plays -long -soak.duration=$(DURATION) -soak.seed=$(SEED)

syscalls: setup build ## count the system calls of mediator dev at rest and for a post, by process
	$(GO) test -count=1 -v -timeout=20m -run='^TestSyscalls$$' ./test/e2e/operation $(FLAGS)

bench: build ## measure the mediator, layer by layer, beside its peers: tools/bench/RESULTS.md
	@./test/scripts/bench.sh $(FLAGS)

bench-compare: ## the benchmarks beside the hot paths against the last release tag, or REF
	@./test/scripts/bench-compare.sh $(REF)

bench-verifiers: setup ## chains a second that one core verifies in Go, TypeScript and Python
	$(GO) test -count=1 -v -timeout=60m -run='^TestSpeed$$' ./test/e2e/clients -chains=3000

differential: setup ## judge 100,000 changed chains in Go, TypeScript and Python, and find no difference
	nice -n 5 $(GO) test -count=1 -timeout=24h ./test/e2e/clients -run='^TestTypeScript$$' -judged=100000
	nice -n 5 $(GO) test -count=1 -timeout=24h ./test/e2e/clients/python -run='^TestDifferential$$' -requests=100000

bench-go: ## the benchmarks beside the hot paths
	$(GO) test -run='^$$' -bench=. -benchmem ./...

autonomy: ## judge the autonomy score by synthetic sessions: docs/autonomy.md
	$(GO) build -C tools -o ../bin/judge ./autonomy/judge
	bin/judge $(FLAGS)

simulate: ## play a month of a thousand agents by the rules of reputations and disputes: docs/reputation.md
	$(GO) build -C tools -o ../bin/simulate ./simulate
	bin/simulate $(FLAGS)

release: ## static binaries, their bills of materials, Debian packages and checksums: dist/
	@./test/scripts/release.sh

package: ## the Debian package for this machine: dist/mediator-linux-*.deb
	@./test/scripts/release.sh --package

test-package: bin/gotestsum ## install the package in a Debian that systemd boots, and post
	@./test/deploy/debian/setup.sh
	cd test/deploy/debian && CGO_ENABLED=0 $(GOTEST) -count=1 -timeout=20m

docs: ## write the pages that are made from the source
	$(GO) test ./internal/config ./policy ./internal/problem -run 'TestDocs' -update
	$(GO) test ./test/e2e/pages -run 'TestParity' -update
	cd test/deploy && $(GO) test ./chart -run TestSchema -update

members: ## read the official SDKs of model APIs again, and list the members that nobody has classified
	cd tools && $(GO) run ./members

clean: ## remove what was built
	rm -rf bin dist
