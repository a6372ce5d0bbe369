# Everything here works from a fresh clone with git, make and Go; what else a
# target needs, it installs (scripts/need). `make` alone lists the targets.

SHELL := bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# What the tests need beyond Go, as program=package or /file=package.
NEEDS := gcc=gcc /usr/include/stdio.h=libc6-dev

# What commands in the tests are made of.
COMMANDS := python3=python3 ps=procps git=git setsid=util-linux flock=util-linux bash=bash

# What agents and clients of others are fetched and run with; their tests are skipped,
# with a word, where it cannot be had.
CLIENTS := node=nodejs npm=npm

# The commands of TestEverydayWork.
EVERYDAY := patch=patch xz=xz-utils zip=zip unzip=unzip rsync=rsync inotifywait=inotify-tools ip=iproute2 jq=jq vim=vim openssl=openssl make=make cmake=cmake ninja=ninja-build \
	autoconf=autoconf ccache=ccache gdb=gdb strace=strace valgrind=valgrind clangd=clangd gopls=gopls pytest-3=python3-pytest /usr/lib/python3/dist-packages/setuptools=python3-setuptools \
	/usr/lib/python3/dist-packages/pip=python3-pip /usr/share/doc/python3-venv=python3-venv curl=curl sqlite3=sqlite3 redis-server=redis-server psql=postgresql dbus-run-session=dbus-daemon \
	dbus-send=dbus-bin chromium=chromium Xvfb=xvfb xdpyinfo=x11-utils fc-match=fontconfig convert=imagemagick tmux=tmux script=bsdutils gpg=gnupg ssh-agent=openssh-client perl=perl \
	prove=perl javac=default-jdk-headless /usr/bin/cargo=cargo ruby=ruby php=php-cli lua=lua5.4 shellcheck=shellcheck bwrap=bubblewrap

# The packages whose promises hold under concurrency; they are tested under
# the race detector too.
RACE := ./sandbox/... ./internal/state/... ./internal/audit ./internal/tool ./internal/toolset/shell ./internal/approval ./internal/taint \
	./internal/run ./internal/model ./internal/model/scripted ./internal/model/replay

# Of these packages it is only some tests, in which goroutines meet. A process
# under the race detector waits a second before it ends, and those of the jail are
# many: they wait beside the others.
RACE_PARTS := ./internal/jail ./internal/terminal ./internal/toolset/file
RACE_TESTS := ^(TestAttach.*|TestTransaction|TestTerminal|TestLeftSet|TestLateAnswers|TestJobs|TestSignals|TestStreams|TestParallelEdits|TestReadDoesNotWait|TestFIFOs|TestCancelled)$$

# What one goroutine does, or another process that is killed, the race detector
# need not see again: the tests of it that take longest.
NOT_RACE := ^(TestAttacks|TestOrdinaryUser|TestDifferential|TestKill.*|TestEveryByte.*|TestEveryCut|TestTwoProcesses|TestFullDiskAtEveryStep)$$
NOT_RACE := $(NOT_RACE)|^(TestAutomatonBounds|TestHugeRecords|TestManyShortRecords|TestSparseFiles|TestRecordsAreLines|TestDamagedDecisions|TestBounds|TestPatience|TestFlood)$$
NOT_RACE := $(NOT_RACE)|^TestKeepsThings$$/^(log|blobs|once|leases)$$/^(kills|processes)$$|^TestBackends$$///^a_folder_of_5,000

# How long each fuzz target runs: a time, or a count such as 100000x. Its seeds
# run in the unit tests.
FUZZTIME ?= 250ms

# What make soak does: times the rounds of tests that have them, and how long each
# fuzz target runs.
ROUNDS ?= 20
SOAKTIME ?= 2m

# Other systems, as GOOS/GOARCH: all packages, and those for the browser. To compile
# all of it for each of them takes minutes: in the tests the types of all packages are
# checked, their tests included. `make cross` builds all.
CROSS := darwin/arm64 windows/amd64
BROWSER := js/wasm
UNOPTIMISED := -gcflags='all=-N -l'
BROWSER_PACKAGES := ./sandbox/... ./internal/policy ./internal/tool ./internal/toolset/file

# No cgo, so that the binary is static; the race detector alone asks for it.
export CGO_ENABLED := 0

# Checks do not stamp what they build: git refuses a clone that another user
# owns, and that would fail the build. `make build` stamps.
STAMPED := $(GOFLAGS)
export GOFLAGS := $(GOFLAGS) -buildvcs=false

.PHONY: help build demo test soak everyday bench fuzz lint clean \
	format vet staticcheck tidy unit race systems cross need-race tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: export GOFLAGS := $(STAMPED)
build: ## build bin/golem, one static binary
	go build -trimpath -ldflags='-s -w' -o bin/golem ./cmd/golem

demo: build ## show the guarantees on a real folder; no key, no network
	@scripts/demo

test: ## everything: lint, tests, race detector, fuzzing, other systems
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	{ scripts/need $(COMMANDS) unshare=util-linux $(NEEDS) || true; scripts/need --within 120 $(CLIENTS) || true; } >"$$log" 2>&1 & \
	for step in lint unit race fuzz systems; do \
		echo "== $$step, after $$SECONDS s"; $(MAKE) $$step || exit; \
		wait; cat "$$log"; : >"$$log"; \
	done; \
	echo "== all passed in $$SECONDS s"

soak: export GOLEM_TEST_ROUNDS := $(ROUNDS)
soak: ## for hours: ROUNDS times the rounds, more under the race detector, SOAKTIME for each fuzz target
	$(MAKE) unit TESTFLAGS=-timeout=12h
	$(MAKE) race TESTFLAGS=-timeout=12h NOT_RACE='^(TestAttacks|TestOrdinaryUser)$$'
	@scripts/fuzz $(SOAKTIME) $$(go list -m -f '{{.Path}}' all)

everyday: export GOLEM_TEST_EVERYDAY := 1
everyday: ## run the commands of docs/jail.md, "Everyday work", in the jail; it installs them from Debian and npm
	@scripts/need $(COMMANDS) unshare=util-linux $(NEEDS) $(CLIENTS) $(EVERYDAY)
	go test -count=1 -vet=off -timeout 2h -parallel 2 -run '^TestEverydayWork$$' ./cmd/golem
	go test -count=1 -vet=off -run '^TestEverydayTable$$' ./cmd/golem -update

bench: build ## measure, each figure beside its peer and its target
	@scripts/bench

fuzz: ## every fuzz target for FUZZTIME each (make fuzz FUZZTIME=1m)
	@scripts/fuzz $(FUZZTIME)

lint: format vet staticcheck tidy ## gofmt, vet, staticcheck, go.mod

clean: ## remove what was built here
	rm -rf bin

# The steps of lint and test, in their order.

format:
	@"$$(go env GOROOT)/bin/gofmt" -s -l . | { ! grep . ; } || { echo "gofmt -s would change these files" >&2; exit 1; }

vet:
	@go vet ./...

staticcheck: tools
	@bin/staticcheck ./...

tidy:
	@go mod tidy -diff

# The tests are not vetted again: lint has done it, with more analysers. What the
# conformance suite of MCP says is shown whether they pass or not.
unit: export GOLEM_TEST_CONFORMANCE := $(CURDIR)/bin/conformance.txt
unit: tools
	@scripts/need $(COMMANDS) unshare=util-linux
	@rm -f $(GOLEM_TEST_CONFORMANCE)
	@scripts/roomy bin/gotestsum --format pkgname --format-icons text -- -count=1 -vet=off $(TESTFLAGS) ./...; code=$$?; \
	cat $(GOLEM_TEST_CONFORMANCE) 2>/dev/null || echo "without the conformance suite of MCP, which npm could not get"; exit $$code

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

# Only on Linux does the race detector need a C compiler.
need-race:
	@[ "$$(go env GOOS)" != linux ] || scripts/need $(NEEDS)

# The go command's cache makes this cheap; a new Go gets new tools.
tools:
	@mkdir -p bin && cd tools && go build -o ../bin/ tool ./crosscheck
