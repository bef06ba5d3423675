package plugin

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// fake is a cluster that a test makes up.
type fake struct {
	objects map[string][]runtime.Object // by plural
	// refuses says why a kind can't be read in a namespace, nil where it can.
	refuses func(plural, namespace string) error
}

func forbid(plural string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: plural}, "", nil)
}

func missing(plural string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: plural}, "")
}

// Each calls a function with copies, as readers change what they are given.
func (f *fake) Each(_ context.Context, k *kind, namespace, fields string, call func(runtime.Object)) error {
	if f.refuses != nil {
		if err := f.refuses(k.plural, namespace); err != nil {
			return err
		}
	}
	for _, obj := range f.objects[k.plural] {
		if e, is := obj.(*corev1.Event); is && fields != "reason="+e.Reason {
			continue
		}
		if p, is := obj.(*corev1.Pod); is && !strings.Contains(",status.podIP="+p.Status.PodIP+",spec.nodeName="+p.Spec.NodeName+",", ","+fields) {
			continue
		}
		if o := obj.DeepCopyObject(); namespace == "" || o.(metav1.Object).GetNamespace() == namespace {
			call(o)
		}
	}
	return nil
}

// ConfigMap reads one.
func (f *fake) ConfigMap(_ context.Context, key types.NamespacedName) (*corev1.ConfigMap, error) {
	if f.refuses != nil {
		if err := f.refuses("configmap", key.Namespace); err != nil {
			return nil, err
		}
	}
	for _, obj := range f.objects["configmaps"] {
		if cm := obj.(*corev1.ConfigMap); cm.Namespace == key.Namespace && cm.Name == key.Name {
			return cm.DeepCopy(), nil
		}
	}
	return nil, missing("configmaps")
}

// said is what a run has said.
type said struct {
	status   int
	out, err string
}

// webService is a manifest with which nothing is wrong. It is on standard input.
const webService = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"

// run runs the plugin against a cluster. The namespace of the user is team.
func run(t *testing.T, c cluster, args ...string) said {
	t.Helper()
	return runUntil(t.Context(), t, c, args...)
}

// runUntil runs it until it ends, or is interrupted.
func runUntil(ctx context.Context, t *testing.T, c cluster, args ...string) said {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, namespace: team}}]
current-context: c
`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	var out, errOut bytes.Buffer
	tool := &tool{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(webService), Out: &out, ErrOut: &errOut}, version: "v1",
		open: func(*tool) (cluster, error) { return c, nil }, openToMove: func(*tool) (mover, error) { return c.(mover), nil },
	}
	status := tool.run(ctx, args)
	return said{status, out.String(), errOut.String()}
}

// named is the metadata of an object.
func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// ingress serves all of a host.
func ingress(namespace, name, host string) runtime.Object {
	return &networkingv1.Ingress{ObjectMeta: named(namespace, name), Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{{Host: host}},
	}}
}

// twice is a cluster in which two Ingresses of the namespace team serve the same host.
func twice() *fake {
	return &fake{objects: map[string][]runtime.Object{"ingresses": {
		ingress("team", "a", "shop.example.com"), ingress("team", "b", "shop.example.com"), ingress("other", "c", "other.example.com"),
	}}}
}
