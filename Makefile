# `make` alone lists the targets. Everything here runs without asking anything.

.DEFAULT_GOAL := help
SHELL := /bin/bash

# The servers that `make test` installs where they are missing and then insists
# on: the words that scripts/install.sh and SLUICE_TEST_REQUIRE know.
SERVERS := redis postgres pgbouncer mysql chromium nginx prometheus php node tsc python3 java openssl jq gcc

# What shares memory between goroutines runs under the race detector, and nowhere else.
# engine's whole shops come first, with nothing beside them but the linter and the
# compiler: on a slow machine they would miss the product's own deadlines. What
# takes longest is at the beginning of each list, so that none of it runs alone at the end.
FIRST_PKGS := ./engine
RACE_PKGS := ./internal/... ./ledger/... ./client/... .

# One goroutine does all that these test: scripts of a ledger's model, rules on imports, figures; in worlds one
# goes on at a time.
ALONE_PKGS := ./internal/ledgertest ./internal/archtest ./internal/figures ./internal/config ./internal/world

# Stores wait for their databases. What their goroutines share, engine's shops watch on each
# of them, and `make nightly` has the suites of stores under the detector, too.
NIGHTLY_RACE_PKGS := ./store/...

# The packages that run without the detector are all that these lists leave.
PKGS := ./store/... ./...

# Two modules beside the product have lists of their own: test, whose packages run without
# the detector, and lab, whose shared code runs under it.
MODULES := . lab test
TEST_PKGS := ./e2e ./...
LAB_RACE_PKGS := ./internal/...

# SQLite is C that was translated to Go, and its memory lies outside Go's heap,
# where the race detector sees nothing: watching each of its accesses costs most
# of the time and finds nothing. Its driver, which our goroutines share, is
# watched like our own code.
UNWATCHED := modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory
RACE_FLAGS := -race $(foreach pkg,$(UNWATCHED),-gcflags=$(pkg)=-race=false)

# How long each long campaign of `make soak` lasts, and which of them `make nightly` leaves
# out: one that is known to fail now and then (docs/operating.md, what can be lost).
SOAK := 10m
SOAK_SKIP := ^$$

tool := go tool -modfile=tools/go.mod

# The shop that `make referee` judges: docs/referee.md.
ADAPTER := examples/referee/sluice.json

# The groups that `make bench-compare` measures.
ONLY := redis,http

# How many worlds `make worlds` runs.
N := 10000

# How long each target of `make fuzz` runs.
FUZZ := 10s

.PHONY: help build test test-go race lint fmt nightly bench bench-compare articles articles-faults demo referee soak worlds fuzz install release site picture vulnerabilities

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/sluice
	go build -trimpath -o bin/sluice ./cmd/sluice

test: ## everything: install what is missing, lint, all tests with real servers and -race
	@SERVERS="$(SERVERS)" RACE_FLAGS="$(RACE_FLAGS)" FIRST_PKGS="$(FIRST_PKGS)" RACE_PKGS="$(RACE_PKGS)" \
		ALONE_PKGS="$(ALONE_PKGS)" PKGS="$(PKGS)" TEST_PKGS="$(TEST_PKGS)" LAB_RACE_PKGS="$(LAB_RACE_PKGS)" \
		scripts/test.sh

nightly: ## all tests with what is long of them, stores with -race too, then each campaign for a minute
	@SLUICE_TEST_NIGHTLY=1 $(MAKE) test RACE_PKGS="$(RACE_PKGS) $(NIGHTLY_RACE_PKGS)"
	@$(MAKE) soak SOAK=1m SOAK_SKIP=BothSidesSell

test-go: ## go test in each module with what this machine has; suites without their server skip
	@failed=0; for module in $(MODULES); do go test -C $$module ./... || failed=1; done; exit $$failed

race: ## the packages that share memory, under the race detector
	CGO_ENABLED=1 go test $(RACE_FLAGS) -timeout 45m $(FIRST_PKGS) $(RACE_PKGS)
	CGO_ENABLED=1 go test -C lab $(RACE_FLAGS) -timeout 45m $(LAB_RACE_PKGS)

lint: ## gofumpt, go vet, staticcheck, rules on imports and documents
	@scripts/lint.sh

fmt: ## format all Go files with gofumpt
	$(tool) gofumpt -w .

bench: ## measure everything against its baselines in one run, an hour
	@scripts/install.sh redis postgres wrk
	go run -C lab ./bench

bench-compare: ## two commits in turns, and which figures differ: make bench-compare A=main~1 B=main ONLY=redis
	@scripts/install.sh redis postgres wrk
	go run -C lab ./compare --only "$(ONLY)" "$(A)" "$(B)"

articles: ## sell by the methods of five articles and by Sluice, side by side; writes docs/articles-results.*
	@scripts/install.sh redis postgres
	go run -C lab ./articles

articles-faults: ## break parts of each of these methods and of Sluice; a referee judges; writes docs/articles-faults.*
	@scripts/install.sh redis postgres
	go run -C lab ./articles --faults

demo: ## 100,000 buyers rush 1,000 units on an embedded server, then the audit
	go run ./cmd/sluice demo

referee: ## a crowd and faults against a shop that ADAPTER describes (default: Sluice)
	go run -C lab ./referee $(abspath $(ADAPTER))

soak: ## long random campaigns, each for SOAK (default 10m)
	@scripts/install.sh $(SERVERS)
	@failed=0; for module in $(MODULES); do \
		SLUICE_TEST_SOAK=$(SOAK) go test -C $$module -count=1 -timeout 0 -p 1 -run Soak -skip "$(SOAK_SKIP)" ./... || failed=1; \
	done; exit $$failed

worlds: ## N whole shops in simulated time, each from a seed (default 10,000); stops at the first that goes wrong
	go test ./internal/world -run Worlds -count=1 -timeout 0 -v -worlds $(N)

fuzz: ## every fuzz target for a while, each for FUZZ (default 10s)
	@FUZZ="$(FUZZ)" scripts/fuzz.sh

install: ## install the servers that the tests need and this machine lacks
	@scripts/install.sh $(SERVERS)

release: ## archives, packages, image, checksums of this commit in dist: docs/releases.md
	go run -C lab ./release .. ../dist

site: ## a static web site of all documents in site/index.html, in both languages
	go run -C lab ./site .. ../site

picture: build ## the pictures of the demo, of pages and of the console, in docs/images, from runs on this machine
	go run -C lab ./cast ../docs/images/demo.svg ../bin/sluice demo
	looks=$$(mktemp -d) && SLUICE_TEST_PICTURES=$$looks go test -C test -count=1 ./browser -run 'TestLooks|TestConsole$$' && \
		cp $$looks/console-rush.png docs/images/console.png && \
		cp $$looks/console-sale-zh.png docs/images/console.zh-CN.png && \
		cp $$looks/2-upcoming-phone-light-en.png docs/images/page-upcoming.png && \
		cp $$looks/5-yours-phone-light-en.png docs/images/page-yours-en.png && \
		cp $$looks/5-yours-phone-dark-zh.png docs/images/page-yours.png && rm -r $$looks

vulnerabilities: ## what is known of what the programs call; asks vuln.go.dev
	$(tool) govulncheck ./...
