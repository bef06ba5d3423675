package stream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// podsOfShop are the Pods that there are, by namespace and name.
var podsOfShop = map[string]*corev1.Pod{
	"shop/db-0":   podAt("shop", "db-0", corev1.PodRunning, "10.0.0.7", "2001:db8::7"),
	"shop/db-1":   podAt("shop", "db-1", corev1.PodPending, "10.0.0.8"),
	"shop/done":   podAt("shop", "done", corev1.PodSucceeded, "10.0.0.9"),
	"shop/failed": podAt("shop", "failed", corev1.PodFailed, "10.0.0.9"),
	"shop/ending": ending(podAt("shop", "ending", corev1.PodRunning, "10.0.0.10")),
	"shop/new":    podAt("shop", "new", corev1.PodPending),
	"team/db-0":   podAt("team", "db-0", corev1.PodRunning, "10.0.1.7"),
}

// podAt is a Pod with addresses; its UID is its name.
func podAt(namespace, name string, phase corev1.PodPhase, ips ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	pod.Status.Phase = phase
	for _, ip := range ips {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return pod
}

func ending(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = new(metav1.Now())
	return pod
}

// endpointOf is an endpoint of a Pod of shop.
func endpointOf(pod string, addresses ...string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: addresses, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: pod, UID: types.UID(pod)}}
}

// referring is an endpoint at 10.0.0.7 that refers to something else than the Pod that is there.
func referring(change func(*corev1.ObjectReference)) discoveryv1.Endpoint {
	e := endpointOf("db-0", "10.0.0.7")
	change(e.TargetRef)
	return e
}

// sliceOf is an EndpointSlice of shop/db with the port sql.
func sliceOf(name string, family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: family, Endpoints: endpoints}
	s.Namespace, s.Name, s.Labels = "shop", name, map[string]string{discoveryv1.LabelServiceName: "db"}
	s.Ports = []discoveryv1.EndpointPort{
		{Name: new("stats"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(9187))},
		{Name: new("sql"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(15432)), AppProtocol: new("postgresql")},
	}
	return s
}

// sourceOf is the Service shop/db with slices; nothing outside may be led to.
func sourceOf(slices ...*discoveryv1.EndpointSlice) MirrorSource {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	svc.Spec.Ports = []corev1.ServicePort{
		{Name: "stats", Protocol: corev1.ProtocolTCP, Port: 9187},
		{Name: "sql-udp", Protocol: corev1.ProtocolUDP, Port: 5432},
		{Name: "sql", Protocol: corev1.ProtocolTCP, Port: 5432},
	}
	return MirrorSource{
		Service: svc, Port: 5432, Slices: slices,
		Pod:     func(key types.NamespacedName) *corev1.Pod { return podsOfShop[key.String()] },
		Outside: func(string) string { return "the class leads nowhere outside" },
	}
}

// tcp5432 is the port that leads there.
var tcp5432 = PortKey{Protocol: v1beta1.TCP, Port: 5432}

// addressesOf are the addresses of each endpoint that is written.
func addressesOf(m Mirrored) (all []string) {
	for i := range m.Slices {
		for _, e := range m.Slices[i].Endpoints {
			all = append(all, strings.Join(e.Addresses, " "))
		}
	}
	return all
}

// TestMirrorAddresses has a row for every rule of what an endpoint may be.
func TestMirrorAddresses(t *testing.T) {
	const v4, v6, fqdn = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN
	const noPod = "no Pod of namespace shop has this address, and the class leads nowhere outside"
	bare := func(addresses ...string) discoveryv1.Endpoint { return discoveryv1.Endpoint{Addresses: addresses} }
	for name, tc := range map[string]struct {
		family   discoveryv1.AddressType
		endpoint discoveryv1.Endpoint
		want     []string
		// says is why it is left out.
		says string
		// withOutside is what there is where everything outside may be led to.
		withOutside []string
	}{
		"a Pod's address":               {v4, endpointOf("db-0", "10.0.0.7"), []string{"10.0.0.7"}, "", []string{"10.0.0.7"}},
		"a Pod's other address":         {v6, endpointOf("db-0", "2001:db8::7"), []string{"2001:db8::7"}, "", []string{"2001:db8::7"}},
		"written in another way":        {v6, endpointOf("db-0", "2001:DB8:0::7"), []string{"2001:db8::7"}, "", []string{"2001:db8::7"}},
		"written twice":                 {v6, endpointOf("db-0", "2001:DB8:0::7", "2001:db8::7"), []string{"2001:db8::7"}, "", []string{"2001:db8::7"}},
		"a Pod that starts":             {v4, endpointOf("db-1", "10.0.0.8"), []string{"10.0.0.8"}, "", []string{"10.0.0.8"}},
		"a Pod that is being deleted":   {v4, endpointOf("ending", "10.0.0.10"), []string{"10.0.0.10"}, "", []string{"10.0.0.10"}},
		"a Pod that has ended":          {v4, endpointOf("done", "10.0.0.9"), nil, "10.0.0.9: " + noPod, []string{"10.0.0.9"}},
		"a Pod that has failed":         {v4, endpointOf("failed", "10.0.0.9"), nil, "10.0.0.9: " + noPod, []string{"10.0.0.9"}},
		"a Pod without an address yet":  {v4, endpointOf("new", "10.0.0.7"), nil, "10.0.0.7: " + noPod, []string{"10.0.0.7"}},
		"the address of another Pod":    {v4, endpointOf("db-0", "10.0.0.8"), nil, "10.0.0.8: " + noPod, []string{"10.0.0.8"}},
		"the Pod of another namespace":  {v4, endpointOf("db-0", "10.0.1.7"), nil, "10.0.1.7: " + noPod, []string{"10.0.1.7"}},
		"a Pod that is not there":       {v4, endpointOf("gone", "10.0.0.7"), nil, "10.0.0.7: " + noPod, []string{"10.0.0.7"}},
		"no reference":                  {v4, bare("10.0.0.7"), nil, "10.0.0.7: " + noPod, []string{"10.0.0.7"}},
		"some of the addresses":         {v4, endpointOf("db-0", "10.96.0.1", "10.0.0.7"), []string{"10.0.0.7"}, "", []string{"10.96.0.1 10.0.0.7"}},
		"none of the addresses":         {v4, endpointOf("db-0", "10.96.0.2", "10.96.0.1"), nil, "10.96.0.2: " + noPod, []string{"10.96.0.2 10.96.0.1"}},
		"no address":                    {v4, endpointOf("db-0"), nil, "an endpoint has no address", nil},
		"an IPv6 address among IPv4":    {v4, endpointOf("db-0", "2001:db8::7"), nil, "2001:db8::7: it is in an EndpointSlice of IPv4 addresses", nil},
		"an IPv4 address among IPv6":    {v6, endpointOf("db-0", "10.0.0.7"), nil, "10.0.0.7: it is in an EndpointSlice of IPv6 addresses", nil},
		"an IPv4 address as IPv6":       {v6, endpointOf("db-0", "::ffff:10.0.0.7"), nil, "::ffff:10.0.0.7: it is an IPv4 address that is written as IPv6", nil},
		"an address with a zone":        {v6, bare("fe80::1%eth0"), nil, `"fe80::1%eth0": it has a zone, which means something on one node only`, nil},
		"no address at all":             {v4, bare("10.0.0.07\n"), nil, `"10.0.0.07\n": it is no IP address`, nil},
		"an empty address":              {v4, bare(""), nil, `"": it is no IP address`, nil},
		"a name":                        {fqdn, endpointOf("db-0", "db.example.com"), nil, `"db.example.com": the kernel forwards to addresses only`, nil},
		"an address among names":        {fqdn, endpointOf("db-0", "10.0.0.7"), nil, "10.0.0.7: the kernel forwards to addresses only", nil},
		"an address of no type":         {"", endpointOf("db-0", "10.0.0.7"), nil, "10.0.0.7: the kernel forwards to addresses only", nil},
		"a reference without namespace": {v4, referring(func(r *corev1.ObjectReference) { r.Namespace = "" }), []string{"10.0.0.7"}, "", []string{"10.0.0.7"}},
		"a reference without UID":       {v4, referring(func(r *corev1.ObjectReference) { r.UID = "" }), []string{"10.0.0.7"}, "", []string{"10.0.0.7"}},
		"a reference to an earlier Pod": {v4, referring(func(r *corev1.ObjectReference) { r.UID = "old" }), nil, "10.0.0.7: " + noPod, []string{"10.0.0.7"}},
		"a reference elsewhere":         {v4, referring(func(r *corev1.ObjectReference) { r.Namespace = "team" }), nil, "10.0.0.7: " + noPod, []string{"10.0.0.7"}},
		"a reference to another kind":   {v4, referring(func(r *corev1.ObjectReference) { r.Kind = "Node" }), nil, "10.0.0.7: " + noPod, []string{"10.0.0.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			from := sourceOf(sliceOf("db-a", tc.family, tc.endpoint))
			m := Mirror("sti", tcp5432, from)
			if diff := cmp.Diff(tc.want, addressesOf(m)); diff != "" {
				t.Error(diff)
			}
			want, leftOut := "", 0
			if tc.says != "" {
				want, leftOut = "1 of 1 endpoints of Service shop/db are left out: "+tc.says, 1
			}
			if m.LeftOut != leftOut || m.Text() != want {
				t.Errorf("left out %d: got %q, want %q", m.LeftOut, m.Text(), want)
			}
			from.Outside = func(string) string { return "" }
			if diff := cmp.Diff(tc.withOutside, addressesOf(Mirror("sti", tcp5432, from))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMirrorPorts has a row for every rule of which port is found.
func TestMirrorPorts(t *testing.T) {
	udp, sctp := corev1.ProtocolUDP, corev1.ProtocolSCTP
	of := func(ports ...discoveryv1.EndpointPort) func(*MirrorSource) {
		return func(from *MirrorSource) { from.Slices[0].Ports = ports }
	}
	unnamed := func(from *MirrorSource) {
		from.Service.Spec.Ports = []corev1.ServicePort{{Port: 5432}}
		from.Slices[0].Ports = []discoveryv1.EndpointPort{{Port: new(int32(15432))}}
	}
	for name, tc := range map[string]struct {
		port   PortKey
		change func(*MirrorSource)
		// want is the port that is written, empty for no slice.
		want string
	}{
		"the port of the name":            {tcp5432, nil, "tcp-5432 TCP 15432"},
		"another port of the proxy":       {PortKey{v1beta1.TCP, 7000}, nil, "tcp-7000 TCP 15432"},
		"no protocol is TCP":              {PortKey{Port: 5432}, nil, "tcp-5432 TCP 15432"},
		"no protocol anywhere":            {tcp5432, unnamed, "tcp-5432 TCP 15432"},
		"an empty name and none":          {tcp5432, func(from *MirrorSource) { unnamed(from); from.Slices[0].Ports[0].Name = new("") }, "tcp-5432 TCP 15432"},
		"UDP, which the slice has not":    {PortKey{v1beta1.UDP, 5432}, nil, ""},
		"UDP":                             {PortKey{v1beta1.UDP, 53}, of(discoveryv1.EndpointPort{Name: new("sql-udp"), Protocol: &udp, Port: new(int32(53))}), "udp-53 UDP 53"},
		"the name with another protocol":  {tcp5432, of(discoveryv1.EndpointPort{Name: new("sql"), Protocol: &sctp, Port: new(int32(1))}), ""},
		"no number":                       {tcp5432, of(discoveryv1.EndpointPort{Name: new("sql")}), ""},
		"a number that is too small":      {tcp5432, of(discoveryv1.EndpointPort{Name: new("sql"), Port: new(int32(0))}), ""},
		"a number that is negative":       {tcp5432, of(discoveryv1.EndpointPort{Name: new("sql"), Port: new(int32(-1))}), ""},
		"a number that is too large":      {tcp5432, of(discoveryv1.EndpointPort{Name: new("sql"), Port: new(int32(65536))}), ""},
		"the largest number":              {tcp5432, of(discoveryv1.EndpointPort{Name: new("sql"), Port: new(int32(65535))}), "tcp-5432 TCP 65535"},
		"no ports":                        {tcp5432, of(), ""},
		"a port that the Service has not": {tcp5432, func(from *MirrorSource) { from.Port = 5433 }, ""},
		"no Service":                      {tcp5432, func(from *MirrorSource) { from.Service = nil }, ""},
		"a slice that is nil":             {tcp5432, func(from *MirrorSource) { from.Slices = append(from.Slices, nil) }, "tcp-5432 TCP 15432"},
		"no slices":                       {tcp5432, func(from *MirrorSource) { from.Slices = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from := sourceOf(sliceOf("db-a", discoveryv1.AddressTypeIPv4, endpointOf("db-0", "10.0.0.7")))
			if tc.change != nil {
				tc.change(&from)
			}
			m, got := Mirror("sti", tc.port, from), ""
			for i := range m.Slices {
				for _, p := range m.Slices[i].Ports {
					got += fmt.Sprintf("%s %s %d", *p.Name, *p.Protocol, *p.Port)
				}
			}
			if got != tc.want || m.LeftOut != 0 || m.Text() != "" {
				t.Errorf("got %q, left out: %q, want %q", got, m.Text(), tc.want)
			}
		})
	}
}

// fullEndpoint is an endpoint of a Pod with all fields.
func fullEndpoint() discoveryv1.Endpoint {
	e := endpointOf("db-0", "10.0.0.7")
	e.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	e.Hostname, e.NodeName, e.Zone = new("db-0"), new("node-1"), new("zone-1")
	e.DeprecatedTopology = map[string]string{"rack": "1"}
	e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone-1"}}, ForNodes: []discoveryv1.ForNode{{Name: "node-1"}}}
	return e
}

// TestMirrorWrites shows all that is written for one endpoint, and that it is no part of what it was made from.
func TestMirrorWrites(t *testing.T) {
	from := sourceOf(sliceOf("db-a", discoveryv1.AddressTypeIPv4, fullEndpoint()))
	before := from.Slices[0].DeepCopy()
	m := Mirror("sti", tcp5432, from)
	want := discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("tcp-5432"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(15432))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.7"}, NodeName: new("node-1"), Zone: new("zone-1"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)},
			Hints: &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: "zone-1"}}, ForNodes: []discoveryv1.ForNode{{Name: "node-1"}},
			},
		}},
	}
	want.Name = "sti-a42085aea0eccee8f9b0976b897d06d5"
	if diff := cmp.Diff([]discoveryv1.EndpointSlice{want}, m.Slices); diff != "" {
		t.Error(diff)
	}
	e, p := &m.Slices[0].Endpoints[0], &m.Slices[0].Ports[0]
	e.Addresses[0], *e.NodeName, *e.Zone, e.Hints.ForZones[0].Name, e.Hints.ForNodes[0].Name = "x", "x", "x", "x", "x"
	*e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating = true, false, false
	*p.Name, *p.Protocol, *p.Port = "x", "x", 1
	if diff := cmp.Diff(before, from.Slices[0]); diff != "" {
		t.Error("the slice that it was made from is another one now", diff)
	}
}

// TestMirrorFollowsSlices splits what the upstream has over more slices, and merges it again.
func TestMirrorFollowsSlices(t *testing.T) {
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	first, second, outside := endpointOf("db-0", "10.0.0.7"), endpointOf("db-1", "10.0.0.8"), endpointOf("db-0", "10.96.0.1")
	one := Mirror("sti", tcp5432, sourceOf(sliceOf("db-a", v4, first, second)))
	two := Mirror("sti", tcp5432, sourceOf(sliceOf("db-b", v4, second), sliceOf("db-a", v4, first)))
	both := Mirror("sti", tcp5432, sourceOf(sliceOf("db-a", v4, first), sliceOf("db-c", v6, endpointOf("db-0", "2001:db8::7"))))
	refused := Mirror("sti", tcp5432, sourceOf(sliceOf("db-a", v4, first), sliceOf("db-b", v4, outside)))
	if len(one.Slices) != 1 || len(two.Slices) != 2 || len(both.Slices) != 2 || len(refused.Slices) != 1 {
		t.Fatalf("got %d, %d, %d and %d slices", len(one.Slices), len(two.Slices), len(both.Slices), len(refused.Slices))
	}
	names := func(m Mirrored) (all []string) {
		for i := range m.Slices {
			all = append(all, m.Slices[i].Name)
		}
		return all
	}
	for _, m := range []Mirrored{one, two, both, refused} {
		if all := names(m); !slices.Contains(all, one.Slices[0].Name) || !slices.IsSorted(all) {
			t.Errorf("the one of db-a, %s, is not in %v, or they are in no order", one.Slices[0].Name, all)
		}
	}
	if families := []discoveryv1.AddressType{both.Slices[0].AddressType, both.Slices[1].AddressType}; !slices.Contains(families, v4) || !slices.Contains(families, v6) {
		t.Errorf("got the families %v", families)
	}
	if other := Mirror("other", tcp5432, sourceOf(sliceOf("db-a", v4, first))); !strings.HasPrefix(other.Slices[0].Name, "other-") {
		t.Errorf("for another Service: %s", other.Slices[0].Name)
	}
}

// TestMirrorOfMany has 2,500 endpoints of three slices in any order, a fifth of them outside, and one slice with more endpoints than
// the API lets one have.
func TestMirrorOfMany(t *testing.T) {
	pods := map[string]*corev1.Pod{}
	source := func(shuffle *rand.Rand) MirrorSource {
		var all []*discoveryv1.EndpointSlice
		for s, n := range []int{1000, 1000, 500} {
			slice := sliceOf(fmt.Sprintf("db-%d", s), discoveryv1.AddressTypeIPv4)
			for i := range n {
				name, ip := fmt.Sprintf("many-%d-%d", s, i), fmt.Sprintf("10.%d.%d.%d", s, i/250, i%250)
				pods[name] = podAt("shop", name, corev1.PodRunning, ip)
				if i%5 == 0 {
					name = "none"
				}
				slice.Endpoints = append(slice.Endpoints, endpointOf(name, ip))
			}
			shuffle.Shuffle(n, func(i, j int) { e := slice.Endpoints; e[i], e[j] = e[j], e[i] })
			all = append(all, slice)
		}
		shuffle.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		from := sourceOf(all...)
		from.Pod = func(key types.NamespacedName) *corev1.Pod { return pods[key.Name] }
		return from
	}
	first := Mirror("sti", tcp5432, source(rand.New(rand.NewPCG(0, 1))))
	if len(first.Slices) != 3 || len(addressesOf(first)) != 2000 || first.LeftOut != 500 {
		t.Fatalf("got %d slices with %d endpoints, %d left out", len(first.Slices), len(addressesOf(first)), first.LeftOut)
	}
	for seed := range uint64(5) {
		again := Mirror("sti", tcp5432, source(rand.New(rand.NewPCG(1, seed))))
		if diff := cmp.Diff(first, again, cmp.AllowUnexported(Mirrored{})); diff != "" || again.Text() != first.Text() {
			t.Error("in another order it is another one", diff, again.Text())
		}
	}
	const why = ": no Pod of namespace shop has this address, and the class leads nowhere outside"
	want := "500 of 2500 endpoints of Service shop/db are left out: 10.0.0.0" + why + "; 10.0.0.100" + why + "; 10.0.0.105" + why + "; and 497 more"
	if diff := cmp.Diff(want, first.Text()); diff != "" {
		t.Error(diff)
	}

	large := sliceOf("db-a", discoveryv1.AddressTypeIPv4)
	for i := range 1002 {
		large.Endpoints = append(large.Endpoints, endpointOf("", fmt.Sprintf("10.1.%d.%d", i/250, i%250)))
	}
	from := sourceOf(large)
	from.Outside = func(string) string { return "" }
	m := Mirror("sti", tcp5432, from)
	if len(m.Slices[0].Endpoints) != 1000 || m.LeftOut != 2 || !strings.Contains(m.Text(), "10.1.4.0: an EndpointSlice has at most 1000 endpoints") {
		t.Errorf("got %d endpoints: %s", len(m.Slices[0].Endpoints), m.Text())
	}
}

// TestMirrorOrder has endpoints with one address that differ in other things, in any order.
func TestMirrorOrder(t *testing.T) {
	endpoints := make([]discoveryv1.Endpoint, 4)
	for i := range endpoints {
		endpoints[i] = fullEndpoint()
	}
	endpoints[1].NodeName, endpoints[2].Conditions.Ready, endpoints[3].Hints = new("node-0"), nil, nil
	first := Mirror("sti", tcp5432, sourceOf(sliceOf("db-a", discoveryv1.AddressTypeIPv4, endpoints...)))
	slices.Reverse(endpoints)
	second := Mirror("sti", tcp5432, sourceOf(sliceOf("db-a", discoveryv1.AddressTypeIPv4, endpoints...)))
	if diff := cmp.Diff(first.Slices, second.Slices); diff != "" {
		t.Error(diff)
	}
}

// TestMirrorNil gives nothing at all, or nobody to ask.
func TestMirrorNil(t *testing.T) {
	if m := Mirror("", PortKey{}, MirrorSource{}); len(m.Slices) != 0 || m.LeftOut != 0 || m.Text() != "" {
		t.Errorf("got %v", m)
	}
	from := sourceOf(sliceOf("db-a", discoveryv1.AddressTypeIPv4, endpointOf("db-0", "10.0.0.7")))
	from.Pod, from.Outside = nil, nil
	const want = "1 of 1 endpoints of Service shop/db are left out: 10.0.0.7: no Pod of namespace shop has this address"
	if m := Mirror("sti", tcp5432, from); len(m.Slices) != 0 || m.Text() != want {
		t.Errorf("got %v: %s", m.Slices, m.Text())
	}
}

// TestMirrorText has reasons and names of any length.
func TestMirrorText(t *testing.T) {
	endpoints := func(n int) *discoveryv1.EndpointSlice {
		s := sliceOf("db-a", discoveryv1.AddressTypeIPv4)
		for i := range n {
			s.Endpoints = append(s.Endpoints, endpointOf("db-0", fmt.Sprintf("10.96.0.%d", i)))
		}
		return s
	}
	for name, tc := range map[string]struct {
		endpoints int
		namespace string
		why       string
		// named is how many are, more is what is said of the others.
		named int
		more  string
	}{
		"one":                        {1, "shop", "so", 1, ""},
		"three":                      {3, "shop", "so", 3, ""},
		"four":                       {4, "shop", "so", 3, "; and 1 more"},
		"three of which two fit":     {3, "shop", strings.Repeat("long ", 24), 2, "; and 1 more"},
		"a reason that does not fit": {2, "shop", strings.Repeat("ö", 400), 1, "...; and 1 more"},
		"a name that does not fit":   {2, strings.Repeat("n", 600), "so", 0, "..."},
	} {
		t.Run(name, func(t *testing.T) {
			from := sourceOf(endpoints(tc.endpoints))
			from.Service.Namespace = tc.namespace
			from.Outside = func(string) string { return tc.why }
			m := Mirror("sti", tcp5432, from)
			text := m.Text()
			if len(text) > 512 || text != strings.ToValidUTF8(text, "") || !strings.HasSuffix(text, tc.more) ||
				strings.Count(text, "10.96.0.") != tc.named || tc.more == "" && strings.Contains(text, "more") || m.LeftOut != tc.endpoints {
				t.Errorf("left out %d, %d bytes: %s", m.LeftOut, len(text), text)
			}
		})
	}
}

// TestSliceDigest compares what is written with what is stored.
func TestSliceDigest(t *testing.T) {
	wanted := func() *discoveryv1.EndpointSlice {
		second := endpointOf("db-1", "10.0.0.8")
		return &Mirror("sti", tcp5432, sourceOf(sliceOf("db-a", discoveryv1.AddressTypeIPv4, fullEndpoint(), second))).Slices[0]
	}
	for name, tc := range map[string]struct {
		change func(*discoveryv1.EndpointSlice)
		want   bool
	}{
		"the same":                   {func(*discoveryv1.EndpointSlice) {}, true},
		"other metadata":             {func(s *discoveryv1.EndpointSlice) { s.Name, s.Labels = "x", map[string]string{"a": "b"} }, true},
		"endpoints in another order": {func(s *discoveryv1.EndpointSlice) { slices.Reverse(s.Endpoints) }, true},
		"conditions by default": {func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[1].Conditions = discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}
		}, true},
		"not ready":             {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Conditions.Ready = new(false) }, false},
		"not serving":           {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Conditions.Serving = new(false) }, false},
		"terminating":           {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Conditions.Terminating = new(true) }, false},
		"ready where it is not": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = nil }, false},
		"another address":       {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.96.0.1" }, false},
		"one more address": {func(s *discoveryv1.EndpointSlice) {
			e := &s.Endpoints[0]
			e.Addresses = append(e.Addresses, "10.96.0.1")
		}, false},
		"another node":            {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].NodeName = new("node-2") }, false},
		"no zone":                 {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Zone = nil }, false},
		"no hints":                {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints = nil }, false},
		"another zone as hint":    {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints.ForZones[0].Name = "zone-2" }, false},
		"another node as hint":    {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints.ForNodes[0].Name = "node-2" }, false},
		"a host name":             {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hostname = new("db") }, false},
		"a reference":             {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef = endpointOf("db-0").TargetRef }, false},
		"one endpoint less":       {func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[:1] }, false},
		"one endpoint twice":      {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1] = s.Endpoints[0] }, false},
		"no endpoints":            {func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }, false},
		"another number":          {func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(1)) }, false},
		"another name":            {func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = new("x") }, false},
		"another protocol":        {func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = new(corev1.ProtocolUDP) }, false},
		"an application protocol": {func(s *discoveryv1.EndpointSlice) { s.Ports[0].AppProtocol = new("http") }, false},
		"one more port":           {func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, discoveryv1.EndpointPort{}) }, false},
		"no ports":                {func(s *discoveryv1.EndpointSlice) { s.Ports = nil }, false},
		"another family":          {func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			stored := wanted()
			tc.change(stored)
			before, to := stored.DeepCopy(), wanted()
			if (SliceDigest(stored) == SliceDigest(to)) != tc.want {
				t.Errorf("want %v", tc.want)
			}
			if diff := cmp.Diff(before, stored) + cmp.Diff(wanted(), to); diff != "" {
				t.Error("comparing changes them", diff)
			}
		})
	}
}

// TestMirrorBounds has no more written than one port needs, whoever writes the slices, and tells nothing of what is about to be taken out.
func TestMirrorBounds(t *testing.T) {
	var all []*discoveryv1.EndpointSlice
	for i := range maxSlices + 3 {
		all = append(all, sliceOf(fmt.Sprintf("db-%03d", i), discoveryv1.AddressTypeIPv4, endpointOf("db-0", "10.0.0.7")))
	}
	slices.Reverse(all)
	m := Mirror("sti", tcp5432, sourceOf(all...))
	if len(m.Slices) != maxSlices || m.LeftOut != 3 || !strings.Contains(m.Text(), "a port has at most 100 EndpointSlices") {
		t.Errorf("%d slices are written, %d endpoints left out: %s", len(m.Slices), m.LeftOut, m.Text())
	}

	notYet := endpointOf("db-0", "10.0.0.7")
	notYet.Conditions.Ready = new(false)
	same := sliceOf("db-a", discoveryv1.AddressTypeIPv4, notYet, endpointOf("db-0", "10.0.0.7"), notYet)
	m = Mirror("sti", tcp5432, sourceOf(same))
	if len(m.Slices) != 1 || len(m.Slices[0].Endpoints) != 1 || m.Slices[0].Endpoints[0].Conditions.Ready != nil || m.LeftOut != 0 {
		t.Errorf("of one address three times, this is written: %+v", m.Slices)
	}

	gone := endpointOf("gone", "10.0.0.99")
	gone.Conditions.Ready = new(false)
	m = Mirror("sti", tcp5432, sourceOf(sliceOf("db-a", discoveryv1.AddressTypeIPv4, gone)))
	if len(m.Slices) != 0 || m.LeftOut != 0 {
		t.Errorf("of a Pod that has ended, this is written: %+v, and %s", m.Slices, m.Text())
	}
}
