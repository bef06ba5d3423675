package kube

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
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

// nodeAt is a node that takes traffic at an address.
func nodeAt(ip string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}, Conditions: readyNode,
	}}
}

// TestAddressesFollowStatuses has Services be served where nobody has a claim.
func TestAddressesFollowStatuses(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: scheme(t)}
	options := &LoadBalancers{}
	a, err := newAddresses(t.Context(), cached{FakeInformers: informers}, options.IsOurs)
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

	t.Log("nor does what has no class, unless it is ours by default")
	unclassed := served("unclassed", one, 80)
	unclassed.Spec.LoadBalancerClass = nil
	events.Add(unclassed)
	free(one, one, one)
	options.Options.ByDefault = true
	events.Delete(unclassed)
	events.Add(unclassed)
	free(two, two, two)
	events.Delete(unclassed)

	t.Log("what is listed before the cache shows its claims is known by what was assumed")
	a.Assume(portAt(one, tcp80))
	events.Add(served("web", one, 80))
	free(two, two, one)
	a.Forget(portAt(one, tcp80))
	free(two, two, two)

	t.Log("what several list they share")
	events.Add(served("other", one, 80))
	free(two, two, one)
	events.Delete(served("other", one, 80))
	free(two, two, two)
	events.Delete(served("web", one, 80))
	if len(a.listed.at)+len(a.listed.ports) > 0 {
		t.Errorf("left are %v and %v", a.listed.at, a.listed.ports)
	}
}

// TestListing asks who is served at an address without having claimed that. The cache is believed, but for who would be refused for it.
func TestListing(t *testing.T) {
	const ip = "192.0.2.1"
	theirs := func(at claim.Coordinate) *v1beta1.EdgeClaim {
		return claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: "u"})
	}
	foreign := servedByOthers("web", ip, 80)
	several := served("web", ip, 80)
	several.Status.LoadBalancer.Ingress = append(several.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "192.0.2.3"})
	onNode, notReady, excluded := nodeAt(ip), nodeAt(ip), nodeAt(ip)
	notReady.Status.Conditions = nil
	excluded.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
	for name, tc := range map[string]struct {
		seen                  []client.Object
		now                   *corev1.Service
		want, onNodes, stills int
	}{
		"one":                         {[]client.Object{served("web", ip, 80)}, served("web", ip, 80), 1, 0, 1},
		"one that moved a moment ago": {[]client.Object{served("web", ip, 80)}, served("web", "192.0.2.2", 80), 1, 0, 0},
		"one that went a moment ago":  {[]client.Object{served("web", ip, 80)}, nil, 1, 0, 0},
		"one that is not ours now":    {[]client.Object{served("web", ip, 80)}, foreign, 1, 0, 0},
		"one that is not seen yet":    {nil, served("web", ip, 80), 0, 0, 0},
		"one of another class":        {[]client.Object{foreign}, foreign, 0, 0, 0},
		"one that has claimed it":     {[]client.Object{served("web", ip, 80), theirs(whole(ip))}, served("web", ip, 80), 0, 0, 0},
		"one that has its port":       {[]client.Object{served("web", ip, 80), theirs(portAt(ip, tcp80))}, served("web", ip, 80), 0, 0, 0},
		"one that has one of two":     {[]client.Object{served("web", ip, 80, 443), theirs(portAt(ip, tcp80))}, served("web", ip, 80, 443), 1, 0, 1},
		"one that has another":        {[]client.Object{served("web", ip, 80), theirs(whole("192.0.2.2"))}, served("web", ip, 80), 1, 0, 1},

		"one at a node":                       {[]client.Object{onNode, served("web", ip, 80)}, served("web", ip, 80), 1, 1, 2},
		"one at a node that is not ready":     {[]client.Object{notReady, served("web", ip, 80)}, served("web", ip, 80), 1, 1, 2},
		"one at a node that is excluded":      {[]client.Object{excluded, served("web", ip, 80)}, served("web", ip, 80), 1, 1, 2},
		"one at a node on another port":       {[]client.Object{onNode, served("web", ip, 443)}, served("web", ip, 443), 1, 0, 1},
		"one that has the port of the node":   {[]client.Object{onNode, served("web", ip, 80), theirs(claim.NodePort("TCP", 80))}, served("web", ip, 80), 0, 0, 0},
		"one with a port of no node":          {[]client.Object{served("web", ip, 80), theirs(claim.NodePort("TCP", 80))}, served("web", ip, 80), 1, 0, 1},
		"one at several nodes":                {[]client.Object{several}, several, 0, 1, 1},
		"one that left the nodes":             {[]client.Object{several}, served("web", "192.0.2.2", 80), 0, 1, 0},
		"one that has its port at the nodes":  {[]client.Object{several, theirs(claim.NodePort("TCP", 80))}, several, 0, 0, 0},
		"one that has another of their ports": {[]client.Object{several, theirs(claim.NodePort("TCP", 443))}, several, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []client.Object
			if tc.now != nil {
				stored = append(stored, tc.now)
			}
			c := clientOf(t, tc.seen...).Build()
			reads := 0
			live := clientOf(t, stored...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					reads++
					return c.Get(ctx, key, obj, opts...)
				},
			}).Build()
			v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, live)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(from Reader) (want, onNodes, stills int) {
				all, err := Decide(t.Context(), from, func(f *Facts) []int {
					at, node, stills := portAt(ip, tcp80), claim.NodePort("TCP", 80), 0
					listing, onNodes := f.Listing(at.Address()), f.ListingOnNodes(node)
					for _, svc := range listing {
						if f.StillLists(svc, at) {
							stills++
						}
					}
					for _, svc := range onNodes {
						if f.StillLists(svc, node) {
							stills++
						}
					}
					return []int{len(listing), len(onNodes), stills}
				})
				if err != nil {
					t.Fatal(err)
				}
				return all[0], all[1], all[2]
			}
			if want, onNodes, stills := ask(v); want != tc.want || onNodes != tc.onNodes || stills != want+onNodes || reads > 0 {
				t.Errorf("by the cache, %d list the address, and %d the nodes, of which %d do still, after %d reads; want %d and %d", want, onNodes, stills, reads, tc.want, tc.onNodes)
			}
			if want, onNodes, stills := ask(LiveReader{v}); want != tc.want || onNodes != tc.onNodes || stills != tc.stills || reads > 1 {
				t.Errorf("%d list the address, and %d the nodes, of which %d do still, after %d reads; want %d, %d and %d", want, onNodes, stills, reads, tc.want, tc.onNodes, tc.stills)
			}
		})
	}
}

// TestListingAsksByName asks who lists an address that many list: no more is read for that than claims by their names, whether they hold it or
// not, and the nodes once.
func TestListingAsksByName(t *testing.T) {
	const ip = "192.0.2.1"
	for held, wantNodes := range map[bool]int{true: 0, false: 1} {
		var seen []client.Object
		for port := range int32(5) {
			svc := served(fmt.Sprint("web-", port), ip, 80+port)
			seen = append(seen, svc)
			if held {
				at := portAt(ip, stream.PortKey{Protocol: v1beta1.TCP, Port: 80 + port})
				seen = append(seen, claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", svc.Name), UID: "u"}))
			}
		}
		claims, nodes := 0, 0
		c := clientOf(t, seen...).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				switch list.(type) {
				case *v1beta1.EdgeClaimList:
					claims++
				case *corev1.NodeList:
					nodes++
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()
		v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, c)
		if err != nil {
			t.Fatal(err)
		}
		listing, err := v.LoadBalancers.Listing(t.Context(), netip.MustParseAddr(ip))
		if want := map[bool]int{true: 0, false: 5}[held]; err != nil || len(listing) != want || claims > 0 || nodes != wantNodes {
			t.Errorf("held %v: %d list it, want %d, after %d lists of claims and %d of nodes, want %d: %v", held, len(listing), want, claims, nodes, wantNodes, err)
		}
	}
}

// TestListedKeys has a Service be served at many nodes: it is found by its ports, not by each node.
func TestListedKeys(t *testing.T) {
	svc := served("web", "2001:db8::1", 80, 443)
	svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "192.0.2.1"}, corev1.LoadBalancerIngress{IP: "192.0.2.2"})
	if keys, want := listedKeys(svc), []string{"2001:db8::1", "node.tcp.80", "node.tcp.443"}; !slices.Equal(keys, want) {
		t.Errorf("the keys are %v, want %v", keys, want)
	}
	a := emptyAddresses(clock.RealClock{})
	a.listed.isOurs = func(*corev1.Service) bool { return true }
	a.list(nil, svc)
	if len(a.listed.at) != 1 || len(a.listed.ports) != 2 {
		t.Errorf("listed are %v and %v", a.listed.at, a.listed.ports)
	}
	same := svc.DeepCopy()
	same.Labels, same.Status.LoadBalancer.Ingress[0].IPMode = map[string]string{"a": "b"}, nil
	if !ServesAlike(svc, same) {
		t.Error("a label has it served elsewhere")
	}
	for what, change := range map[string]func(*corev1.Service){
		"an address": func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = s.Status.LoadBalancer.Ingress[1:] },
		"a port":     func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[1:] },
		"its type":   func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP },
		"its class":  func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil },
	} {
		changed := svc.DeepCopy()
		change(changed)
		if ServesAlike(svc, changed) {
			t.Errorf("without %s it is served alike", what)
		}
	}
}

// TestListingAmong asks the ledger only of the Services that it is about, of all that list one address.
func TestListingAmong(t *testing.T) {
	const ip = "192.0.2.1"
	reads := 0
	c := clientOf(t, served("one", ip, 80), served("two", ip, 81), served("three", ip, 82)).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, c)
	if err != nil {
		t.Fatal(err)
	}
	for name, among := range map[string]func(*corev1.Service) bool{
		"two": func(svc *corev1.Service) bool { return svc.Name == "two" },
		"":    func(*corev1.Service) bool { return false },
	} {
		reads = 0
		listing, err := v.LoadBalancers.ListingAmong(t.Context(), whole(ip).Address(), among)
		if err != nil || len(listing) > 0 != (name != "") || len(listing) > 0 && listing[0].Name != name {
			t.Errorf("%q: it is listed by %v, %v", name, listing, err)
		}
		if reads > 0 != (name != "") || reads > 2 {
			t.Errorf("%q: the ledger is asked %d times", name, reads)
		}
	}
}
