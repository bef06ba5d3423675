package guards

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/harness"
	"jeffthecoder.xyz/portcullis/test/memory"
)

// hostsOf is a reconciler of host names, with routes guarded, by a cache of some objects and a ledger of some claims.
func hostsOf(t *testing.T, objects []client.Object, claims ...*v1beta1.EdgeClaim) (*hostReconciler, *events.FakeRecorder) {
	t.Helper()
	cached, err := memory.Cache(harness.Scheme(), kube.CacheOptions(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	if err := kube.AddIndexes(t.Context(), cached); err != nil {
		t.Fatal(err)
	}
	if err := kube.AddExposureIndexes(t.Context(), cached, kube.Exposing{}); err != nil {
		t.Fatal(err)
	}
	view, err := kube.NewView(t.Context(), cached, cached)
	if err != nil {
		t.Fatal(err)
	}
	actions := guard.Actions{guard.HTTPRoute: guard.Deny}
	view.Gateways.IndexBy(cached)
	view.Gateways.Guard(actions)
	view.Hosts.Guarded = actions
	if err := memory.Fill(t.Context(), cached, view.Synced); err != nil {
		t.Fatal(err)
	}
	for err := view.Gateways.Read(t.Context()); err != nil; err = view.Gateways.Read(t.Context()) {
		if !kube.IsUnread(err) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	ledger := kube.NewLedger(nil, nil, view, claim.Ledger{Grace: claim.DefaultGrace})
	ledger.Store = claim.NewFake(claims...)
	told := events.NewFakeRecorder(10)
	return &hostReconciler{Access: access.Access{View: view, Ledger: ledger, Events: told}, losers: newLosers(guard.HTTPRoute)}, told
}

// TestLosersAreToldOnceItIsKnown has two namespaces serve one path. While the cache does not show yet who has it, nobody is told.
func TestLosersAreToldOnceItIsKnown(t *testing.T) {
	all := gatewayv1.NamespacesFromAll
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "edge", UID: "edge", ResourceVersion: "1"}}
	gateway.Spec.Listeners = []gatewayv1.Listener{{
		Name: "web", Protocol: gatewayv1.HTTPProtocolType, Port: 80,
		AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
	}}
	route := func(namespace string, age time.Duration) client.Object {
		created := metav1.NewTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC).Add(-age))
		o := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web", UID: types.UID(namespace), ResourceVersion: "1", CreationTimestamp: created,
		}}
		o.Spec.Hostnames, o.Spec.Rules = []gatewayv1.Hostname{"a.test"}, []gatewayv1.HTTPRouteRule{{}}
		o.Spec.ParentRefs = []gatewayv1.ParentReference{{Namespace: new(gatewayv1.Namespace("infra")), Name: "edge"}}
		return o
	}
	at := claim.HTTP("a.test", "/").OnGateway(client.ObjectKeyFromObject(gateway))
	blogs := claim.New(at, claim.Claimant{Holder: claim.NamespaceHolder("blog"), UID: "blog"})
	blogs.ResourceVersion = "1"
	both := []client.Object{gateway, route("shop", time.Hour), route("blog", 0)}
	for name, tc := range map[string]struct {
		cached []client.Object
		claims []*v1beta1.EdgeClaim
		again  time.Duration
		told   int
		holder string
	}{
		"nobody has it": {cached: both, told: 1, holder: "Namespace shop"},
		"one has it":    {cached: append([]client.Object{blogs.DeepCopy()}, both...), claims: []*v1beta1.EdgeClaim{blogs}, told: 1, holder: "Namespace blog"},
		"one has it, and the cache shows nothing": {cached: both, claims: []*v1beta1.EdgeClaim{blogs}, again: gather, holder: "Namespace blog"},
	} {
		t.Run(name, func(t *testing.T) {
			r, told := hostsOf(t, tc.cached, tc.claims...)
			result, err := r.Reconcile(t.Context(), watch.ForName("a.test"))
			if err != nil || result.RequeueAfter != tc.again || len(told.Events) != tc.told || r.losers.any() != (tc.told > 0) {
				t.Errorf("%d are told, the next look is after %v, %v", len(told.Events), result.RequeueAfter, err)
			}
			held, err := r.Ledger.Store.Get(t.Context(), at.Name())
			if err != nil || held == nil || claim.HolderOf(held).String() != tc.holder {
				t.Errorf("it is held by %+v, %v", held, err)
			}
		})
	}
}
