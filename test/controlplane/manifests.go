package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Render returns the objects of a kustomization. dir is seen from the root of the repository.
func Render(ctx context.Context, dir string) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	assets, err := Assets(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(assets, "kubectl"), "kustomize", filepath.Join(root, dir))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kustomize %s: %w\n%s", dir, err, stderr.String())
	}
	return Decode(bytes.NewReader(out))
}

// RenderText returns the objects of a kustomization that is written into dir. Each %s in its text is the path of config/ from
// there.
func RenderText(ctx context.Context, dir, text string) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	config, err := filepath.Rel(dir, filepath.Join(root, "config"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(strings.ReplaceAll(text, "%s", config)), 0o600); err != nil {
		return nil, err
	}
	here, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, err
	}
	return Render(ctx, here)
}

// ReadFile returns the objects of a YAML file.
func ReadFile(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	objects, err := Decode(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return objects, nil
}

// Decode returns the objects of a stream of YAML documents. Empty documents are passed over.
func Decode(r io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for dec := yaml.NewYAMLOrJSONDecoder(r, 4096); ; {
		object := &unstructured.Unstructured{}
		err := dec.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// PointWebhooks makes the webhook configurations among objects call https://host:port instead of a Service in the cluster, of
// which the path is kept.
func PointWebhooks(objects []*unstructured.Unstructured, hostPort string) error {
	return EachWebhook(objects, func(webhook map[string]any) error {
		path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		webhook["clientConfig"] = map[string]any{"url": "https://" + hostPort + path}
		return err
	})
}

// EachWebhook changes every webhook of the webhook configurations among objects.
func EachWebhook(objects []*unstructured.Unstructured, change func(webhook map[string]any) error) error {
	for _, object := range objects {
		if !strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			continue
		}
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		for _, webhook := range webhooks {
			fields, ok := webhook.(map[string]any)
			if !ok {
				return fmt.Errorf("%s %s: a webhook is no map", object.GetKind(), object.GetName())
			}
			if err := change(fields); err != nil {
				return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
		if err := unstructured.SetNestedSlice(object.Object, webhooks, "webhooks"); err != nil {
			return err
		}
	}
	return nil
}

// Apply writes objects by server-side apply as field manager owner, which takes over what others set. Namespaces and
// CustomResourceDefinitions go first, and whoever asks afterwards is told of the latters' kinds. It stops at the first error.
func Apply(ctx context.Context, config *rest.Config, owner string, objects ...*unstructured.Unstructured) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	for _, object := range objects {
		if err := apply(ctx, c, owner, object); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return AwaitKinds(ctx, config, objects...)
}

// definition is the rank of CustomResourceDefinitions.
const definition = 1

// AwaitKinds waits until the API server tells of the kinds that the CustomResourceDefinitions among objects define. It does that a
// moment after it serves them, and a program that starts between the two ends, as it does not find what it is for.
func AwaitKinds(ctx context.Context, config *rest.Config, objects ...*unstructured.Unstructured) error {
	var unknown []schema.GroupKind
	for _, object := range objects {
		if rank(object) == definition {
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
			unknown = append(unknown, schema.GroupKind{Group: group, Kind: kind})
		}
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		if len(unknown) == 0 {
			return true, nil
		}
		c, err := client.New(config, client.Options{}) // each remembers what it was told
		if err != nil {
			return false, err
		}
		unknown = slices.DeleteFunc(unknown, func(kind schema.GroupKind) bool {
			_, err := c.RESTMapper().RESTMapping(kind)
			last = cmp.Or(err, last)
			return err == nil
		})
		return len(unknown) == 0, nil
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("waiting for the kinds %v: %w", unknown, last)
	}
	return err
}

// rank says what has to be there before what.
func rank(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return definition
	default:
		return definition + 1
	}
}

// apply writes one object. While its kind is not served yet, it waits: a CustomResourceDefinition takes a moment. Where the connection
// was lost before there was an answer, it asks again: applied twice is applied.
func apply(ctx context.Context, c client.Client, owner string, object *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		// The answer is written into what is sent, so every try needs a copy.
		last = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner(owner), client.ForceOwnership)
		if meta.IsNoMatchError(last) || apierrors.IsNotFound(last) || utilnet.IsProbableEOF(last) || utilnet.IsConnectionReset(last) {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}
