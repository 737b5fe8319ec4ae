# Everything a developer runs. Each recipe becomes the program it names (exec), so that its output stays clean
# and Ctrl-C and signals reach it. `make` turns every failure into exit code 2.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up test whole check format bench chaos vm docs schema sbom peers console

NODE := bin/neap-node
INSTALLED := node_modules/.package-lock.json
CONSOLE := dist/console/index.html
PEERS := .peers/.installed
POSTGRES := .postgres/.installed

help: ## List what make can do here
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 15

up: $(INSTALLED) $(CONSOLE) ## Start Neap and print where to go (ARGS="--data-dir D --api-port P --json …")
	@exec bin/neap up $(ARGS)

test: $(INSTALLED) $(CONSOLE) $(if $(NEAP_TEST_POSTGRES),,$(POSTGRES)) ## Run the tests (TEST=path for one file, ARGS="--test-name-pattern=…" for one test)
	@export NEAP_TEST_SEED=$${NEAP_TEST_SEED:-$$(date +%s)}; $(NODE) test/prerequisites.ts >&2 && \
	exec $(NODE) --test --test-reporter=spec --test-concurrency=2 --test-timeout=900000 $(ARGS) \
	  $(if $(TEST),$(TEST),$$($(NODE) test/files.ts))

whole: export NEAP_TEST_SHARE = 1
whole: test ## Run the tests with every case of the heavy suites, of which make test runs a sample (NEAP_TEST_SEED=number)

console: $(CONSOLE) ## Build the console's pages

peers: $(PEERS) ## Install the public clients that only tests use, pinned (npm, python3, go 1.25, JDK and Maven)

check: $(INSTALLED) ## Check types, lint, format, unused code, architecture and published advisories; says all that is wrong
	@wrong=; check() { $(NODE) "$$@" || wrong="$$wrong $${1##*/}"; }; \
	check node_modules/.bin/tsc -p .; \
	check node_modules/.bin/tsc -p console; \
	check node_modules/.bin/oxlint --type-aware --deny-warnings --report-unused-disable-directives; \
	check node_modules/.bin/oxfmt --check; \
	check node_modules/.bin/knip; \
	check node_modules/.bin/knip --production --include files,dependencies,unlisted; \
	check test/architecture.test.ts; \
	check test/advisories.ts; \
	if [ "$$wrong" ]; then echo "check: not good:$$wrong" >&2; exit 1; else echo 'check: all good'; fi

format: $(INSTALLED) ## Format every file in place
	@exec $(NODE) node_modules/.bin/oxfmt

docs: $(INSTALLED) ## Write openapi.json, docs/settings.md and docs/not-supported.md
	@exec $(NODE) test/docs.ts

schema: $(INSTALLED) ## Write docs/schema.txt, the tables that the migrations make
	@exec $(NODE) test/schema.ts

sbom: $(INSTALLED) ## Print what production is made of, as CycloneDX JSON, from the lock file (npm 10 or newer)
	@exec $(NODE) test/sbom.ts

bench: $(INSTALLED) ## Measure what we claim (BENCH=name for one of bench/*.ts, all without)
	@for file in $(if $(BENCH),bench/$(BENCH).ts,bench/*.ts); do $(NODE) "$$file" $(ARGS) || exit 1; done

chaos: $(INSTALLED) ## Run Neap under load and faults, all invariants checked (SEED=number MINUTES=5 WITHOUT=regexp)
	@exec $(NODE) test/chaos/main.ts --seed '$(SEED)' --minutes '$(MINUTES)' --without '$(WITHOUT)'

vm: $(INSTALLED) ## Test control groups of version 2 in a virtual machine (needs qemu-system-x86, busybox-static, cpio, kmod)
	@exec test/vm/run.sh cgroup2.sh

# Newer than the lock file once everything is installed. Says on stderr what happens: stdout belongs to the recipes.
$(INSTALLED): package.json package-lock.json
	@command -v npm >/dev/null || { echo 'neap: npm is not on PATH: install Node.js 20 or newer, which brings it' >&2; exit 1; }
	@[ -w . ] || { echo "neap: cannot install dependencies: $$PWD is not writable by $$(id -un)" >&2; exit 1; }
	@echo 'neap: installing dependencies (about ten seconds, once)' >&2
	@npm ci --loglevel=error >&2
	@touch $@

$(CONSOLE): $(INSTALLED) $(shell find console -type f)
	@echo 'neap: building the console (a few seconds, once)' >&2
	@$(NODE) node_modules/.bin/vite build console --logLevel warn >&2
	@touch $@

# Without a registry in reach the tests of these versions skip, and say so.
$(POSTGRES): $(INSTALLED) test/install_postgres
	@echo 'neap: installing Postgres 16 and 17 for tests (once)' >&2
	@test/install_postgres || echo 'neap: they could not be installed' >&2

$(PEERS): $(wildcard test/clients/peers/* test/clients/drivers/*)
	@test/clients/peers/install
