package claims

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestConcernedByGateways finds who has what the Gateway API gives, once that is read.
func TestConcernedByGateways(t *testing.T) {
	gateway := types.NamespacedName{Namespace: "infra", Name: "edge"}
	var objects []client.Object
	for at, by := range map[claim.Coordinate]claim.Holder{
		claim.HTTP("a.test", "/").OnGateway(gateway): claim.NamespaceHolder("paths"),
		claim.Hostname("a.test"):                     claim.NamespaceHolder("names"),
		claim.HTTP("a.test", "/"):                    claim.IngressHolder("shop", "web"),
		accesstest.PointOfPostgres:                   accesstest.HolderOfPostgres,
	} {
		objects = append(objects, accesstest.Claimed(at, by, "u", 1, accesstest.Noon))
	}
	var got []string
	for _, req := range concernedByGateways(t.Context(), accesstest.Of(t, objects...).View) {
		got = append(got, req.Holder.String())
	}
	slices.Sort(got)
	if text := strings.Join(got, ", "); text != "Namespace names, Namespace paths" {
		t.Errorf("looked at are %s", text)
	}
}

// laterLooks is a queue that tells what is to be looked at, and after how long.
type laterLooks struct {
	claimQueue
	after map[claimRequest]time.Duration
}

func (q laterLooks) Add(req claimRequest) { q.after[req] = 0 }

func (q laterLooks) AddAfter(req claimRequest, after time.Duration) { q.after[req] = after }

// TestManyRoutesGoAtOnce has one look at a namespace be for all of its routes that go, and none be for what changes nothing of paths.
func TestManyRoutesGoAtOnce(t *testing.T) {
	r := newClaimReconciler(accesstest.Of(t), claimTestOptions())
	q := laterLooks{after: map[claimRequest]time.Duration{}}
	route := func(uid types.UID, generation int64, path string) *gatewayv1.HTTPRoute {
		o := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid, Generation: generation}}
		o.Spec.Rules = []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: &path}}}}}
		return o
	}
	update := func(before, after client.Object) {
		r.onHostUser().Update(context.Background(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	}
	update(route("a", 1, "/"), route("a", 2, "/"))
	if len(q.after) > 0 {
		t.Errorf("a change of something else is looked at: %v", q.after)
	}
	update(route("a", 1, "/"), route("a", 2, "/a"))
	update(route("a", 1, "/"), route("b", 1, "/"))
	for _, uid := range []types.UID{"b", "c", "d"} {
		r.onHostUser().Delete(t.Context(), event.DeleteEvent{Object: route(uid, 1, "/")}, q)
	}
	shop := claimRequest{Holder: claim.NamespaceHolder("shop")}
	if len(q.after) != 1 || q.after[shop] != mergeRoutes {
		t.Errorf("looked at is %v", q.after)
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "i"}}
	ingress.Spec.Rules = []networkingv1.IngressRule{{Host: "a.test"}}
	r.onHostUser().Delete(t.Context(), event.DeleteEvent{Object: ingress}, q)
	shop.Gone = "i"
	if after, looks := q.after[shop]; !looks || after != 0 {
		t.Errorf("once an Ingress is gone, looked at is %v", q.after)
	}
}

// TestATenantsListenerSetChanges looks at the namespaces alone whose routes name it: a Gateway has any number of others. Many changes, and
// claims that come, are looked at once.
func TestATenantsListenerSetChanges(t *testing.T) {
	edge := types.NamespacedName{Namespace: "infra", Name: "edge"}
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: edge.Namespace, Name: edge.Name, UID: "edge", ResourceVersion: "1", Generation: 1}}
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "doors", UID: "doors", ResourceVersion: "1", Generation: 1}}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: new(gatewayv1.Namespace(edge.Namespace)), Name: gatewayv1.ObjectName(edge.Name)}
	route := func(namespace string, on gatewayv1.ParentReference) client.Object {
		o := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: types.UID(namespace), ResourceVersion: "1"}}
		o.Spec.ParentRefs = []gatewayv1.ParentReference{on}
		return o
	}
	onGateway := gatewayv1.ParentReference{Namespace: new(gatewayv1.Namespace(edge.Namespace)), Name: gatewayv1.ObjectName(edge.Name)}
	onSet := gatewayv1.ParentReference{Namespace: new(gatewayv1.Namespace("shop")), Kind: new(gatewayv1.Kind("ListenerSet")), Name: "doors"}
	objects := []client.Object{gateway, set, route("blog", onGateway), route("shop", onSet), route("wiki", onSet)}
	var claims []*v1beta1.EdgeClaim
	for i, namespace := range []string{"blog", "shop", "shop"} {
		at := claim.HTTP("a.test", fmt.Sprintf("/%d", i)).OnGateway(edge)
		claims = append(claims, claim.New(at, claim.Claimant{Holder: claim.NamespaceHolder(namespace)}))
		claims[i].ResourceVersion = "1"
		objects = append(objects, claims[i].DeepCopy())
	}
	view := accesstest.Guarding(t, guard.Actions{guard.HTTPRoute: guard.Deny}, objects...)
	r := newClaimReconciler(access.Access{View: view}, claimTestOptions())
	changed := func(before, after client.Object) client.Object {
		after.SetGeneration(before.GetGeneration() + 1)
		return after
	}
	for name, tc := range map[string]struct {
		happens func(claimQueue)
		want    []string
	}{
		"the set is changed": {func(q claimQueue) {
			r.onHostParent().Update(t.Context(), event.UpdateEvent{ObjectOld: set, ObjectNew: changed(set, set.DeepCopy())}, q)
		}, []string{"shop", "wiki"}},
		"the set is gone": {func(q claimQueue) { r.onHostParent().Delete(t.Context(), event.DeleteEvent{Object: set}, q) }, []string{"shop", "wiki"}},
		"the Gateway is changed": {func(q claimQueue) {
			r.onHostParent().Update(t.Context(), event.UpdateEvent{ObjectOld: gateway, ObjectNew: changed(gateway, gateway.DeepCopy())}, q)
		}, []string{"blog", "shop"}},
		"its status is": {func(q claimQueue) {
			r.onHostParent().Update(t.Context(), event.UpdateEvent{ObjectOld: gateway, ObjectNew: gateway.DeepCopy()}, q)
		}, nil},
		"claims come": {func(q claimQueue) {
			for _, c := range claims {
				r.onClaim().Create(t.Context(), event.CreateEvent{Object: c}, q)
			}
		}, []string{"blog", "shop"}},
	} {
		q := laterLooks{after: map[claimRequest]time.Duration{}}
		tc.happens(q)
		want := map[claimRequest]time.Duration{}
		for _, namespace := range tc.want {
			want[claimRequest{Holder: claim.NamespaceHolder(namespace)}] = mergeRoutes
		}
		if !maps.Equal(q.after, want) {
			t.Errorf("when %s, looked at is %v", name, q.after)
		}
	}
}
