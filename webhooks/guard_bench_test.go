package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

const (
	// manyListeners is how many listeners a ListenerSet has that asks.
	manyListeners = 16
	// hostsPort is the port that listeners share by host name.
	hostsPort = 443
	// firstListen is the first port that ListenerSets of the world have for themselves; those below are free, but for hostsPort.
	firstListen = 20000
)

// BenchmarkGuard measures decisions on ListenerSets of one Gateway, which others have made. There are as many as is said, with two claims
// each.
func BenchmarkGuard(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		w := guardWorld(b, n)
		v := listenerGuard{view: w.view, ledger: w.ledger, actions: guard.Actions{guard.ListenerSet: guard.Deny}}
		hook := guarding(v, guard.ListenerSet, v.set)
		fresh, late := listenerSet(team(0), "fresh"), listenerSet(team(1), "late")
		for i := range manyListeners / 2 {
			addListeners(fresh, fmt.Sprintf("fresh-%d.example.com", i), int32(8000+i)) //nolint:gosec // small
		}
		addListeners(late, "late.example.com", firstListen)
		b.Run(fmt.Sprintf("decision/sets=%d", n), func(b *testing.B) {
			decideAll(b, admissionv1.Create, true, func(ctx context.Context) error {
				problems, err := judgeSet(ctx, v, fresh)
				if len(problems) > 0 {
					return problems[0].Err
				}
				return err
			})
		})
		b.Run(fmt.Sprintf("create/sets=%d", n), func(b *testing.B) {
			asked, err := v.setRequest(asking(b, admissionv1.Create), nil, fresh)
			if err != nil {
				b.Fatal(err)
			}
			decideAll(b, admissionv1.Create, true, func(ctx context.Context) error {
				_, err := hook.ValidateCreate(ctx, fresh)
				for _, at := range asked.Points() {
					w.claims.Drop(at.Name())
				}
				return err
			})
		})
		b.Run(fmt.Sprintf("refusal/sets=%d", n), func(b *testing.B) {
			decideAll(b, admissionv1.Create, false, func(ctx context.Context) error {
				_, err := hook.ValidateCreate(ctx, late)
				return err
			})
		})
	}
}

// judgeSet judges a ListenerSet as a request does, and claims nothing.
func judgeSet(ctx context.Context, v listenerGuard, set *gatewayv1.ListenerSet) (refusal.Problems, error) {
	request, err := v.setRequest(ctx, nil, set)
	if err != nil || request == nil {
		return nil, cmp.Or(err, errors.New("nobody asks for anything"))
	}
	return kube.Decide(ctx, kube.LiveReader{View: v.view}, func(f *kube.Facts) refusal.Problems {
		return guard.Judge(f, request, v.ledger.GraceLeft)
	})
}

// guardWorld is a world of n ListenerSets of other namespaces on one Gateway, with a host name and a port each, and of a class that names the
// Gateway.
func guardWorld(b *testing.B, n int) *world {
	b.Helper()
	gateway := sharedGateway()
	class := &v1beta1.StreamIngressClass{ObjectMeta: meta("", worldClass)}
	class.Spec.Gateway = &v1beta1.ObjectReference{Namespace: gateway.Namespace, Name: gateway.Name}
	class.Spec.Reserved = []v1beta1.PortRange{{From: 22}}
	objects := []client.Object{gateway, class}
	var claims []*v1beta1.EdgeClaim
	key := client.ObjectKeyFromObject(gateway)
	claims = append(claims, claim.New(claim.Listener(key, claim.HTTPListener, hostsPort),
		claim.Claimant{Holder: claim.GatewayHolder(key.Namespace, key.Name)}))
	for i := range n {
		set := listenerSet(team(i), fmt.Sprintf("set-%d", i))
		addListeners(set, fmt.Sprintf("app-%d.example.com", i), int32(firstListen+i)) //nolint:gosec // small
		objects = append(objects, set)
		o := guard.OfListenerSet(set, key)
		for _, l := range o.Listeners {
			for _, at := range l.Points(key) {
				claims = append(claims, claim.New(at, o.Claimant))
			}
		}
	}
	w := newWorld(b, objects, claims)
	w.view.Gateways.Guard(guard.Actions{guard.Gateway: guard.Deny, guard.ListenerSet: guard.Deny})
	for err := w.view.Gateways.Read(b.Context()); err != nil; err = w.view.Gateways.Read(b.Context()) {
		if !kube.IsUnread(err) {
			b.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	return w
}

// sharedGateway is a Gateway that lets all namespaces attach ListenerSets.
func sharedGateway() *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{ObjectMeta: meta("edge", "shared")}
	g.Spec.Listeners = []gatewayv1.Listener{{Name: "web", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	g.Spec.AllowedListeners = &gatewayv1.AllowedListeners{
		Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)},
	}
	return g
}

// listenerSet is one of the shared Gateway, without listeners.
func listenerSet(namespace, name string) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: meta(namespace, name)}
	gateway := sharedGateway()
	set.Spec.ParentRef.Namespace = ptr.To(gatewayv1.Namespace(gateway.Namespace))
	set.Spec.ParentRef.Name = gatewayv1.ObjectName(gateway.Name)
	return set
}

// addListeners adds a listener for a host name, and one for a port.
func addListeners(set *gatewayv1.ListenerSet, host string, port int32) {
	i := len(set.Spec.Listeners)
	set.Spec.Listeners = append(set.Spec.Listeners,
		gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(fmt.Sprintf("l-%d", i)), Port: hostsPort, Protocol: gatewayv1.TLSProtocolType,
			Hostname: ptr.To(gatewayv1.Hostname(host)),
		},
		gatewayv1.ListenerEntry{Name: gatewayv1.SectionName(fmt.Sprintf("l-%d", i+1)), Port: port, Protocol: gatewayv1.TCPProtocolType},
	)
}
