package main

import (
	"slices"
	"strings"
	"testing"
)

// ours makes the import path of one of our packages.
func ours(dir string) string { return product + "/" + dir }

func TestCheck(t *testing.T) {
	for name, row := range map[string]struct {
		imports graph
		want    []string // parts of the sentences, one each
	}{
		"each layer on the ones below it": {
			imports: graph{
				ours("api/v1beta1"):    {"k8s.io/apimachinery/pkg/runtime"},
				ours("internal/claim"): {ours("api/v1beta1")},
				ours("webhooks"):       {ours("internal/claim"), "sigs.k8s.io/controller-runtime"},
				ours("cmd/portcullis"): {ours("webhooks")},
			},
		},
		"api imports one of ours": {
			imports: graph{ours("api/v1beta1"): {ours("internal/claim")}, ours("internal/claim"): nil},
			want:    []string{"api/v1beta1 imports " + ours("internal/claim") + ": api may import none of the others"},
		},
		"siblings import each other": {
			imports: graph{ours("webhooks"): {ours("reconcilers")}, ours("reconcilers"): {ours("webhooks")}},
			want:    []string{"reconcilers imports", "webhooks imports"},
		},
		"a domain package looks up": {
			imports: graph{ours("internal/stream"): {ours("certs")}, ours("certs"): nil},
			want:    []string{"internal/stream imports"},
		},
		"the product imports its tests": {
			imports: graph{ours("cmd/portcullis"): {ours("test/controlplane")}, ours("test/controlplane"): nil},
			want:    []string{"cmd/portcullis imports"},
		},
		"a pure package reaches a client through others": {
			imports: graph{
				ours("internal/claim"):       {"example.com/between"},
				"example.com/between":        {"k8s.io/client-go/rest"},
				"k8s.io/client-go/rest":      nil,
				"k8s.io/client-gopher/other": nil,
			},
			want: []string{"internal/claim -> example.com/between -> k8s.io/client-go/rest"},
		},
		"the program reaches templates through others": {
			imports: graph{
				ours("cmd/portcullis"): {"example.com/between"}, ours("cmd/kubectl-portcullis"): {"example.com/between"},
				"example.com/between": {"text/template"}, "text/template": nil,
			},
			want: []string{"cmd/portcullis must stay lean but reaches text/template: " + ours("cmd/portcullis") + " -> example.com/between -> text/template"},
		},
		"an impure package may": {
			imports: graph{ours("internal/kube"): {"k8s.io/client-go/rest"}},
		},
		"a name that only begins alike": {
			imports: graph{ours("internal/claim"): {"k8s.io/client-gopher/other"}},
		},
		"features on what they share": {
			imports: graph{
				ours("reconcilers"):         {ours("reconcilers/streams"), ours("reconcilers/pods")},
				ours("reconcilers/streams"): {ours("reconcilers/watch"), ours("internal/claim")},
				ours("reconcilers/pods"):    {ours("reconcilers/watch")},
				ours("reconcilers/watch"):   nil,
			},
		},
		"a feature imports another": {
			imports: graph{ours("reconcilers/streams"): {ours("reconcilers/claims")}, ours("reconcilers/claims"): nil},
			want:    []string{"reconcilers/streams imports " + ours("reconcilers/claims") + ": it may import no other feature"},
		},
		"what features share imports one": {
			imports: graph{ours("reconcilers/watch"): {ours("reconcilers/pods")}, ours("reconcilers/pods"): nil},
			want:    []string{"reconcilers/watch imports"},
		},
		"a room that is neither": {
			imports: graph{ours("reconcilers/misc"): nil},
			want:    []string{"reconcilers/misc is neither"},
		},
		"a directory nobody placed": {
			imports: graph{ours("helpers"): nil},
			want:    []string{"helpers is in no layer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(row.imports)
			if len(got) != len(row.want) {
				t.Fatalf("check() = %q, want %d violations", got, len(row.want))
			}
			for i := range got {
				if !strings.Contains(got[i], row.want[i]) {
					t.Errorf("violation %d is %q, want it to say %q", i, got[i], row.want[i])
				}
			}
		})
	}
}

func TestLayersAreAnOrder(t *testing.T) {
	for upper, lower := range layers {
		for _, layer := range lower {
			if slices.Contains(layers[layer], upper) {
				t.Errorf("%s and %s may import each other", upper, layer)
			}
			if _, known := layers[layer]; !known {
				t.Errorf("%s may import %s, which is no layer", upper, layer)
			}
		}
	}
}

func TestLoadSeesThisModule(t *testing.T) {
	imports, err := load(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(imports[product+"/tools/layering"], "encoding/json") {
		t.Errorf("load() does not know what this package imports: %q", imports[product+"/tools/layering"])
	}
}
