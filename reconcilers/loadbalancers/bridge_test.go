package loadbalancers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// handsTo has a Service hand over what it has.
func handsTo(heir string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHandOverTo, heir)
	}
}

// heirOf is the Service shop/heir, which asks for an address, and lists another one, "" for none.
func heirOf(address, listed string) *corev1.Service {
	svc := balancerAt("192.0.2.1")
	svc.Name, svc.UID = "heir", "h"
	asksFor(address)(svc)
	svc.Status.LoadBalancer.Ingress = nil
	if listed != "" {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: listed}}
	}
	return svc
}

// inherited is an address that shop/heir holds.
func inherited(ip string) *v1beta1.EdgeClaim {
	return claim.New(accesstest.AddressAt(ip), claim.Claimant{Holder: claim.ServiceHolder("shop", "heir"), UID: "h"})
}

// endpointOf is an endpoint of a Service in shop that is ready.
func endpointOf(name string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, NodeName: new("node0")}},
	}
}

// TestGiverStaysListedUntilItsHeirIs looks at a Service that has handed over the address which it lists.
func TestGiverStaysListedUntilItsHeirIs(t *testing.T) {
	const ip = "192.0.2.7"
	const six = "2001:db8::7"
	classless := func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }
	gone := func(svc *corev1.Service) {
		svc.DeletionTimestamp, svc.Finalizers = &metav1.Time{Time: accesstest.Noon}, []string{"a/b"}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		// heir lists an address, and is changed.
		listed     string
		changeHeir func(*corev1.Service)
		// endpoints are those of the two that have one that is ready.
		endpoints []string
		// late says that the heir was waited for long enough.
		late  bool
		want  string
		waits bool
	}{
		"the heir is not listed yet":              {want: ip, waits: true},
		"the heir is listed elsewhere":            {listed: "192.0.2.3", want: ip, waits: true},
		"the heir is listed":                      {listed: ip},
		"the heir is listed, and has no endpoint": {listed: ip, endpoints: []string{"web"}, want: ip, waits: true},
		"the heir has none, for too long":         {listed: ip, endpoints: []string{"web"}, late: true},
		"the heir is listed, both have endpoints": {listed: ip, endpoints: []string{"web", "heir"}},
		"the heir is not listed, for too long":    {late: true},
		"the heir is being deleted":               {changeHeir: gone},
		"the heir is no load balancer any longer": {changeHeir: func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }},
		"the giver is being deleted":              {change: gone, want: ip, waits: true},
		"it is being deleted, for too long":       {change: gone, late: true},
		"it no longer names its heir":             {change: handsTo(""), want: ip, waits: true},
		"it no longer names it, which is listed":  {change: handsTo(""), listed: ip, want: "192.0.2.0"},
		"the heir asks for any address":           {changeHeir: func(svc *corev1.Service) { svc.Annotations = nil }},
		"without a class":                         {change: classless, want: ip, waits: true},
		"without a class, and the heir is listed": {change: classless, listed: ip},
		"it keeps an address of another family": {want: ip + ", " + six, waits: true, change: func(svc *corev1.Service) {
			svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, corev1.IPv6Protocol)
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: six})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			giver, heir := balancerAt(ip), heirOf(ip, tc.listed)
			handsTo("shop/heir")(giver)
			if tc.change != nil {
				tc.change(giver)
			}
			if tc.changeHeir != nil {
				tc.changeHeir(heir)
			}
			all := copies(giver, heir, inherited(ip))
			if strings.Contains(tc.want, six) {
				all = append(all, onAddress(six), accesstest.PoolOf("six", "2001:db8::/120"))
			}
			for _, name := range tc.endpoints {
				all = append(all, endpointOf(name))
			}
			r := balancers(t, copies(all...), copies(all...))
			r.View.LoadBalancers.Options.ByDefault = true
			key := client.ObjectKeyFromObject(giver)
			if tc.late {
				r.bridges.since[key] = map[netip.Addr]time.Time{netip.MustParseAddr(ip): time.Now().Add(-DefaultHandOverWait)}
			}
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil {
				t.Fatal(err)
			}
			mustBeServedAt(t, r, giver, tc.want)
			if again := result.RequeueAfter; tc.waits && (again == 0 || again > bridgePoll) {
				t.Errorf("it is looked at again after %s", again)
			}
			if _, waits := r.bridges.since[key]; waits != (tc.waits || tc.late) {
				t.Errorf("it waits for its heir: %v", waits)
			}
			if held := ledgerOf(t, r); !strings.Contains(held, "addr.192-0-2-7 Service shop/heir") || strings.Contains(held, "192-0-2-0") != (giver.Annotations[v1beta1.AnnotationHandOverTo] == "") {
				t.Errorf("the ledger has %q", held)
			}
		})
	}
}

// TestEachAddressIsBridgedForItself has the heir of one address be awaited for too long, and that of another of the same Service not.
func TestEachAddressIsBridgedForItself(t *testing.T) {
	const four, six = "192.0.2.7", "2001:db8::7"
	giver, heir, heirOfSix := balancerAt(four), heirOf(four, ""), heirOf(six, "")
	giver.Spec.IPFamilies = append(giver.Spec.IPFamilies, corev1.IPv6Protocol)
	giver.Status.LoadBalancer.Ingress = append(giver.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: six})
	heirOfSix.Name, heirOfSix.UID, heirOfSix.Spec.IPFamilies = "other", "o", []corev1.IPFamily{corev1.IPv6Protocol}
	theirs := claim.New(accesstest.AddressAt(six), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	handsTo("shop/heir")(giver)
	all := copies(giver, heir, heirOfSix, inherited(four), theirs, accesstest.PoolOf("six", "2001:db8::/120"))
	r := balancers(t, copies(all...), copies(all...))
	key := client.ObjectKeyFromObject(giver)
	r.bridges.since[key] = map[netip.Addr]time.Time{netip.MustParseAddr(four): time.Now().Add(-DefaultHandOverWait)}
	lookAt(t, r, giver)
	mustBeServedAt(t, r, giver, six)
}

// TestHeirIsListedFirst has an heir take the address of a giver, which is told, and is listed no longer after that.
func TestHeirIsListedFirst(t *testing.T) {
	const ip = "192.0.2.7"
	giver, heir := balancerAt(ip), heirOf(ip, "")
	handsTo("shop/heir")(giver)
	all := copies(giver, heir, onAddress(ip))
	r := balancers(t, copies(all...), copies(all...))
	lookAt(t, r, heir)
	mustBeServedAt(t, r, heir, ip)
	mustBeServedAt(t, r, giver, ip)
	if held := ledgerOf(t, r); held != "addr.192-0-2-7 Service shop/heir" {
		t.Errorf("the ledger has %q", held)
	}
	told := lookAt(t, r, giver) // the cache does not show yet that the heir is listed
	mustBeServedAt(t, r, giver, ip)
	told = append(told, lookAt(t, r, giver)...)
	if len(told) != 1 || !strings.HasPrefix(told[0], "Normal HandedOver") {
		t.Errorf("it is told %q", told)
	}
	r.bridges.since[client.ObjectKeyFromObject(giver)] = map[netip.Addr]time.Time{netip.MustParseAddr(ip): time.Now().Add(-DefaultHandOverWait)}
	lookAt(t, r, giver)
	mustBeServedAt(t, r, giver, "")
}

// TestHandsOverAllOrNothing has an heir ask for two ports of an address, one of which its giver hands over, while another has the other one, or
// both together can't be had for a reason that only the ledger tells. The giver keeps its port, and is listed.
func TestHandsOverAllOrNothing(t *testing.T) {
	const ip = "192.0.2.7"
	portOf := func(svc string, port int32) *v1beta1.EdgeClaim {
		at := claim.AddressPort(netip.MustParseAddr(ip), "TCP", port)
		return claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", svc), UID: types.UID(svc)})
	}
	giver, heir := balancerAt(ip), heirOf(ip, "")
	handsTo("shop/heir")(giver)
	heir.Spec.Ports = append(heir.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 443})
	giver.Status.LoadBalancer.Ingress[0].Ports = []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}
	shared := accesstest.PoolOf("shared", ip)
	shared.Spec.Sharing = v1beta1.SharingPorts
	for name, seen := range map[string][]client.Object{
		"the cache shows it":         {portOf("web", 80), portOf("other", 443)},
		"the cache does not show it": {portOf("web", 80)},
		"it shows nothing":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			stored := copies(giver, heir, portOf("web", 80), portOf("other", 443))
			r := balancers(t, stored, copies(append(seen, giver, heir, shared)...))
			lookAt(t, r, heir)
			mustBeServedAt(t, r, heir, "")
			mustBeServedAt(t, r, giver, ip)
			if held := ledgerOf(t, r); !strings.Contains(held, "addr.192-0-2-7.tcp.80 Service shop/web") {
				t.Errorf("the ledger has %q", held)
			}
		})
	}
}

// TestGiverIsGivenNothingBack has a Service stay listed where it has handed its ports over, or some of them, while its heir is gone, and its
// claims are not yet, or it no longer names anybody: it enters nothing.
func TestGiverIsGivenNothingBack(t *testing.T) {
	const ip = "192.0.2.7"
	held := func(by string, port int32) *v1beta1.EdgeClaim {
		at := claim.AddressPort(netip.MustParseAddr(ip), "TCP", port)
		return claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", by), UID: types.UID(by)})
	}
	shared := accesstest.PoolOf("shared", ip)
	shared.Spec.Sharing = v1beta1.SharingPorts
	plain := func(*corev1.Service) {}
	classless := func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		ledger []*v1beta1.EdgeClaim
	}{
		"all":                                   {plain, []*v1beta1.EdgeClaim{held("heir", 80), held("heir", 443)}},
		"one":                                   {plain, []*v1beta1.EdgeClaim{held("heir", 80)}},
		"one, and it has the other":             {plain, []*v1beta1.EdgeClaim{held("heir", 80), held("web", 443)}},
		"all, without a class":                  {classless, []*v1beta1.EdgeClaim{held("heir", 80), held("heir", 443)}},
		"one, without a class":                  {classless, []*v1beta1.EdgeClaim{held("heir", 443)}},
		"one that it has no more, and no class": {func(svc *corev1.Service) { classless(svc); svc.Spec.Ports[0].Port = 81 }, []*v1beta1.EdgeClaim{held("heir", 80)}},
	} {
		t.Run(name, func(t *testing.T) {
			giver := balancerAt(ip)
			giver.Spec.Ports = append(giver.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 443})
			giver.Status.LoadBalancer.Ingress[0].Ports = []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}, {Port: 443, Protocol: corev1.ProtocolTCP}}
			handsTo("shop/heir")(giver)
			tc.change(giver)
			objects := []client.Object{giver, shared}
			for _, c := range tc.ledger {
				objects = append(objects, c)
			}
			r := balancers(t, copies(objects...), copies(objects...))
			r.View.LoadBalancers.Options.ByDefault = true
			before := ledgerOf(t, r)
			lookAt(t, r, giver)
			mustBeServedAt(t, r, giver, "")
			if after := ledgerOf(t, r); after != before {
				t.Errorf("the ledger has %q, had %q", after, before)
			}
		})
	}
}

// TestRivalIsToldOf has a Service hold an address by the cache and in the ledger, beside a port that another holds: for as long as both stand
// it waits, and is told for whom, instead of being looked at again at once.
func TestRivalIsToldOf(t *testing.T) {
	svc := unserved()
	asksFor("192.0.2.7")(svc)
	ours, theirs := onAddress("192.0.2.7"), claim.New(claim.AddressPort(netip.MustParseAddr("192.0.2.7"), "TCP", 443),
		claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	ours.CreationTimestamp, theirs.CreationTimestamp = metav1.NewTime(accesstest.Noon), metav1.NewTime(accesstest.Noon.Add(time.Minute))
	r := balancers(t, copies(svc, ours, theirs), copies(svc, ours))
	told := lookAt(t, r, svc)
	if len(told) != 1 || !strings.Contains(told[0], v1beta1.ReasonAddressConflict) || !strings.Contains(told[0], "Service shop/other") {
		t.Errorf("it is told %q", told)
	}
	pause := r.waiting.pause(client.ObjectKeyFromObject(svc))
	if told := lookAt(t, r, svc); len(told) > 0 {
		t.Errorf("it is told once more: %q", told)
	}
	if next := r.waiting.pause(client.ObjectKeyFromObject(svc)); next <= pause {
		t.Errorf("it is looked at again after %s, and then after %s", pause, next)
	}
	mustBeServedAt(t, r, svc, "")
}

// TestDeniedPortIsNotListed has a Service that is listed with one port of an address ask for another one, on which it has a claim by the cache
// and in the ledger, and beside which somebody else has the address: nodes would forward both ports, so that it is listed with neither.
func TestDeniedPortIsNotListed(t *testing.T) {
	const ip = "192.0.2.7"
	portOf := func(port int32) *v1beta1.EdgeClaim {
		c := claim.New(claim.AddressPort(netip.MustParseAddr(ip), "TCP", port), claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: "w"})
		c.CreationTimestamp = metav1.NewTime(accesstest.Noon)
		return c
	}
	svc := balancerAt(ip)
	asksFor(ip)(svc)
	svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 443})
	svc.Status.LoadBalancer.Ingress[0].Ports = []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}
	theirs := claim.New(accesstest.AddressAt(ip), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	theirs.CreationTimestamp = metav1.NewTime(accesstest.Noon.Add(time.Minute))
	shared := accesstest.PoolOf("shared", ip)
	shared.Spec.Sharing = v1beta1.SharingPorts
	r := balancers(t, copies(svc, portOf(80), portOf(443), theirs), copies(svc, portOf(80), portOf(443), shared))
	told := lookAt(t, r, svc)
	mustBeServedAt(t, r, svc, "")
	if len(told) == 0 || !strings.Contains(strings.Join(told, " "), v1beta1.ReasonPortConflict) {
		t.Errorf("it is told %q", told)
	}
}

// TestDeniedGiverStaysListed has a Service that has handed an address over be denied another one by the ledger: it stays listed at the first
// until its heir is.
func TestDeniedGiverStaysListed(t *testing.T) {
	const four, six = "192.0.2.7", "2001:db8::7"
	giver, heir := balancerAt(four), heirOf(four, "")
	giver.Spec.IPFamilies = append(giver.Spec.IPFamilies, corev1.IPv6Protocol)
	metav1.SetMetaDataAnnotation(&giver.ObjectMeta, v1beta1.AnnotationAddresses, six)
	ours := claim.New(accesstest.AddressAt(six), claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: "w"})
	theirs := claim.New(claim.AddressPort(netip.MustParseAddr(six), "TCP", 443), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	ours.CreationTimestamp, theirs.CreationTimestamp = metav1.NewTime(accesstest.Noon), metav1.NewTime(accesstest.Noon.Add(time.Minute))
	all := copies(giver, heir, inherited(four), ours, accesstest.PoolOf("six", "2001:db8::/120"))
	r := balancers(t, append(copies(all...), theirs), copies(all...))
	lookAt(t, r, giver)
	mustBeServedAt(t, r, giver, four)
}

// TestBridgeEndsWithTheClass has a Service that stays listed where its heir is about to be no longer be one that Portcullis serves.
func TestBridgeEndsWithTheClass(t *testing.T) {
	const ip = "192.0.2.7"
	for name, want := range map[string]string{"it stays listed for its heir": "", "another lists it": ip} {
		t.Run(name, func(t *testing.T) {
			giver := balancerAt(ip)
			giver.Spec.LoadBalancerClass = new("example.com/other")
			r := balancers(t, copies(giver, inherited(ip)), copies(giver, inherited(ip)))
			key := client.ObjectKeyFromObject(giver)
			if want == "" {
				r.bridges.left(key, netip.MustParseAddr(ip))
			}
			lookAt(t, r, giver)
			mustBeServedAt(t, r, giver, want)
			if keys := r.bridges.at(netip.MustParseAddr(ip)); len(keys) > 0 {
				t.Errorf("%v wait for their heirs", keys)
			}
		})
	}
}

// TestLostLedgerGivesNothingAway has a Service that is about to hand over what it has be found listed, with an empty ledger.
func TestLostLedgerGivesNothingAway(t *testing.T) {
	const ip = "192.0.2.7"
	for name, class := range map[string]*string{"ours": new(v1beta1.LoadBalancerClass), "none": nil} {
		t.Run("class "+name, func(t *testing.T) {
			giver := balancerAt(ip)
			giver.Spec.LoadBalancerClass = class
			handsTo("shop/heir")(giver)
			r := balancers(t, copies(giver), copies(giver))
			r.View.LoadBalancers.Options.ByDefault = true
			lookAt(t, r, giver)
			mustBeServedAt(t, r, giver, ip)
			if held := ledgerOf(t, r); held != "addr.192-0-2-7 Service shop/web" {
				t.Errorf("the ledger has %q", held)
			}
		})
	}
}

// TestOvertakenIsNotForeign has a Service without a class, which Portcullis has served, no longer name the heir that has its address: it is
// not taken for one that another controller serves, and asks as anybody does.
func TestOvertakenIsNotForeign(t *testing.T) {
	giver := balancerAt("192.0.2.7")
	giver.Spec.LoadBalancerClass = nil
	all := copies(giver, inherited("192.0.2.7"))
	r := balancers(t, copies(all...), copies(all...))
	r.View.LoadBalancers.Options.ByDefault = true
	lookAt(t, r, giver)
	mustBeServedAt(t, r, giver, "192.0.2.0")
}

// TestMergedStatus holds that what stays keeps its place.
func TestMergedStatus(t *testing.T) {
	entries := func(text string) (all []corev1.LoadBalancerIngress) {
		for ip := range strings.FieldsSeq(text) {
			all = append(all, corev1.LoadBalancerIngress{IP: ip})
		}
		return all
	}
	for name, tc := range map[string]struct{ now, next, stay, want string }{
		"nothing else":  {"192.0.2.7", "", "192.0.2.7", "192.0.2.7"},
		"before":        {"192.0.2.7 2001:db8::7", "2001:db8::7", "192.0.2.7", "192.0.2.7 2001:db8::7"},
		"behind":        {"2001:db8::7 192.0.2.7", "2001:db8::7", "192.0.2.7", "2001:db8::7 192.0.2.7"},
		"one comes":     {"192.0.2.7", "2001:db8::8", "192.0.2.7", "192.0.2.7 2001:db8::8"},
		"another goes":  {"192.0.2.7 2001:db8::7", "", "192.0.2.7", "192.0.2.7"},
		"it is to stay": {"192.0.2.7", "192.0.2.7", "192.0.2.7", "192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, i := range merged(entries(tc.now), entries(tc.next), []netip.Addr{netip.MustParseAddr(tc.stay)}) {
				got = append(got, i.IP)
			}
			if !slices.Equal(got, strings.Fields(tc.want)) {
				t.Errorf("it is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestBothSidesAreLookedAt holds that an heir is looked at when it is named, and when a claim becomes its, and a giver when the heir is listed.
func TestBothSidesAreLookedAt(t *testing.T) {
	const ip = "192.0.2.7"
	silent, giver, heir, listed := balancerAt(ip), balancerAt(ip), heirOf(ip, ""), heirOf(ip, ip)
	handsTo("shop/heir")(giver)
	other := giver.DeepCopy()
	handsTo("shop/other")(other)
	for name, tc := range map[string]struct {
		before, now client.Object
		want        []string
	}{
		"it is named":                {silent, giver, []string{"heir"}},
		"another was named":          {other, giver, []string{"heir"}},
		"it was named before":        {giver, giver, nil},
		"it is named no longer":      {giver, silent, nil},
		"it is listed":               {heir, listed, []string{"web"}},
		"it was listed before":       {listed, listed, nil},
		"it is listed no longer":     {listed, heir, nil},
		"it has the claim":           {onAddress(ip), inherited(ip), []string{"heir", "web"}},
		"the claim is the giver's":   {onAddress(ip), onAddress(ip), nil},
		"the heir is as it was":      {inherited(ip), inherited(ip), nil},
		"the giver has it once more": {inherited(ip), onAddress(ip), []string{"heir", "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := balancers(t, nil, copies(giver, listed, inherited(ip)))
			r.bridges.left(client.ObjectKeyFromObject(giver), netip.MustParseAddr(ip))
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			on := r.onListing()
			if _, isClaim := tc.before.(*v1beta1.EdgeClaim); isClaim {
				on = r.onClaim()
			}
			on.Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.now}, q)
			var got []string
			for q.Len() > 0 {
				request, _ := q.Get()
				got = append(got, request.Name)
				q.Done(request)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("looked at are %q, want %q", got, tc.want)
			}
		})
	}
}
