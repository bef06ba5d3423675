// Package accesstest has clusters of fake clients for the tests of reconcilers, and the objects that they have in common.
package accesstest

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/test/memory"
)

// cached is a cache of what is in a client.
type cached struct {
	*informertest.FakeInformers
	client client.Client
}

var _ cache.Cache = cached{}

func (c cached) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := obj.(*metav1.PartialObjectMetadata); ok {
		obj = &corev1.Namespace{} // the fake knows typed objects only
	}
	return c.FakeInformers.GetInformer(ctx, obj, opts...)
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.client.Get(ctx, key, obj, opts...)
}

func (c cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.client.List(ctx, list, opts...)
}

// Indexer hands indexes on to a client that is being built.
type Indexer struct{ *fake.ClientBuilder }

// IndexField adds an index to the client.
func (i Indexer) IndexField(_ context.Context, obj client.Object, name string, value client.IndexerFunc) error {
	i.WithIndex(obj, name, value)
	return nil
}

// Cluster begins a client of a cluster that has some objects, with the indexes of the product.
func Cluster(t testing.TB, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1beta1.AddToScheme, gatewayv1beta1.Install,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := errors.Join(kube.AddIndexes(t.Context(), Indexer{b}), memory.Select(t.Context(), Indexer{b})); err != nil {
		t.Fatal(err)
	}
	return b
}

// With is what reconcilers need, on a client, whose cache never lags.
func With(t testing.TB, c client.Client) access.Access {
	t.Helper()
	b, _ := On(t, c, c)
	return b
}

// On is what reconcilers need, with a cache that shows what is in seen while there is stored what is in stored. What
// follows the cache by its events is told by the informers.
func On(t testing.TB, seen, stored client.Client) (access.Access, *informertest.FakeInformers) {
	t.Helper()
	informers := &informertest.FakeInformers{Scheme: seen.Scheme()}
	return Told(t, informers, seen, stored), informers
}

// Told is what reconcilers need, with informers of the test.
func Told(t testing.TB, informers *informertest.FakeInformers, seen, stored client.Client) access.Access {
	t.Helper()
	v, err := kube.NewView(t.Context(), cached{informers, seen}, stored)
	if err != nil {
		t.Fatal(err)
	}
	return access.Access{
		View: v, Ledger: kube.NewLedger(stored, stored, v, claim.Ledger{Grace: claim.DefaultGrace}), Writer: stored, Live: stored,
		Events: events.NewFakeRecorder(10), Kinds: kube.NewKinds(AllKinds{}, logr.Discard()),
	}
}

// AllKinds is an API server where all kinds are installed.
type AllKinds struct{ client.Reader }

// Get finds every kind.
func (AllKinds) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// Of is what reconcilers need, in a cluster with these objects.
func Of(t testing.TB, objects ...client.Object) access.Access {
	t.Helper()
	return With(t, Cluster(t, objects...).Build())
}

// GoingKinds is an API server where all kinds are being deleted.
type GoingKinds struct{ client.Reader }

// Get finds every kind with a deletion timestamp.
func (GoingKinds) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetDeletionTimestamp(&metav1.Time{Time: Noon})
	return nil
}
