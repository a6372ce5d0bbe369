# Everything here works from a fresh clone with git, make and Go. Targets install the
# other programs they need (scripts/need). `make` without a target lists the targets.

SHELL := bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# Programs and files that the tests need besides Go, as program=package or /file=package.
NEEDS := gcc=gcc /usr/include/stdio.h=libc6-dev

# Programs that commands in the tests use.
COMMANDS := python3=python3 curl=curl wget=wget ssh=openssh-client ps=procps git=git setsid=util-linux flock=util-linux bash=bash ip=iproute2 minisign=minisign

# Programs that install and run foreign agents and MCP clients, shells that complete
# commands, and a reader of manual pages. Without them their tests are skipped, with the
# reason.
CLIENTS := node=nodejs npm=npm zsh=zsh fish=fish mandoc=mandoc

# The browser for the tests of golem desk and of the npm package, whose size is measured with
# brotli. The browser is large. Without it these tests are skipped.
CHROMIUM := chromium=chromium brotli=brotli
FIREFOX := firefox-esr=firefox-esr

# The commands of TestEverydayWork.
EVERYDAY := patch=patch xz=xz-utils zip=zip unzip=unzip rsync=rsync inotifywait=inotify-tools jq=jq vim=vim openssl=openssl make=make cmake=cmake ninja=ninja-build \
	autoconf=autoconf ccache=ccache gdb=gdb strace=strace valgrind=valgrind clangd=clangd gopls=gopls pytest-3=python3-pytest /usr/lib/python3/dist-packages/setuptools=python3-setuptools \
	/usr/lib/python3/dist-packages/pip=python3-pip /usr/share/doc/python3-venv=python3-venv curl=curl sqlite3=sqlite3 redis-server=redis-server psql=postgresql dbus-run-session=dbus-daemon \
	dbus-send=dbus-bin chromium=chromium Xvfb=xvfb xdpyinfo=x11-utils fc-match=fontconfig convert=imagemagick tmux=tmux script=bsdutils gpg=gnupg ssh-agent=openssh-client perl=perl \
	prove=perl javac=default-jdk-headless /usr/bin/cargo=cargo ruby=ruby php=php-cli lua=lua5.4 shellcheck=shellcheck bwrap=bubblewrap

# The packages with guarantees under concurrency. They are also tested with the race
# detector.
RACE := ./gate ./sandbox/... ./internal/records/state/... ./internal/records/audit ./internal/decide/tool ./internal/work/toolset/shell ./internal/decide/approval ./internal/decide/taint \
	./internal/work/run ./internal/work/model ./internal/work/model/scripted ./internal/work/model/replay

# In these packages only some tests run with the race detector, those in which goroutines
# meet. Each process waits a second before it ends there, and the jail starts many. So
# these tests run at the same time as the others.
RACE_PARTS := ./internal/jail ./internal/people/terminal ./internal/work/toolset/file ./internal/jail/egress
RACE_TESTS := ^(TestAttach.*|TestTransaction|TestTerminal|TestSettingsAreReset|TestLateAnswers|TestJobs|TestSignals|TestStreams|TestParallelEdits|TestReadDoesNotWait|TestFIFOs|TestCancelled)$$
RACE_TESTS := $(RACE_TESTS)|^(TestAskOnce|TestLateAnswer|TestHalfClose|TestStreaming|TestWebsocket|TestServerDisconnects|TestEchoedSecret|TestClose)$$

# The slowest tests with only one goroutine, or with processes that are killed. The race
# detector would find nothing in them.
NOT_RACE := ^(TestAttacks|TestOrdinaryUser|TestDifferential|TestKill.*|TestEveryByte.*|TestEveryCut|TestTwoProcesses|TestFullDiskAtEveryStep)$$
NOT_RACE := $(NOT_RACE)|^(TestAutomatonBounds|TestHugeRecords|TestManyShortRecords|TestSparseFiles|TestRecordsAreLines|TestDamagedDecisions|TestRecordSizeLimit|TestPatience|TestLongArguments)$$
NOT_RACE := $(NOT_RACE)|^TestStoreSuite$$/^(log|blobs|once|leases)$$/^(kills|processes)$$|^TestBackends$$///^a_folder_of_5,000

# How long each fuzz target runs: a time, or a count such as 100000x. The unit tests run
# its seeds.
FUZZTIME ?= 250ms

# For make soak: the factor for tests with rounds, and the time for each fuzz target.
ROUNDS ?= 20
SOAKTIME ?= 2m

# Other systems, as GOOS/GOARCH, for all packages and for those of the browser. Compiling
# everything for each of them takes minutes, so `make test` only checks the types of all
# packages and their tests. `make cross` builds everything.
CROSS := darwin/arm64 windows/amd64
BROWSER := js/wasm
UNOPTIMISED := -gcflags='all=-N -l'
BROWSER_PACKAGES := ./sandbox/... ./cmd/golem-wasm ./internal/decide/policy ./internal/decide/tool ./internal/work/toolset/file

# No cgo, so that the binary is static. Only the race detector needs it.
export CGO_ENABLED := 0

# Checks build without version stamps: git refuses a clone that another user owns, and
# the build would fail. `make build` stamps. All builds leave out paths, as releases do, so
# that the cache of one serves the others.
STAMPED := $(GOFLAGS)
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath

.PHONY: help build build-hub build-demo demo demo-hub soak-hub test soak everyday adapters screenshots dist npm bench fuzz lint clean \
	format vet staticcheck tidy unit race systems cross need-race tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: export GOFLAGS := $(STAMPED)
build: ## build bin/golem, one static binary
	go build -trimpath -ldflags='-s -w' -o bin/golem ./cmd/golem

build-hub: export GOFLAGS := $(STAMPED)
build-hub: build ## build bin/golem-hub too, the server for a team
	go build -trimpath -ldflags='-s -w' -o bin/golem-hub ./cmd/golem-hub

build-demo: export GOFLAGS := $(STAMPED)
build-demo: ## build bin/golem with the page of golem desk --demo, which takes longer
	@scripts/need npm=npm
	@scripts/npm --files web/package
	go build -tags demo -trimpath -ldflags='-s -w' -o bin/golem ./cmd/golem

demo: build ## show the guarantees on a real directory; no key, no network
	@scripts/demo

demo-hub: build-hub ## show a hub with two nodes: 20 jobs, a node dies, somebody approves; no key, no network
	@scripts/need python3=python3 setsid=util-linux
	@scripts/demo-hub

test: ## run everything: lint, tests, race detector, fuzzing, other systems
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	scripts/runsc --within 480 >>"$$log" 2>&1 & \
	{ scripts/need $(COMMANDS) unshare=util-linux $(NEEDS) || true; scripts/need --within 120 $(CLIENTS) || true; scripts/need --within 120 $(CHROMIUM) || true; scripts/need --within 120 $(FIREFOX) || true; } >>"$$log" 2>&1 & \
	for step in lint unit race fuzz systems; do \
		echo "== $$step, after $$SECONDS s"; $(MAKE) $$step || exit; \
		wait; cat "$$log"; : >"$$log"; \
	done; \
	echo "== all passed in $$SECONDS s"

soak: export GOLEM_TEST_ROUNDS := $(ROUNDS)
soak: ## test for hours: ROUNDS times the rounds, more with the race detector, SOAKTIME for each fuzz target
	$(MAKE) unit TESTFLAGS=-timeout=12h
	$(MAKE) race TESTFLAGS=-timeout=12h NOT_RACE='^(TestAttacks|TestOrdinaryUser)$$'
	@scripts/roomy scripts/fuzz $(SOAKTIME) $$(go list -m -f '{{.Path}}' all)

soak-hub: export GOLEM_SOAK_JOBS := $(or $(JOBS),10000)
soak-hub: export GOLEM_SOAK_MINUTES := $(or $(MINUTES),30)
soak-hub: ## do 10,000 jobs on a hub while nodes and the hub are killed at random times (JOBS, MINUTES)
	@scripts/need $(COMMANDS)
	go test -count=1 -vet=off -v -timeout 3h -run '^TestKills$$' ./cmd/golem-hub

everyday: export GOLEM_TEST_EVERYDAY := 1
everyday: ## run the commands of docs/jail.md, "Everyday work", in the jail; installs them from Debian and npm
	@scripts/need $(COMMANDS) unshare=util-linux $(NEEDS) $(CLIENTS) $(EVERYDAY)
	go test -count=1 -vet=off -timeout 2h -parallel 2 -run '^TestEverydayWork$$' ./cmd/golem
	go test -count=1 -vet=off -run '^TestEverydayTable$$' ./cmd/golem -update

adapters: ## test the adapters for agent frameworks
	@for name in langchaingo eino genkit; do (cd examples/embed/$$name && go test ./...) || exit; done

screenshots: ## draw the pictures of golem desk in docs/, from the program of make demo; needs chromium
	@scripts/need $(CHROMIUM)
	GOLEM_TEST_PICTURES=docs scripts/roomy go test -count=1 -vet=off -run '^TestDesk$$/^Pictures' ./cmd/golem

dist: ## make the files of a release in dist/: binaries, packages, images, SBOMs, hashes; the same commit gives the same bytes
	@scripts/dist

npm: ## make the npm package @golem-forge/browser in dist/
	@scripts/need npm=npm
	@mkdir -p dist
	@scripts/npm dist

bench: build ## measure golem and its peers, and write docs/benchmarks.md
	@scripts/bench

fuzz: ## run every fuzz target for FUZZTIME (make fuzz FUZZTIME=1m)
	@scripts/roomy scripts/fuzz $(FUZZTIME)

lint: format vet staticcheck tidy ## run gofmt, vet, staticcheck, and check go.mod

clean: ## remove the built files
	rm -rf bin dist

# The steps of lint and test, in their order.

format:
	@"$$(go env GOROOT)/bin/gofmt" -s -l . | { ! grep . ; } || { echo "gofmt -s would change these files" >&2; exit 1; }

vet:
	@go vet ./...

staticcheck: tools
	@bin/staticcheck ./...

tidy:
	@go mod tidy -diff

# Lint has already vetted the tests, with more analysers. Most tests wait for processes,
# so more of them run at once than the machine has cores. A test that fails is run once
# more, which tells whether it always fails. The run fails all the same, unless
# scripts/unsteady.txt lists the test. The result of the MCP conformance suite is printed whether they pass or not.
unit: export GOLEM_TEST_CONFORMANCE := $(CURDIR)/bin/conformance.txt
unit: tools
	@scripts/need $(COMMANDS) unshare=util-linux
	@rm -f $(GOLEM_TEST_CONFORMANCE) bin/again.txt
	@scripts/roomy bin/gotestsum --format pkgname --format-icons text \
		--rerun-fails=1 --rerun-fails-max-failures=10 --rerun-fails-report=bin/again.txt --packages=./... \
		-- -count=1 -vet=off -p 3 -parallel 4 -timeout 20m $(TESTFLAGS); code=$$?; \
	scripts/unsteady bin/again.txt || code=1; \
	cat $(GOLEM_TEST_CONFORMANCE) 2>/dev/null || echo "without the MCP conformance suite, which npm could not install"; exit $$code

race: tools need-race
	@export CGO_ENABLED=1; go build -race $(RACE) $(RACE_PARTS) || exit; \
	scripts/roomy go test -count=1 -vet=off -race -parallel=8 -run '$(RACE_TESTS)' $(TESTFLAGS) $(RACE_PARTS) & parts=$$!; \
	bin/gotestsum --format pkgname --format-icons text -- -count=1 -vet=off -race -short -skip '$(NOT_RACE)' $(TESTFLAGS) $(RACE); \
	code=$$?; wait $$parts && exit $$code

systems: tools
	@for system in $(CROSS) $(BROWSER); do \
		packages=./...; [ $$system != $(BROWSER) ] || packages='$(BROWSER_PACKAGES)'; \
		echo "$$system $$packages"; bin/crosscheck $$system $$packages || exit; \
	done

cross: ## build all packages for other systems
	@for system in $(CROSS) $(BROWSER); do \
		packages=./...; [ $$system != $(BROWSER) ] || packages='$(BROWSER_PACKAGES)'; \
		echo "$$system $$packages"; \
		export GOOS=$${system%/*} GOARCH=$${system#*/}; \
		go build $(UNOPTIMISED) $$packages && go vet $(UNOPTIMISED) $$packages || exit; \
	done

# The race detector needs a C compiler only on Linux.
need-race:
	@[ "$$(go env GOOS)" != linux ] || scripts/need $(NEEDS)

# The build cache makes this cheap. A new Go version rebuilds the tools.
tools:
	@mkdir -p bin && cd tools && go build -o ../bin/ tool ./crosscheck
