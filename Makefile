# One line each; `make demo` shows the main job, `make test` and `make rigs` prove everything.
SHELL := /bin/bash
GO ?= go
STAMP := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
# Without paths in what is compiled, every clone on a machine shares one build cache. The
# Temporal server is compiled without this flag, since it is in the module cache, at the
# same path for each clone. A machine that builds one clone from an empty cache sets
# TRIMPATH to nothing: then what the server and the rest share is compiled once, which is
# why both go.mod files name the same versions of what both use.
TRIMPATH ?= -trimpath
export GOFLAGS += $(TRIMPATH)
LDFLAGS := -s -w -X fairlead.dev/fairlead/internal/version.Build=$(STAMP)

.PHONY: all build tools versions platforms release image chart demo check race c-compiler test rest rigs lint conformance schema faults fuzz fleet upgrade soak cluster bench record golden freeze clean

all: build

build: bin/devserver ## bin/ctl, bin/worker, bin/scriptedmodel, bin/devserver
	$(GO) build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/ctl ./cmd/worker ./internal/lab/scriptedmodel/cmd/scriptedmodel

bin/devserver: $(shell find deploy/devserver -name '*.go' -not -name '*_test.go') deploy/devserver/go.mod
	GO="$(GO)" GOFLAGS="$(filter-out -trimpath,$(GOFLAGS))" bash deploy/devserver/build.sh "$(CURDIR)/bin/devserver"

tools: ## the pinned real codex into .tools/, the generators of API clients, sshd and what tests need from Debian
	GO="$(GO)" bash deploy/tools.sh

versions: tools ## older versions of codex, for the tests of what protects a credential and codex for another processor (490 MB to fetch, once)
	sh deploy/versions.sh
	@case $$(uname -m) in aarch64 | arm64) sh deploy/platforms.sh linux-x64 ;; *) sh deploy/platforms.sh linux-arm64 ;; esac

PLATFORMS ?= linux-x64 linux-arm64 darwin-x64 darwin-arm64
platforms: tools ## the pinned codex for hosts of other platforms, or only for PLATFORMS="linux-arm64 darwin-arm64"
	sh deploy/platforms.sh $(PLATFORMS)

# One machine makes the same bytes as another. TARGETS="linux/amd64" makes only some.
TARGETS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
VERSION ?=
CODEX ?= linux-x64 linux-arm64
OWN_CODEX := $(if $(filter aarch64 arm64,$(shell uname -m)),linux-arm64,linux-x64)
release: ## dist/: fairlead and fairlead-worker for Linux and macOS, with manual pages, completions, SHA256SUMS; VERSION=v0.2 names it
	$(GO) run ./deploy/release -out dist -version "$(VERSION)" -platforms "$(TARGETS)"

image: tools ## dist/: a container image for Linux, made without Docker; codex for the hosts of CODEX="linux-x64 linux-arm64" is in it
	$(if $(filter-out $(OWN_CODEX),$(CODEX)),sh deploy/platforms.sh $(filter-out $(OWN_CODEX),$(CODEX)))
	$(GO) run ./deploy/image -out dist -version "$(VERSION)" -platforms "$(filter linux/%,$(TARGETS))" -codex "$(CODEX)"

chart: ## the Helm chart: lint, rendered with four sets of values, kubeconform; run it when the chart changes (Helm takes minutes to compile the first time)
	$(GO) -C deploy/helm/check build -o "$(CURDIR)/bin/chartcheck" .
	cd deploy/helm && "$(CURDIR)/bin/chartcheck"

demo: tools build ## the main job on real parts; exits 0 only if all it shows happened
	$(GO) run ./internal/lab/demo

# deploy/devserver is not vetted: vet would read all packages of the Temporal server.
lint: ## vet, gofmt, staticcheck, workflowcheck
	@bad="$$(gofmt -l *.go activities cmd conversation deploy hostexec internal seeds snapshots workflows)"; test -z "$$bad" || { echo "not formatted: $$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) tool workflowcheck ./workflows/...

# gotestsum prints what a test said when it failed, and names the failed and the
# skipped tests again at the end.
#
# Tests have a home of their own: codex and sshd start login shells, and what
# somebody's rc files do (print, wait for a lock) must not decide what a test sees.
HOME_OF_TESTS = set -e; home=$$(mktemp -d /var/tmp/fairlead-home-XXXXXX); trap 'rm -rf "$$home"' EXIT; $(IN_HOME)
IN_HOME = \
	export GOENV="$$($(GO) env GOENV)" GOCACHE="$$($(GO) env GOCACHE)" GOMODCACHE="$$($(GO) env GOMODCACHE)" GOPATH="$$($(GO) env GOPATH)"; \
	export HOME="$$home" XDG_CONFIG_HOME= XDG_STATE_HOME= XDG_RUNTIME_DIR=; set -x

# The end-to-end packages have no test that does without real parts. They are
# left out, since linking them takes longer than most packages' tests. A package that
# passed and has not changed since is not run again, as go test does; make test runs all.
# For that their home has the same name each time: the result of a test that reads HOME is
# kept for that value. lint has run vet, so go test does not.
#
# The packages of PLAIN run without the race detector. Temporal's test environment runs one
# coroutine at a time, conversation is a state machine, and the tests of ctl start ctl some
# hundred times: they take five to ten times as long with it. make race has it for them, too.
PLAIN := conversation workflows cmd/ctl
SAME_HOME = set -e; home="$$($(GO) env GOCACHE)/fairlead-home-$$(pwd | cksum | cut -d' ' -f1)"; rm -rf "$$home"; mkdir -p "$$home"; $(IN_HOME)
SHORT := $(GO) tool gotestsum --format pkgname-and-test-fails --hide-summary skipped,output -- -short -vet=off -timeout 20m
check: c-compiler lint ## lint, unit tests and replay with the race detector, to run while you work: no real parts, no network; needs cgo and a C compiler
	@$(SAME_HOME); packages=$$($(GO) list ./... | grep -v -e /internal/lab/e2e $(PLAIN:%=-e 'fairlead/%$$') -e 'fairlead$$'); \
	failed=0; $(SHORT) -race $$packages || failed=1; $(SHORT) . $(PLAIN:%=./%) || failed=1; exit $$failed

# make race tests with the race detector what make check leaves out for its time.
race: tools versions build c-compiler ## every package but the end-to-end tests, with the race detector and real parts, before a release; 20 minutes and more
	@$(HOME_OF_TESTS); packages=$$($(GO) list ./... | grep -v /internal/lab/e2e); rigs="$(LISTED) pattern rigs)"; \
	$(TESTED) -race -skip "$(RIGS)|$$rigs" $$packages

c-compiler:
	@test "$$($(GO) env CGO_ENABLED)" = 1 && command -v "$$($(GO) env CC | cut -d' ' -f1)" >/dev/null || \
	{ echo "make check: the race detector needs cgo and a C compiler: install gcc (Debian: apt-get install gcc libc6-dev), or set CC, and unset CGO_ENABLED" >&2; exit 1; }

# Three packages run at a time. With four, two cores are never idle, tests take longer, and whoever
# polls uses more of the processor.
# Packages are run in the order that they are named in: those that take longest go first, so
# that none of them is left over for the end.
E2E := ./internal/lab/e2e
LONG := ./activities $(E2E)/docs $(E2E)/credentials ./hostexec $(E2E)/sessions $(E2E)/authority $(E2E)/console $(E2E)/fleet ./snapshots ./seeds $(E2E)/outages $(E2E)/approvals ./workflows ./conversation ./internal/lab/leak ./cmd/ctl $(E2E)/notify $(E2E)/slack $(E2E)/clients ./internal/lab/faults ./internal/lab/scriptedmodel ./internal/lab/fleet

# GOGC is for the compiler and the linker: tests, and what they start, run as they would elsewhere.
PLAINLY := -exec "env -u GOGC"

# The rigs of faults that strike one session at a time. make test strikes in a storm only.
RIGS := ^(TestFaultsAreSurvived|TestSeedsSurviveFaults|TestSnapshotsSurviveFaults)$$

# internal/lab/longtests has the lists of what make test leaves to make rest and to make rigs.
LISTED = $$($(GO) run ./internal/lab/longtests
TESTED := $(GO) tool gotestsum --format pkgname-and-test-fails --hide-summary output -- -count=1 -vet=off $(PLAINLY) -p 3 -timeout 80m
test: tools versions build lint ## every promise on real parts, with a storm of faults; make rest has further tests of them, make rigs further hosts, versions and faults
	@$(HOME_OF_TESTS); set +x; packages="$(LISTED) left $(LONG))"; rest="$(LISTED) pattern rest)"; rigs="$(LISTED) pattern rigs)"; \
	$(TESTED) -skip "$(RIGS)|$$rest|$$rigs" $$packages

rest: tools versions build ## further tests of promises, and those of bin/devserver; CI runs them after make test
	@$(HOME_OF_TESTS); set +x; packages="$(LISTED) packages rest)"; rest="$(LISTED) pattern rest)"; rigs="$(LISTED) pattern rigs)"; \
	$(TESTED) -run "$$rest" -skip "$$rigs" $$packages; \
	(cd deploy/devserver && GOFLAGS="$(filter-out -trimpath,$(GOFLAGS))" $(GO) test -count=1 -vet=off $(PLAINLY) -timeout 10m ./...)

rigs: tools versions build ## what make test and make rest leave out: the short form of faults, on sessions, seeds, snapshots and in a storm, with a fixed seed; further hosts, versions and storms; and hostexec on every shell, with crowds of 200 sessions
	sh deploy/platforms.sh darwin-arm64
	@$(HOME_OF_TESTS); $(GO) run ./internal/lab/longtests run rigs; \
	$(GO) tool gotestsum --format pkgname-and-test-fails --hide-summary output -- -count=1 -timeout 45m ./internal/lab/faults; \
	$(GO) tool gotestsum --format pkgname-and-test-fails --hide-summary output -- -count=1 -timeout 60m ./hostexec -every-shell

conformance: tools versions ## every behaviour that sessions rely on, and the protection of credentials, tried on every version of codex; the table is kept in docs/reference/conformance.md
	$(GO) test -count=1 -timeout 20m -run 'TestConformance$$' ./conversation -conformance
	$(GO) test -count=1 -timeout 20m -run 'TestTheProofTellsTheTruthOnEveryVersion$$' ./seeds -every-version
	@cat docs/reference/conformance.md

schema: tools ## what the pinned codex's schema says of what we use, renewed, and what has changed in it
	$(GO) test -count=1 -run TestSchemaIsTheOneWeKnow ./conversation -update
	@git --no-pager diff --stat -- conversation/testdata/schema.txt
	@git --no-pager diff -U0 -- conversation/testdata/schema.txt | grep '^[-+][^-+]' || echo "schema: as it was"

faults: tools build ## what survives: 200 seeded runs, each row of seeds and of snapshots once, and 50 runs of sessions with the model gateway; the seed, and the matrix of what was lost (nothing)
	$(GO) run ./internal/lab/faults $(FAULTS)
	$(if $(FAULTS),,$(GO) run ./internal/lab/faults -moment gateway -runs 50)

# Each parser is fuzzed alone: go test fuzzes one function of one package at a time.
FUZZ ?= 10m
STRANGERS := internal/command:FuzzCheck internal/command:FuzzParseProof internal/access:FuzzParse internal/access:FuzzCertificateGroups \
	internal/login:FuzzProven internal/login:FuzzCertificate internal/login:FuzzClaims internal/sshsig:FuzzVerify internal/payload:FuzzDecode \
	internal/passkey:FuzzAssertion internal/passkey:FuzzCreated \
	internal/audit:FuzzAReaderOfRecordsTakesOnlyWhatAWriterWrote internal/gateway:FuzzAStream internal/tunnel:FuzzFrames

fuzz: ## the parsers of what strangers send, FUZZ=10m each; what breaks one is kept in its testdata/fuzz
	@set -e; for at in $(STRANGERS); do \
		echo "fuzz $$at for $(FUZZ)"; $(GO) test -run '^$$' -fuzz "^$${at#*:}\$$" -fuzztime $(FUZZ) "./$${at%:*}"; done

fleet: tools build ## 200 real sessions over four hosts in two zones with three workers, and troubles for all of them; the seed, the plan and what is judged
	$(GO) run ./internal/lab/fleet $(FLEET)

# OLD is N of the upgrade, a tag or a commit: the state that the last release has.
OLD ?= 79286931
upgrade: tools build ## workers of OLD (a tag or a commit) are replaced by these under work, and back; nothing may be lost or repeated; UPGRADE='-sessions 4'
	@$(call with_old,$(GO) run ./internal/lab/upgrade -old "$$dir" $(UPGRADE))

soak: tools build ## 50 sessions work for an hour on Temporal with PostgreSQL, with faults of all kinds and an upgrade from OLD in the middle; what is lost, repeated and left over (nothing); SOAK='-sessions 10 -lasts 10m'
	@$(call with_old,$(GO) run ./internal/lab/soak -old "$$dir" $(SOAK))

# with_old runs a command with the programs of OLD in $$dir.
with_old = set -e; dir=$$(mktemp -d /var/tmp/fairlead-old-XXXXXX); trap 'git worktree remove --force "$$dir/src"; rm -rf "$$dir"' EXIT; \
	git worktree add --quiet --detach "$$dir/src" "$(OLD)"; \
	(cd "$$dir/src" && $(GO) build -ldflags "-s -w -X fairlead.dev/fairlead/internal/version.Build=$(OLD)" -o "$$dir/" ./cmd/ctl ./cmd/worker); \
	$(1)

cluster: tools build ## Fairlead on Temporal with PostgreSQL as a platform team has it: what is missing is named, all kinds of work, the database away for 60 s, latencies, and 50 runs of faults; CLUSTER='-sessions 2 -times 10' FAULTS='-runs 50'
	$(GO) run ./internal/lab/cluster $(CLUSTER)
	$(GO) run ./internal/lab/faults -postgres $(or $(FAULTS),-runs 50)

bench: tools build ## speed beside its goals, side by side as ratios where there is a plain way
	sh deploy/rivals.sh
	$(GO) run ./internal/lab/bench
	$(GO) test -count=1 -run '^$$' -bench 'Fold|Decide|PlainJSON' ./conversation ./internal/policy

record: tools build ## record anew what the replay tests check: read the diff; once the newest release is frozen, RELEASE=v0.2 begins the next one
	$(GO) test -count=1 -run TestRecordHistories ./workflows -record -release "$(RELEASE)"
	$(GO) test -count=1 -run 'TestConformance/recorded' ./conversation -update

golden: ## renew the lists of names and shapes that other versions rely on: it removes no line of a frozen release
	$(GO) test -count=1 -run TestGolden ./workflows -update
	@git --no-pager diff --stat -- workflows/testdata/golden

freeze: ## close the newest release: its recorded histories may not change any more
	$(GO) test -count=1 -run TestFrozenHistoriesAreAsTheyWere ./workflows -freeze

clean:
	rm -rf bin dist .tools .cache
