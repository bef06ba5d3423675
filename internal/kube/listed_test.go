package kube

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// served is the Service shop/<name>, served at an address on some ports.
func served(name, address string, ports ...int32) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	for _, port := range ports {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: port})
	}
	request, _ := loadbalancer.RequestOf(svc)
	svc.Status.LoadBalancer.Ingress = loadbalancer.Served([]netip.Addr{netip.MustParseAddr(address)}, corev1.LoadBalancerIPModeVIP, request.Ports)
	return svc
}

// servedByOthers is a Service of another class.
func servedByOthers(name, address string, ports ...int32) *corev1.Service {
	svc := served(name, address, ports...)
	svc.Spec.LoadBalancerClass = new("example.com/other")
	return svc
}

// TestAddressesFollowStatuses has Services be served where nobody has a claim.
func TestAddressesFollowStatuses(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: scheme(t)}
	a, err := newAddresses(t.Context(), cached{FakeInformers: informers})
	if err != nil {
		t.Fatal(err)
	}
	events, err := informers.FakeInformerFor(t.Context(), &corev1.Service{})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := informers.FakeInformerFor(t.Context(), &v1beta1.EdgeClaim{})
	if err != nil {
		t.Fatal(err)
	}
	set := addressSet(t, "192.0.2.1-192.0.2.2")
	free := func(whole, on80, on443 string) {
		t.Helper()
		gotWhole, _ := a.Free(set, corev1.IPv4Protocol)
		got80, _ := a.FreePorts(set, corev1.IPv4Protocol, []stream.PortKey{tcp80})
		got443, _ := a.FreePorts(set, corev1.IPv4Protocol, []stream.PortKey{tcp443})
		if gotWhole.String() != whole || got80.String() != on80 || got443.String() != on443 {
			t.Errorf("free are %s, %s for TCP/80, and %s for TCP/443; want %s, %s, %s", gotWhole, got80, got443, whole, on80, on443)
		}
	}
	const one, two, none = "192.0.2.1", "192.0.2.2", "invalid IP"
	free(one, one, one)
	web, dns := served("web", one, 80), served("dns", one, 443)
	events.Add(web)
	free(two, two, two)
	if a.Assigned(set) != 0 {
		t.Error("what is listed counts as assigned")
	}
	if a.Assume(whole(one)) || !a.Assume(whole(two)) {
		t.Error("what is listed can be assumed, or what is not can't")
	}
	a.Forget(whole(two))

	t.Log("once anything of it is claimed, it is taken by its ports")
	claimed.Add(addressClaim(portAt(one, tcp80)))
	free(two, two, one)
	events.Add(dns)
	free(two, two, two)
	claimed.Add(addressClaim(portAt(two, stream.PortKey{Protocol: v1beta1.UDP, Port: 53})))
	moved := served("dns", two, 443)
	events.Update(dns, moved)
	free(none, two, one)
	events.Update(moved, served("dns", two, 80))
	free(none, none, one)
	a.list(toolscache.DeletedFinalStateUnknown{Obj: served("dns", two, 80)}, nil)
	claimed.Delete(addressClaim(portAt(two, stream.PortKey{Protocol: v1beta1.UDP, Port: 53})))
	free(two, two, one)

	t.Log("what is no load balancer, or of another class, lists nothing")
	events.Add(servedByOthers("others", one, 80))
	inside := served("web", one, 80)
	inside.Spec.Type = corev1.ServiceTypeClusterIP
	events.Update(web, inside)
	claimed.Delete(addressClaim(portAt(one, tcp80)))
	free(one, one, one)
	a.list(nil, "something else")
	if len(a.listed.at)+len(a.listed.ports) > 0 {
		t.Errorf("left are %v and %v", a.listed.at, a.listed.ports)
	}
}

// TestListing asks who is served at an address without having claimed that. The cache is believed only that there is nobody.
func TestListing(t *testing.T) {
	const ip = "192.0.2.1"
	theirs := func(at claim.Coordinate) *v1beta1.EdgeClaim {
		return claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: "u"})
	}
	foreign := servedByOthers("web", ip, 80)
	for name, tc := range map[string]struct {
		seen []client.Object
		now  *corev1.Service
		want int
	}{
		"one":                          {[]client.Object{served("web", ip, 80)}, served("web", ip, 80), 1},
		"one that moved a moment ago":  {[]client.Object{served("web", ip, 80)}, served("web", "192.0.2.2", 80), 0},
		"one that went a moment ago":   {[]client.Object{served("web", ip, 80)}, nil, 0},
		"one that is not seen yet":     {nil, served("web", ip, 80), 0},
		"one of another class":         {[]client.Object{foreign}, foreign, 0},
		"one that has claimed it":      {[]client.Object{served("web", ip, 80), theirs(whole(ip))}, served("web", ip, 80), 0},
		"one that has its port":        {[]client.Object{served("web", ip, 80), theirs(portAt(ip, tcp80))}, served("web", ip, 80), 0},
		"one that has one of two":      {[]client.Object{served("web", ip, 80, 443), theirs(portAt(ip, tcp80))}, served("web", ip, 80, 443), 1},
		"one that has it of the nodes": {[]client.Object{served("web", ip, 80), theirs(claim.NodePort("TCP", 80))}, served("web", ip, 80), 0},
		"one that has another":         {[]client.Object{served("web", ip, 80), theirs(whole("192.0.2.2"))}, served("web", ip, 80), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []client.Object
			if tc.now != nil {
				stored = append(stored, tc.now)
			}
			c := clientOf(t, tc.seen...).Build()
			away := false
			live := clientOf(t, stored...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if away {
						return errAway
					}
					return c.Get(ctx, key, obj, opts...)
				},
			}).Build()
			v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, live)
			if err != nil {
				t.Fatal(err)
			}
			ask := func() ([]*corev1.Service, error) {
				return Decide(t.Context(), v, func(f *Facts) []*corev1.Service { return f.Listing(netip.MustParseAddr(ip)) })
			}
			if listing, err := ask(); err != nil || len(listing) != tc.want {
				t.Errorf("there are %d, %v, want %d", len(listing), err, tc.want)
			}
			away = true
			if _, err := ask(); tc.want > 0 && !errors.Is(err, errAway) {
				t.Errorf("while the API server is away: %v", err)
			}
		})
	}
}
