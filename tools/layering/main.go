// Command layering proves from `go list -deps` that imports flow one way through the layers of the product, that its features
// don't import each other, that the pure packages reach no Kubernetes client, and that the program stays lean. It is run in the root
// of the repository; it prints every violation, with the chain of imports that makes it where there is one.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// product is the import path of the root module.
const product = "jeffthecoder.xyz/portcullis"

// layers says for each top-level directory which others it may import. A directory that is not named here is a
// violation, so that the table stays complete.
var layers = map[string][]string{
	"api":         {},
	"internal":    {"api"},
	"certs":       {"api", "internal"},
	"webhooks":    {"api", "internal", "certs"},
	"reconcilers": {"api", "internal", "certs"},
	"config":      {},
	"plugin":      {"api", "internal", "webhooks", "config"},
	"cmd":         {"api", "internal", "certs", "webhooks", "reconcilers", "plugin"},
	"test":        {"api", "internal", "certs", "webhooks", "reconcilers", "plugin", "cmd"},
}

// pure are the packages whose code must not know a cluster, and modules what they must not reach by any path.
var (
	pure = []string{
		"internal/claim", "internal/refusal", "internal/stream", "internal/exposure", "internal/addresspool", "internal/loadbalancer",
		"internal/allocator", "internal/guard", "internal/hostname", "internal/podtoip", "internal/snapshot", "internal/findings",
		"internal/doors", "internal/takeover",
	}
	modules = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"}
)

// lean is the program that every cluster runs, and heavy what it must not reach by any path: where a program can run templates, which
// call methods by their names, the linker keeps every method of every type, and it takes half as much memory again.
var (
	lean  = "cmd/portcullis"
	heavy = []string{"text/template", "html/template"}
)

// features are the packages that have a room for each feature beside those that they share. One feature never imports another.
var features = []string{
	"reconcilers/streams", "reconcilers/ingresses", "reconcilers/loadbalancers", "reconcilers/pods", "reconcilers/claims",
	"reconcilers/guards",
}

// shared are the packages that features stand on. They import no feature.
var shared = []string{"reconcilers/access", "reconcilers/watch", "reconcilers/write", "reconcilers/report"}

func main() {
	imports, err := load(context.Background(), ".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "layering:", err)
		os.Exit(1)
	}
	violations := check(imports)
	for _, v := range violations {
		fmt.Fprintln(os.Stderr, "layering:", v)
	}
	if len(violations) > 0 {
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "layering: %d packages import one way only\n", count(imports))
}

// count returns how many of the packages are ours.
func count(imports graph) int {
	ours := 0
	for path := range imports {
		if _, yes := layerOf(path); yes {
			ours++
		}
	}
	return ours
}

// graph maps a package's import path to the paths that it imports.
type graph map[string][]string

// load lists every package of the module in dir with all that it needs. Test files are left out: a test may use what
// its package may not.
func load(ctx context.Context, dir string) (graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Imports", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	imports := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		err := dec.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return imports, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		imports[pkg.ImportPath] = pkg.Imports
	}
}

// within says whether the package path is root or lies below it.
func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// layerOf returns the top-level directory of one of our packages, and false for everybody else's.
func layerOf(path string) (string, bool) {
	rest, ours := strings.CutPrefix(path, product+"/")
	if !ours {
		return "", path == product
	}
	layer, _, _ := strings.Cut(rest, "/")
	return layer, true
}
