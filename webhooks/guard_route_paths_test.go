package webhooks

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// TestRoutePathsAreTakenBack has a route refused for a name that it gives to external-dns, after its path was claimed.
func TestRoutePathsAreTakenBack(t *testing.T) {
	all := gatewayv1.NamespacesFromAll
	gateway := &gatewayv1.Gateway{ObjectMeta: meta(team(0), "edge")}
	gateway.Spec.Listeners = []gatewayv1.Listener{{
		Name: "web", Protocol: gatewayv1.HTTPProtocolType, Port: 80,
		AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
	}}
	policy := &v1beta1.HostPolicy{ObjectMeta: meta("", "dns")}
	policy.Spec.Hosts, policy.Spec.Sharing = []string{"*.dns.test"}, v1beta1.ShareNamespace
	theirs := claim.New(claim.Hostname("a.dns.test"), claim.Claimant{Holder: claim.NamespaceHolder(team(2)), UID: "theirs"})
	held := claim.HTTP("a.test", "/").OnGateway(client.ObjectKeyFromObject(gateway))
	for name, tc := range map[string]struct {
		dns     string
		fails   error
		refused bool
		left    bool
	}{
		"what is allowed is claimed":         {left: true},
		"what is refused is taken back":      {dns: "a.dns.test", refused: true},
		"that it can't be changes no answer": {dns: "a.dns.test", fails: errors.New("no"), refused: true, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []client.Object{gateway.DeepCopy(), policy.DeepCopy()}, []*v1beta1.EdgeClaim{theirs.DeepCopy()})
			actions := guard.Actions{guard.HTTPRoute: guard.Deny, guard.ExternalDNS: guard.Deny}
			w.view.Hosts.Guarded = actions
			w.view.Gateways.Guard(actions)
			for err := w.view.Gateways.Read(t.Context()); err != nil; err = w.view.Gateways.Read(t.Context()) {
				if !kube.IsUnread(err) {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
			}
			if tc.fails != nil {
				w.ledger.Store = undeletable{w.ledger.Store, tc.fails}
			}
			v := hostGuard{
				listenerGuard: listenerGuard{view: w.view, ledger: w.ledger, actions: actions}, kind: guard.HTTPRoute,
				of:       schema.GroupKind{Group: gatewayv1.GroupName, Kind: "HTTPRoute"},
				resource: schema.GroupResource{Group: gatewayv1.GroupName, Resource: "httproutes"},
			}
			route := &gatewayv1.HTTPRoute{ObjectMeta: meta(team(1), "web")}
			route.UID, route.ResourceVersion = types.UID("new"), ""
			route.Spec.Hostnames, route.Spec.Rules = []gatewayv1.Hostname{"a.test"}, []gatewayv1.HTTPRouteRule{{}}
			route.Spec.ParentRefs = []gatewayv1.ParentReference{{Namespace: new(gatewayv1.Namespace(team(0))), Name: "edge"}}
			if tc.dns != "" {
				route.Annotations = map[string]string{v1beta1.AnnotationExternalDNS: tc.dns}
			}
			warnings, err := v.validate(t.Context(), nil, route)
			if apierrors.IsInvalid(err) != tc.refused || !tc.refused && err != nil || len(warnings) > 0 {
				t.Errorf("it is told %v, %v", warnings, err)
			}
			if left, err := w.claims.Get(t.Context(), held.Name()); (left != nil) != tc.left {
				t.Errorf("the path is held by %v, %v", left, err)
			}
		})
	}
}

// undeletable is a store from which nothing is taken back.
type undeletable struct {
	claim.Store
	err error
}

func (s undeletable) Delete(context.Context, *v1beta1.EdgeClaim) error { return s.err }
