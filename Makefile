# Everything a contributor runs. `make help` lists the targets.
#
# Tools are pinned in the go.mod files under tools/ and run through `go tool`; what they build lands in Go's build cache. The
# binaries of the test cluster go to a cache of their own outside the tree ($KRUISE_CACHE, else the user's cache folder).

SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The version that the tree is on its way to. Released ones are in catalog/versions.yaml.
VERSION ?= v0.6.0
# The repository of the manager's image. Images around it have its name with a suffix. The default is a placeholder that nothing is
# pushed to.
BUNDLE_REPO = $(or $(IMAGE_REPO),registry.example.com/kruise-operator)

CONTROLLER_GEN := go tool -modfile=tools/sdk/go.mod controller-gen
KUSTOMIZE      := go tool -modfile=tools/sdk/go.mod kustomize
GOLANGCI_LINT  := go tool -modfile=tools/lint/go.mod golangci-lint
ACTIONLINT     := go tool -modfile=tools/workflows/go.mod actionlint
HUGO           := go tool -modfile=tools/docs/go.mod hugo
# The same for the tests' module, from its folder.
GOLANGCI_LINT_TESTS := go tool -modfile=../tools/lint/go.mod golangci-lint

# Commands of the tests' module. They change to the top of the repository, so paths that they are given are relative to it.
RUN := go -C tests run

export CGO_ENABLED ?= 0
# Every checkout, also a fresh clone, then shares one build cache.
export GOFLAGS ?= -trimpath

# Where the API server of the cluster that KUBECONFIG names reaches a process on this machine.
WEBHOOK_URL ?= https://127.0.0.1:9443
PROMETHEUS ?= http://127.0.0.1:9090
MINUTES ?= 10

##@ General

.PHONY: help
help: ## List the targets, one line each.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ The newcomer's two commands

.PHONY: demo
demo: ## Bring up a local control plane and the operator, and roll 300 guestbook pods in place. DEMO=once exits when done.
	$(RUN) ./cmd/demo

.PHONY: recording
recording: ## Record `make demo` and render it as docs/images/demo.svg; needs asciinema and npm.
	@mkdir -p dist docs/images
	asciinema rec --overwrite --quiet --cols 110 --rows 24 --idle-time-limit 1 --command "$(MAKE) demo DEMO=once" dist/demo.cast
	npx --yes svg-term-cli@2.1.1 --in dist/demo.cast --out docs/images/demo.svg --window --no-cursor

.PHONY: canary-picture
canary-picture: ## Run docs/tasks/canary-with-traffic.md with real pods, and draw docs/images/canary.svg from the answers; needs what test-node needs.
	CANARY_PICTURE=$(CURDIR)/docs/images/canary.svg go -C tests test ./node/traffic -count=1 -v -run='^TestThePage$$'

.PHONY: test
test: ## Run all suites, of long ones the part of the day, two at a time, and print what ran, how long it took, what was skipped and why, and what was not run.
	@$(RUN) ./cmd/suites $(SUITES)

##@ Suites

.PHONY: test-all
test-all: ## Run all suites with all of the long tests, such as all explorations and hostile bodies: some hours.
	@$(RUN) ./cmd/suites --all $(SUITES)

.PHONY: test-unit
test-unit: ## Tables, scenarios and the exhaustive exploration of planners; needs no cluster.
	@$(RUN) ./cmd/suites unit exploration

.PHONY: test-integration
test-integration: ## Admission, status, ownership, watches and the public typed client against a real API server.
	@$(RUN) ./cmd/suites framework integration

.PHONY: test-e2e
test-e2e: ## Whole flows on a real control plane with simulated nodes.
	@$(RUN) ./cmd/suites e2e

.PHONY: test-chaos
test-chaos: ## Run every chaos scenario of all kinds, or of CHAOS_KINDS=CloneSet,DaemonSet. It continues where it was stopped (dist/chaos.jsonl).
	@CHAOS_FULL=true CHAOS_RECORD=$(or $(CHAOS_RECORD),$(CURDIR)/dist/chaos.jsonl) go -C tests test ./chaos -count=1 -v -timeout=24h -run='^TestChaos$$'

# How long each fuzzer runs, and with how many workers.
FUZZ_TIME ?= 1m
FUZZ_WORKERS ?= 2

.PHONY: fuzz
fuzz: ## Run each fuzzer for FUZZ_TIME, on code that parses text of users or other programs. Earlier findings run with the unit tests.
	@failed=0; for file in $$(grep -rl '^func Fuzz' --include='*_test.go' controllers internal); do \
	  for fuzzer in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$$file"); do \
	    echo "$$(dirname "$$file") $$fuzzer"; \
	    TEST_ALL=true go test -run='^$$' -fuzz="^$$fuzzer\$$" -fuzztime=$(FUZZ_TIME) -parallel=$(FUZZ_WORKERS) "./$$(dirname "$$file")" || failed=1; \
	  done; \
	done; exit $$failed

.PHONY: test-node
test-node: ## Test behavior that depends on a kubelet; needs root on Linux with containerd.
	@$(RUN) ./cmd/suites node

.PHONY: test-olm
test-olm: ## Install, upgrade and remove the operator through OLM: on a control plane, then on a real node with its images (needs what test-node needs).
	@$(RUN) ./cmd/suites olm olm-node

.PHONY: bench
bench: ## Start 2000 pods and update them in place, by the operator and by a bare client in turn; 40 minutes on an idle machine.
	$(RUN) ./bench $(BENCH)

##@ Generated files and checks

.PHONY: generate
generate: ## Write the generated Go code, and the files that are generated from the table of kinds.
	$(CONTROLLER_GEN) object:headerFile=tools/boilerplate.go.txt paths=./api/...
	go run ./internal/kinds/generate

.PHONY: manifests
manifests: ## Write CRDs, roles and webhook configurations from the markers in the code.
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=kruise-operator-manager paths="./controllers/...;./internal/..." output:rbac:artifacts:config=config/rbac/manager
	$(CONTROLLER_GEN) webhook paths="./controllers/...;./internal/webhook/..." output:webhook:artifacts:config=config/webhook

.PHONY: chart
chart: ## Write the templates of the Helm chart from the manifests.
	@$(RUN) ./cmd/packaging chart

.PHONY: dashboard
dashboard: ## Write the Grafana dashboard, config/grafana/kruise-operator.json.
	@$(RUN) ./cmd/packaging dashboard

.PHONY: dashboard-picture
dashboard-picture: ## Draw the dashboard of the last MINUTES of PROMETHEUS as docs/images/dashboard.png; needs npm and chromium.
	@mkdir -p dist/dashboard && cp tools/dashboard/index.html config/grafana/kruise-operator.json dist/dashboard/
	npm install --silent --prefix dist/dashboard uplot@1.6.32
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files --virtual-time-budget=30000 \
		--window-size=1480,2190 --screenshot=docs/images/dashboard.png \
		'file://$(CURDIR)/dist/dashboard/index.html?prometheus=$(PROMETHEUS)&minutes=$(MINUTES)'

.PHONY: installer
installer: ## Write dist/install.yaml, for `kubectl apply -f`, with the image of VERSION in IMAGE_REPO.
	@$(RUN) ./cmd/packaging installer --image=$(BUNDLE_REPO):$(VERSION)

.PHONY: bundle
bundle: ## Write the bundle for the Operator Lifecycle Manager from the manifests and types; images are named by tag.
	@$(RUN) ./cmd/packaging bundle --version=$(VERSION) --image=$(BUNDLE_REPO):$(VERSION) --scorecard-image=$(BUNDLE_REPO)-scorecard:$(VERSION)

.PHONY: reference
reference: ## Write the generated parts of docs/reference: API, flags, gates, metrics, conditions and their reasons.
	@$(RUN) ./cmd/verify reference

.PHONY: docs
docs: ## Build the site of docs/ into dist/site/VERSION. It offers the versions that lie beside it. A link that leads nowhere fails.
	HUGO_PARAMS_VERSION=$(VERSION) $(HUGO) --config=tools/docs/hugo.yaml --destination=dist/site/$(VERSION) --cleanDestinationDir --noBuildLock
	@cd dist/site && printf 'const versions = [%s];\n' "$$(ls -d v*/ | sort -rV | sed 's|\(.*\)/|"\1"|' | paste -sd,)" > versions.js
	@printf '<meta http-equiv="refresh" content="0; url=%s/">\n' $(VERSION) > dist/site/index.html

.PHONY: bundle-validate
bundle-validate: ## Check bundle/ with every validator of operator-sdk that applies; a warning is an error.
	@$(RUN) ./cmd/packaging validate bundle

.PHONY: scorecard
scorecard: ## Run the scorecard of bundle/: operator-sdk with a pod for each test, and the operator, on a real node (needs what test-node needs).
	@$(RUN) ./cmd/packaging scorecard bundle

.PHONY: notes
notes: ## Write the notes of VERSION from CHANGELOG.md into dist/releases.
	@$(RUN) ./cmd/packaging notes --version=$(VERSION)

.PHONY: release-chart
release-chart: ## Pack the chart of VERSION into dist/releases, and push it to the OCI registry CHART_REPO when that is set.
	@$(RUN) ./cmd/packaging release-chart --version=$(VERSION) --repository=$(BUNDLE_REPO) --push-to=$(CHART_REPO)

.PHONY: release
release: ## Build VERSION from COMMIT, images and bundle, and add it to the catalog. RELEASE adds flags, such as --replaces=v0.1.0.
	@$(RUN) ./cmd/packaging release --version=$(VERSION) --commit=$(COMMIT) --repository=$(BUNDLE_REPO) $(RELEASE)

.PHONY: catalog
catalog: ## Render and check the catalog of all released versions, and draw its upgrade graph for the docs; push that of IMAGE_REPO's versions when it is set.
	@$(RUN) ./cmd/packaging catalog --drawing=docs/reference/versions.md

.PHONY: operatorhub
operatorhub: ## Write the tree for a pull request to a community catalog into dist/operatorhub and check it.
	@$(RUN) ./cmd/packaging operatorhub

.PHONY: verify
verify: ## Fail when a generated file is not current, in a scratch copy of the tree; changes nothing here.
	@$(RUN) ./cmd/verify

.PHONY: lint
lint: ## Run the linters, import rules and formatting included.
	$(GOLANGCI_LINT) run ./...
	cd tests && $(GOLANGCI_LINT_TESTS) run ./...
	$(ACTIONLINT)

.PHONY: fmt
fmt: ## Format the code.
	$(GOLANGCI_LINT) fmt ./...
	cd tests && $(GOLANGCI_LINT_TESTS) fmt ./...

.PHONY: tidy
tidy: ## Bring go.mod and go.sum of all modules up to date after a change of dependencies.
	go mod tidy
	go -C tests mod tidy
	go -C tests/conformance mod tidy

##@ Packaging

.PHONY: images
images: ## Build the container images of VERSION into dist/images, for both architectures or for ARCH, and push them to IMAGE_REPO when that is set.
	IMAGE_REPO=$(IMAGE_REPO) $(RUN) ./cmd/images --version=$(VERSION) --arch=$(ARCH)

.PHONY: deploy
deploy: ## Install the operator into the cluster that KUBECONFIG names, with the image of VERSION in IMAGE_REPO.
	@mkdir -p dist/deploy
	@printf 'resources: [../../config/default]\nimages: [{name: kruise-operator, newName: %s, newTag: %s}]\n' \
		"$(or $(IMAGE_REPO),$(error IMAGE_REPO must name the repository of the image))" $(VERSION) > dist/deploy/kustomization.yaml
	kubectl apply -k dist/deploy
	kubectl --namespace=kruise-system rollout status --timeout=2m deployment kruise-operator-manager

.PHONY: undeploy
undeploy: ## Remove the operator that `make deploy` installed. Our kinds, their objects and their pods stay.
	kubectl get crd --selector=operator.kruise.io/conversion=webhook --output=name | \
		xargs -I{} kubectl patch {} --type=merge --patch='{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
	kubectl delete -k config/operator

##@ The operator as a local process

.PHONY: build
build: ## Build the manager, the node daemon and the checks before a takeover into bin/.
	go build -trimpath -ldflags "-s -w -X github.com/kruise-operator/kruise-operator/internal/platform/version.release=$(VERSION)" -o bin/kruise-operator .
	go build -trimpath -ldflags "-s -w -X github.com/kruise-operator/kruise-operator/internal/platform/version.release=$(VERSION)" \
		-o bin/kruise-daemon ./internal/cmd/daemon
	go build -trimpath -ldflags "-s -w -X github.com/kruise-operator/kruise-operator/internal/platform/version.release=$(VERSION)" \
		-o bin/kruise-preflight ./internal/cmd/preflight

.PHONY: install
install: ## Install CRDs, RBAC and webhooks (by WEBHOOK_URL) into the cluster that KUBECONFIG names.
	$(RUN) ./cmd/dev install --webhook-url=$(WEBHOOK_URL)

.PHONY: uninstall
uninstall: ## Remove what `make install` installed; refuses while objects of ours exist.
	$(RUN) ./cmd/dev uninstall

.PHONY: run
run: ## Run the operator as a local process against the cluster that KUBECONFIG names. ARGS adds flags.
	$(RUN) ./cmd/dev run --webhook-url=$(WEBHOOK_URL) -- $(ARGS)

.PHONY: preflight
preflight: ## Check the cluster that KUBECONFIG names before a takeover from OpenKruise. ARGS adds flags.
	@go run ./internal/cmd/preflight $(ARGS)

.PHONY: cluster
cluster: ## Start a local control plane with simulated nodes and keep it until Ctrl-C.
	$(RUN) ./cmd/cluster up
