package kube

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// slowGrants lists one ReferenceGrant when it is told to.
type slowGrants struct {
	listed chan struct{}
	grant  gatewayv1beta1.ReferenceGrant
}

func (s slowGrants) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	<-s.listed
	return &gatewayv1beta1.ReferenceGrantList{
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []gatewayv1beta1.ReferenceGrant{s.grant},
	}, nil
}

func (slowGrants) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func (s slowGrants) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s slowGrants) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

func (slowGrants) IsWatchListSemanticsUnSupported() bool { return true }

// TestALateKindIsReadBeforeItIsJudgedBy asks for a consent, of a kind that nothing has asked for so far, while it is still
// being read: it does not pass for missing.
func TestALateKindIsReadBeforeItIsJudgedBy(t *testing.T) {
	grants := slowGrants{listed: make(chan struct{})}
	grants.grant.Namespace, grants.grant.Name = "data", "streams"
	grants.grant.Spec.From = []gatewayv1beta1.ReferenceGrantFrom{{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: "shop"}}
	grants.grant.Spec.To = []gatewayv1beta1.ReferenceGrantTo{{Kind: "Service"}}
	kind := schema.GroupVersionKind{Group: gatewayv1beta1.GroupName, Version: "v1beta1", Kind: "ReferenceGrant"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	c, err := cache.New(&rest.Config{Host: "https://nowhere.invalid"}, cache.Options{
		Scheme: scheme(t), Mapper: mapper, HTTPClient: http.DefaultClient, DefaultTransform: slim,
		NewInformer: func(
			_ toolscache.ListerWatcher, of runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(grants, of, resync, indexers)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Start(t.Context()) }()
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not start")
	}
	v := &View{Consents: newConsents(c)}
	service := types.NamespacedName{Namespace: "data", Name: "db"}
	early, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if granted, err := v.Granted(early, "shop", service); err == nil {
		t.Errorf("before it is read, the consent is given: %v", granted)
	}
	close(grants.listed)
	if granted, err := v.Granted(t.Context(), "shop", service); err != nil || !granted {
		t.Errorf("when it is read, the consent is given: %v, %v", granted, err)
	}
}
