package guards

import (
	"strings"
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
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// hostsOf is a reconciler of host names, with routes guarded, by a cache of some objects and a ledger of some claims.
func hostsOf(t *testing.T, objects []client.Object, claims ...*v1beta1.EdgeClaim) (*hostReconciler, *events.FakeRecorder) {
	t.Helper()
	view := accesstest.Guarding(t, guard.Actions{guard.HTTPRoute: guard.Deny}, objects...)
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
		told   bool
		holder string
	}{
		"nobody has it": {cached: both, told: true, holder: "Namespace shop"},
		"one has it":    {cached: append([]client.Object{blogs.DeepCopy()}, both...), claims: []*v1beta1.EdgeClaim{blogs}, told: true, holder: "Namespace blog"},
		"one has it, and the cache shows nothing": {cached: both, claims: []*v1beta1.EdgeClaim{blogs}, again: gather, holder: "Namespace blog"},
	} {
		t.Run(name, func(t *testing.T) {
			r, told := hostsOf(t, tc.cached, tc.claims...)
			result, err := r.Reconcile(t.Context(), watch.ForName("a.test"))
			if err != nil || result.RequeueAfter != tc.again || r.losers.any() != tc.told {
				t.Errorf("that somebody loses is known: %v, the next look is after %v, %v", r.losers.any(), result.RequeueAfter, err)
			}
			var notes []string
			for len(told.Events) > 0 {
				notes = append(notes, <-told.Events)
			}
			want := "Warning HostConflict path / on host a.test of Gateway infra/edge is held by " + tc.holder
			const end = "; the Gateway serves both, or the older of the two: choose another host or path"
			if tc.told != (len(notes) == 1) || tc.told && (!strings.HasPrefix(notes[0], want) || !strings.HasSuffix(notes[0], end)) {
				t.Errorf("told is %q", notes)
			}
			held, err := r.Ledger.Store.Get(t.Context(), at.Name())
			if err != nil || held == nil || claim.HolderOf(held).String() != tc.holder {
				t.Errorf("it is held by %+v, %v", held, err)
			}
		})
	}
}
