# Everything that the project can do, on a machine that has Go, make and git. `make` alone lists it.
# Tools are pinned: tools/go.mod (generators, kustomize), tools/lint/go.mod (golangci-lint), tools/helm/go.mod (helm), tools/hugo/go.mod (hugo),
# tools/kubernetes/go.mod (etcd with its tools, kube-apiserver, kubectl, kube-controller-manager; those of the oldest minor version that
# Kubernetes supports in tools/kubernetes/1.35/go.mod), tools/release/go.mod (bills of materials, licenses, krew) and tools/prometheus/go.mod
# (prometheus, promtool). Go builds and caches them on first use. tools/conformance/go.mod pins the conformance tests of the Gateway API, of
# which tests read the manifests.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# One setting for every build, so that all of them share one build cache.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false
export GOWORK := off

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# The image that `make image` builds and `make deploy` deploys. Left out, deploy uses the one that config/ names.
IMG ?=
# What `make image` builds for, and whether it pushes to IMG's registry.
PLATFORMS ?= linux/amd64,linux/arm64
PUSH ?=
# The overlay of config/overlays that deploy and undeploy use.
OVERLAY ?= default
# Further arguments of `go test`. CI never trusts a cached result.
TEST_ARGS ?= $(if $(CI),-count=1)

TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
LINT := go tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint
# The minor version of the control planes that tests, measurements and `make run` start, v1.35 for example: one that a go.mod in
# tools/kubernetes pins. Left out, it is the newest, or what KUBEBUILDER_ASSETS has; where both are set, they must agree. The etcd of an older
# one doesn't start on the data of a newer one: `make run KUBERNETES=v1.35` may need CLEAN=1.
KUBERNETES ?=
ASSETS := go run -C tools ./assets $(if $(KUBERNETES),-kubernetes=$(KUBERNETES))
KUBECTL ?= kubectl
# The packages that carry RBAC and webhook markers; certs has a role of its own, which only self-signed certificates need.
MARKED := $(foreach dir,webhooks reconcilers cmd,$(if $(wildcard $(dir)),paths=./$(dir)/...))
GENERATED := api charts config/grafana config/crd/bases config/rbac/role.yaml config/selfsigned/role.yaml config/webhook/manifests.yaml docs/api.md

##@ Use

.PHONY: help
help: ## List what make can do.
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z][a-z0-9-]*:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Start a control plane and Portcullis on this machine (CLEAN=1 drops the data; API_PORT=... moves it).
	@assets=$$($(ASSETS)) && go build -o bin/run ./test/run && KUBEBUILDER_ASSETS="$$assets" exec bin/run \
		--clean="$(CLEAN)" $(if $(API_PORT),--api-port=$(API_PORT)) $(if $(WEBHOOK_PORT),--webhook-port=$(WEBHOOK_PORT)) \
		$(if $(HEALTH_PORT),--health-port=$(HEALTH_PORT)) $(if $(METRICS_PORT),--metrics-port=$(METRICS_PORT)) $(RUN_ARGS)

.PHONY: test
test: ## Run every test, against a real kube-apiserver and etcd, and say how it goes (TEST_ARGS=-run=... KUBERNETES=v1.35).
	@go build -C tools -o ../bin/gotest ./gotest && assets=$$($(ASSETS)) && \
		KUBEBUILDER_ASSETS="$$assets" bin/gotest -timeout=80m -ldflags=-s $(TEST_ARGS) . test/certmanager test/gitops tools

.PHONY: assets
assets: ## Have the control plane's programs that tests start, and say where they are (a while the first time, KUBERNETES=v1.35).
	@$(ASSETS)

# How long it lasts, and what its acts follow from; left out, another seed each time.
FOR ?= 20m
SEED ?= 0
.PHONY: adversary
adversary: ## Let three hostile tenants do at random what `edit` lets them do, and watch (FOR=20m SEED=... ADVERSARY_ARGS=-rate=20).
	@assets=$$($(ASSETS)) && KUBEBUILDER_ASSETS="$$assets" go test ./test/adversary -count=1 -timeout=0 -v \
		-run=TestNobodyTakesWhatIsHeld -for=$(FOR) -seed=$(SEED) $(ADVERSARY_ARGS)

.PHONY: build
build: ## Build bin/portcullis, static, for this machine (or GOOS and GOARCH).
	@echo "Building bin/portcullis $(VERSION) (a few minutes the first time) ..."
	@go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/portcullis ./cmd/portcullis

.PHONY: plugin
plugin: ## Build bin/kubectl-portcullis, which says who has which door of a cluster, and which conflicts there are.
	@go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/kubectl-portcullis ./cmd/kubectl-portcullis

##@ Develop

.PHONY: generate
generate: ## Generate Go code and the API reference from the types, and the dashboard.
	@$(TOOL) controller-gen object paths=./api/...
	@mkdir -p docs
	@$(TOOL) crd-ref-docs --log-level=ERROR --config=tools/crd-ref-docs.yaml --source-path=api --renderer=markdown --output-path=docs/api.md
	@go run -C tools ./dashboard >config/grafana/portcullis.json

# Of what manifests made, too.
.PHONY: chart
chart: ## Generate the Helm chart from the kustomize tree.
	@go run -C tools ./chart -config=../config -dir=../charts/portcullis

.PHONY: manifests
manifests: ## Generate CRDs, RBAC and webhook manifests from the markers.
	@rm -f config/crd/bases/*.yaml
	@$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	@$(TOOL) controller-gen webhook paths=./webhooks/... output:webhook:dir=config/webhook
	@$(TOOL) controller-gen rbac:roleName=portcullis paths=./webhooks/... paths=./reconcilers/... paths=./cmd/... output:rbac:dir=config/rbac
	@$(TOOL) controller-gen rbac:roleName=portcullis-certs paths=./certs/... output:rbac:dir=config/selfsigned

.PHONY: verify
verify: generate manifests chart ## Prove that generated files and go.mod files are up to date.
	@changed=$$(git status --porcelain -- $(GENERATED)); if [ -n "$$changed" ]; then \
		echo "not up to date, commit what 'make generate manifests chart' changed:"; echo "$$changed"; \
		git --no-pager diff -- $(GENERATED); exit 1; fi
	@for mod in $$(git ls-files '*go.mod'); do \
		go -C "$$(dirname "$$mod")" mod tidy -diff || { echo "$$mod is not tidy"; exit 1; }; done

.PHONY: lint
lint: ## Lint every Go module.
	@for dir in . tools test/certmanager test/gitops $(wildcard test/e2e); do (cd $$dir && $(LINT) run ./...) || exit 1; done

.PHONY: layering
layering: ## Prove that imports flow one way and that the domain packages know no cluster.
	@go build -C tools -o ../bin/layering ./layering && bin/layering

.PHONY: bench
bench: ## Measure speed and scale, and write docs/benchmarks.md (QUICK=1: less, and to bin; BENCH_ARGS=--only=admission; CILIUM_OPERATOR=<path>: with Cilium, too).
	@assets=$$($(ASSETS)) && KUBEBUILDER_ASSETS="$$assets" QUICK=$(QUICK) go run ./test/bench $(BENCH_ARGS)

.PHONY: recordings
recordings: ## Draw docs/pictures: what a terminal shows of real commands, on control planes of their own.
	@assets=$$($(ASSETS)) && KUBEBUILDER_ASSETS="$$assets" go run ./test/recording

# Where the files of the repository are shown, a URL before their path. Left out, the site has no links to them.
SOURCE ?=
.PHONY: site
site: ## Build the docs into a site, bin/site, that has no dead link (SOURCE=https://forge.example/portcullis/blob/main).
	@go run -C tools ./site -out=$(CURDIR)/bin/site -source='$(SOURCE)'

# Prometheus and promtool, which find targets in files and in Kubernetes: without the clients of every cloud.
PROMETHEUS := bin/prometheus
.PHONY: prometheus
prometheus:
	@echo "Building Prometheus and promtool (a few minutes the first time) ..."
	@mkdir -p $(PROMETHEUS) && go build -modfile=tools/prometheus/go.mod -tags remove_all_sd,enable_kubernetes_sd -ldflags "-s -w" \
		-o $(PROMETHEUS)/ github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool

# A real Prometheus that scrapes replicas which run: test/monitoring, with further arguments.
define monitored
	@assets=$$($(ASSETS)) && KUBEBUILDER_ASSETS="$$assets" PROMETHEUS_ASSETS=$(CURDIR)/$(PROMETHEUS) \
		go test -tags monitoring -timeout 30m $(TEST_ARGS) ./test/monitoring
endef

.PHONY: monitoring
monitoring: prometheus ## Test alerts, metrics and the dashboard with promtool and a real Prometheus.
	$(monitored)

DASHBOARD_FOR ?= 4m
.PHONY: dashboard
dashboard: prometheus ## Draw docs/pictures/dashboard.svg: the dashboard, of what a real Prometheus has scraped for four minutes.
	$(monitored) -count=1 -run=TestPrometheusSeesEverything -picture=$(CURDIR)/docs/pictures/dashboard.svg -for=$(DASHBOARD_FOR)

.PHONY: e2e
e2e: ## Test on the cluster that kubectl talks to; docs/operations.md says how (OVERLAY=... IMG=... PAUSE=... E2E_ARGS=-v).
	@[ -d test/e2e ] || { echo "there are no end-to-end tests yet: test/e2e is missing" >&2; exit 1; }
	@go -C test/e2e test -count=1 -timeout 2h $(E2E_ARGS) .

.PHONY: clean
clean: ## Remove what was built, dist included, and the data of `make run`.
	@rm -rf bin dist .run .deploy .dist-*

##@ Deploy

.PHONY: image
image: ## Build the container image IMG, as bin/portcullis-image.tar or into its registry (PUSH=1 PLATFORMS=...).
	@GOOS= GOARCH= go build -C tools -o ../bin/image ./image && bin/image --image='$(IMG)' --version='$(VERSION)' \
		--platforms='$(PLATFORMS)' --push='$(or $(PUSH),false)'

# Where krew finds the files of a release, what the plugin is compiled for, and where the files go.
URL ?= https://jeffthecoder.xyz/portcullis/releases/$(VERSION)
PLUGINS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
DIST ?= dist
.PHONY: dist
dist: ## Make the files of a release, in dist, with the same bytes each time (VERSION=v1.2.3 IMG=registry.example.com/portcullis URL=...).
	@GOOS= GOARCH= go build -C tools -o ../bin/dist ./dist && bin/dist --dir='$(DIST)' --version='$(VERSION)' --url='$(URL)' \
		--image='$(or $(IMG),jeffthecoder.xyz/portcullis)' --image-platforms='$(PLATFORMS)' --plugin-platforms='$(PLUGINS)'

# rendered prints the manifests of OVERLAY, with IMG in the place of the image that config/ names.
define rendered
	@rm -rf .deploy && mkdir -p .deploy && printf 'resources: [../config/overlays/%s]\n' '$(OVERLAY)' >.deploy/kustomization.yaml
	@[ -z "$(IMG)" ] || (cd .deploy && $(TOOL) kustomize edit set image portcullis=$(IMG))
	@$(TOOL) kustomize build .deploy >.deploy/all.yaml
endef

# What it applies is as the manifests say afterwards: what somebody has patched in it, in an emergency say, is taken back.
.PHONY: deploy
deploy: ## Deploy to the cluster that kubectl talks to (OVERLAY=default|standalone IMG=...).
	$(rendered)
	$(KUBECTL) apply --server-side --force-conflicts -f .deploy/all.yaml

# The pods go before the kinds do. It makes no difference to this version, which leaves everything open when its kinds are
# deleted; what runs may be an older one, which closes ports and takes addresses back.
.PHONY: undeploy
undeploy: ## Remove what deploy put there.
	$(rendered)
	$(KUBECTL) delete --ignore-not-found --cascade=foreground --timeout=3m -n portcullis-system deployment portcullis
	$(KUBECTL) delete --ignore-not-found -f .deploy/all.yaml
