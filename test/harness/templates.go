package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Templates are control planes with an installation in them that have stopped. Others begin with what they have left: that takes half
// of what it takes to start one and to install into it.
type Templates struct {
	dir string

	mu  sync.Mutex
	all map[installation]*template
}

// installation is what is the same for all that are installed into one kind of control plane.
type installation struct{ guard, withoutGatewayAPI bool }

type template struct {
	mu sync.Mutex
	// dir is where it has its data, once it is made.
	dir string
}

// NewTemplates keeps templates in a directory, and makes each when it is first needed.
func NewTemplates(dir string) *Templates {
	return &Templates{dir: dir, all: map[installation]*template{}}
}

// fit says whether a control plane can begin with a template: not where its API server is to store something else when it first starts,
// which are the ranges of what Services get.
func (t *Templates) fit(opts Options) bool {
	return t != nil && !slices.ContainsFunc(opts.ControlPlane.APIServerFlags, func(flag string) bool {
		return strings.HasPrefix(flag, "--service-")
	})
}

// of returns the directory of the template for some options.
func (t *Templates) of(ctx context.Context, opts Options) (string, error) {
	what := installation{opts.Guard, opts.WithoutGatewayAPI}
	t.mu.Lock()
	one, known := t.all[what]
	if !known {
		one = &template{}
		t.all[what] = one
	}
	t.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.dir == "" {
		dir, err := os.MkdirTemp(t.dir, "template-")
		if err != nil {
			return "", err
		}
		if err := leave(ctx, dir, opts); err != nil {
			return "", fmt.Errorf("making a template: %w", err)
		}
		one.dir = dir
	}
	return one.dir, nil
}

// leave installs into a control plane that keeps its data in a directory, and stops it.
func leave(ctx context.Context, dir string, opts Options) (err error) {
	like := Options{Binary: opts.Binary, Guard: opts.Guard, WithoutGatewayAPI: opts.WithoutGatewayAPI}
	like.ControlPlane.Dir, like.ControlPlane.Assets = dir, opts.ControlPlane.Assets
	h, err := Start(ctx, like)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Stop()) }()
	objects, err := h.render()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if isOwn(object) {
			if err := h.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// isOwn says whether an object is another in each installation: webhooks lead to its replicas.
func isOwn(object *unstructured.Unstructured) bool {
	return strings.HasSuffix(object.GetKind(), "WebhookConfiguration")
}
