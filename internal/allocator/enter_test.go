package allocator

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// madeAt is when a Service was created, in minutes after the others.
func madeAt(minute int) serviceChange {
	return func(s *corev1.Service) {
		s.CreationTimestamp = metav1.NewTime(since.Add(time.Duration(minute) * time.Minute))
	}
}

// called is another Service than shop/web.
func called(name string) serviceChange { return func(s *corev1.Service) { s.Name = name } }

// servedOn has addresses listed in the status with the ports that the Service has by then.
func servedOn(texts ...string) serviceChange {
	return func(s *corev1.Service) {
		request, _ := loadbalancer.RequestOf(s)
		s.Status.LoadBalancer.Ingress = loadbalancer.Served(addresses(texts...), corev1.LoadBalancerIPModeVIP, request.Ports)
	}
}

// stored adds Services, which hold nothing.
func (c *cluster) stored(services ...*corev1.Service) *cluster {
	if c.services == nil {
		c.services, c.claims = map[string]*corev1.Service{}, map[claim.Coordinate]*v1beta1.EdgeClaim{}
	}
	for _, svc := range services {
		c.services[svc.Namespace+"/"+svc.Name] = svc
	}
	return c
}

// entered are the parts of an Entering as people read them.
type entered struct {
	Allocations, Stays, Leaves, Lost []string
}

func enteredTexts(e Entering) entered {
	texts := entered{Allocations: allocationTexts(e.Allocations)}
	for _, ip := range e.Leaves {
		texts.Leaves = append(texts.Leaves, ip.String())
	}
	for _, ip := range e.Stays {
		texts.Stays = append(texts.Stays, ip.String())
	}
	for _, taken := range e.Lost {
		texts.Lost = append(texts.Lost, taken.Address.String()+" "+claim.HolderOf(taken.By).String())
	}
	return texts
}

// TestEnter asks what of its status is a Service's, of which it holds nothing. The pools are those of TestRetain; the Service was made a
// minute after the others, unless it says otherwise.
func TestEnter(t *testing.T) {
	const nodeA, nodeB, gone = "10.0.0.1", "10.0.0.2", "10.0.0.9"
	other := func(minute int, changes ...serviceChange) *corev1.Service {
		return asking(append([]serviceChange{called("other"), madeAt(minute)}, changes...)...)
	}
	for name, tc := range map[string]struct {
		in      func(*cluster)
		without string
		svc     *corev1.Service
		held    []string
		want    entered
	}{
		"nothing":           {svc: asking()},
		"what a pool gives": {svc: asking(servedOn("192.0.2.2")), want: entered{Allocations: []string{"a " + two4}}},
		"of each family":    {svc: asking(eitherFamily, servedOn("192.0.2.2", "2001:db8::1")), want: entered{Allocations: []string{"a " + two4, "a " + one6}}},
		"with all its ports, where they are shared": {svc: asking(onPorts(80, 443), servedOn("198.51.100.1")),
			want: entered{Allocations: []string{"s " + shared80 + " " + shared443}}},
		"its cluster IP":           {svc: asking(withClusterIPs("10.96.0.9"), servedOn("10.96.0.9")), want: entered{Allocations: []string{"own " + clusterIP}}},
		"not what it holds":        {svc: asking(servedOn("192.0.2.2")), held: []string{two4}},
		"not beside what it holds": {svc: asking(servedOn("192.0.2.2")), held: []string{one4}},
		"beside another family that it holds": {svc: asking(eitherFamily, servedOn("192.0.2.2", "2001:db8::1")), held: []string{two4},
			want: entered{Allocations: []string{"a " + one6}}},
		"what no pool gives":               {svc: asking(servedOn("203.0.113.1")), want: entered{Stays: []string{"203.0.113.1"}}},
		"one that a pool gives, one not":   {svc: asking(eitherFamily, servedOn("192.0.2.2", "2001:db8::9")), want: entered{Allocations: []string{"a " + two4}, Stays: []string{"2001:db8::9"}}},
		"not what it has no family for":    {svc: asking(servedOn("2001:db8::9"))},
		"though it asks for another":       {svc: asking(servedOn("192.0.2.2"), forAddresses("192.0.2.1")), want: entered{Allocations: []string{"a " + two4}}},
		"though it asks for another pool":  {svc: asking(servedOn("192.0.2.2"), forPool("s")), want: entered{Allocations: []string{"a " + two4}}},
		"no pool gives it, asking for it":  {svc: asking(servedOn("203.0.113.1"), forAddresses("203.0.113.1")), want: entered{Stays: []string{"203.0.113.1"}}},
		"no pool gives it, asking another": {svc: asking(servedOn("203.0.113.1"), forAddresses("192.0.2.1")), want: entered{Leaves: []string{"203.0.113.1"}}},
		"no pool gives it, asking a pool":  {svc: asking(servedOn("203.0.113.1"), forPool("a")), want: entered{Leaves: []string{"203.0.113.1"}}},
		"one of two, asking another": {svc: asking(eitherFamily, servedOn("203.0.113.1", "2001:db8::9"), forAddresses("192.0.2.1")),
			want: entered{Stays: []string{"2001:db8::9"}, Leaves: []string{"203.0.113.1"}}},
		"one of two, asking a pool without the other family": {svc: asking(eitherFamily, servedOn("203.0.113.1", "2001:db8::9"), forPool("s")),
			want: entered{Stays: []string{"2001:db8::9"}, Leaves: []string{"203.0.113.1"}}},
		"no pool gives it, holding another":            {svc: asking(servedOn("203.0.113.1")), held: []string{one4}, want: entered{Leaves: []string{"203.0.113.1"}}},
		"nodes that no pool gives, asking one of them": {without: "nodes", svc: asking(servedOn(nodeA, nodeB), forAddresses(nodeA)), want: entered{Leaves: []string{nodeB, nodeA}}},
		"one of two ports, begun": {svc: asking(onPorts(80, 443), servedOn("198.51.100.1")), held: []string{shared80},
			want: entered{Allocations: []string{"s " + shared80 + " " + shared443}}},
		"one of two ports, begun where addresses are whole": {svc: asking(onPorts(80, 443), servedOn("192.0.2.2")), held: []string{two4 + ".tcp.80"},
			want: entered{Allocations: []string{"a " + two4 + ".tcp.80 " + two4 + ".tcp.443"}}},
		"one of two ports, the other one new":        {svc: asking(servedOn("198.51.100.1"), onPorts(80, 443)), held: []string{shared80}},
		"one of two ports, begun, and no pool gives": {svc: asking(onPorts(80, 443), servedOn("203.0.113.1")), held: []string{nowhere + ".tcp.80"}},
		"one of two ports, begun, and another has the other": {in: func(w *cluster) { w.taken("x", points(t, shared443)...) }, svc: asking(onPorts(80, 443), servedOn("198.51.100.1")),
			held: []string{shared80}, want: entered{Lost: []string{"198.51.100.1 Service shop/x"}}},
		"one of two ports of the nodes, begun":           {svc: asking(onPorts(80, 443), servedOn(nodeA, nodeB)), held: []string{node80}, want: entered{Allocations: []string{"nodes " + node80 + " " + node443}}},
		"one of two ports of the nodes, the other new":   {svc: asking(servedOn(nodeA, nodeB), onPorts(80, 443)), held: []string{node80}},
		"one of two ports of the nodes, and no pool has": {without: "nodes", svc: asking(onPorts(80, 443), servedOn(nodeA, nodeB)), held: []string{node80}},
		"its pool is gone":                               {svc: asking(servedOn("203.0.113.1"), forPool("none")), want: entered{Stays: []string{"203.0.113.1"}}},

		"of the nodes":                        {svc: asking(servedOn(nodeA, nodeB)), want: entered{Allocations: []string{"nodes " + node80}}},
		"of a node":                           {svc: asking(servedOn(nodeA)), want: entered{Allocations: []string{"nodes " + node80}}},
		"of a node, and of one that is gone":  {svc: asking(servedOn(gone, nodeA)), want: entered{Allocations: []string{"nodes " + node80}}},
		"of nodes that are gone":              {svc: asking(servedOn(gone, "10.0.0.10")), want: entered{Allocations: []string{"nodes " + node80}}},
		"of a node that is gone, or whatever": {svc: asking(servedOn(gone)), want: entered{Stays: []string{gone}}},
		"of nodes that no pool gives":         {without: "nodes", svc: asking(servedOn(nodeA, nodeB)), want: entered{Stays: []string{nodeA, nodeB}}},
		"ports of the nodes that it holds":    {svc: asking(onPorts(80, 443), servedOn(nodeA)), held: []string{node80, node443}},
		"ports of the nodes that another has": {in: func(w *cluster) { w.taken("x", points(t, node80)...) }, svc: asking(servedOn(nodeA, nodeB)),
			want: entered{Lost: []string{nodeA + " Service shop/x", nodeB + " Service shop/x"}}},

		"another has it": {in: func(w *cluster) { w.taken("x", points(t, two4)...) }, svc: asking(servedOn("192.0.2.2")), want: entered{Lost: []string{"192.0.2.2 Service shop/x"}}},
		"another has its port": {in: func(w *cluster) { w.taken("x", points(t, shared80)...) }, svc: asking(servedOn("198.51.100.1")),
			want: entered{Lost: []string{"198.51.100.1 Service shop/x"}}},
		"another has another port": {in: func(w *cluster) { w.taken("x", points(t, shared443)...) }, svc: asking(servedOn("198.51.100.1")),
			want: entered{Allocations: []string{"s " + shared80}}},
		"another has another port, where addresses are whole": {in: func(w *cluster) { w.taken("x", points(t, two4+".tcp.443")...) }, svc: asking(servedOn("192.0.2.2")),
			want: entered{Allocations: []string{"a " + two4 + ".tcp.80"}}},
		"another has what no pool gives": {in: func(w *cluster) { w.taken("x", points(t, nowhere)...) }, svc: asking(servedOn("203.0.113.1")),
			want: entered{Lost: []string{"203.0.113.1 Service shop/x"}}},

		"an older one lists it, too": {in: func(w *cluster) { w.stored(other(0, servedOn("192.0.2.2"))) }, svc: asking(servedOn("192.0.2.2")),
			want: entered{Lost: []string{"192.0.2.2 Service shop/other"}}},
		"a younger one lists it, too": {in: func(w *cluster) { w.stored(other(2, servedOn("192.0.2.2"))) }, svc: asking(servedOn("192.0.2.2")),
			want: entered{Allocations: []string{"a " + two4}}},
		"one as old, whose name comes first": {in: func(w *cluster) { w.stored(other(1, servedOn("192.0.2.2"))) }, svc: asking(servedOn("192.0.2.2")),
			want: entered{Lost: []string{"192.0.2.2 Service shop/other"}}},
		"an older one lists it with another port, where addresses are whole": {in: func(w *cluster) { w.stored(other(0, onPorts(443), servedOn("192.0.2.2"))) },
			svc: asking(servedOn("192.0.2.2")), want: entered{Allocations: []string{"a " + two4 + ".tcp.80"}}},
		"an older one lists it with another port": {in: func(w *cluster) { w.stored(other(0, onPorts(443), servedOn("198.51.100.1"))) },
			svc: asking(servedOn("198.51.100.1")), want: entered{Allocations: []string{"s " + shared80}}},
		"an older one lists it with its port": {in: func(w *cluster) { w.stored(other(0, onPorts(443, 80), servedOn("198.51.100.1"))) },
			svc: asking(servedOn("198.51.100.1")), want: entered{Lost: []string{"198.51.100.1 Service shop/other"}}},
		"an older one lists what no pool gives": {in: func(w *cluster) { w.stored(other(0, servedOn("203.0.113.1"))) }, svc: asking(servedOn("203.0.113.1")),
			want: entered{Lost: []string{"203.0.113.1 Service shop/other"}}},
		"an older one lists what no pool gives with another port": {in: func(w *cluster) { w.stored(other(0, onPorts(443), servedOn("203.0.113.1"))) },
			svc: asking(servedOn("203.0.113.1")), want: entered{Stays: []string{"203.0.113.1"}}},
		"an older one lists the nodes with its port": {in: func(w *cluster) { w.stored(other(0, servedOn(nodeA, nodeB))) }, svc: asking(servedOn(nodeA, nodeB)),
			want: entered{Lost: []string{nodeA + " Service shop/other", nodeB + " Service shop/other"}}},
		"a younger one lists the nodes with its port": {in: func(w *cluster) { w.stored(other(2, servedOn(nodeA, nodeB))) }, svc: asking(servedOn(nodeA, nodeB)),
			want: entered{Allocations: []string{"nodes " + node80}}},
		"an older one lists the nodes with another port": {in: func(w *cluster) { w.stored(other(0, onPorts(443), servedOn(nodeA, nodeB))) },
			svc: asking(servedOn(nodeA, nodeB)), want: entered{Allocations: []string{"nodes " + node80}}},
		"an older one lists nodes that no pool gives": {without: "nodes", in: func(w *cluster) { w.stored(other(0, servedOn(nodeA))) }, svc: asking(servedOn(nodeA, nodeB)),
			want: entered{Lost: []string{nodeA + " Service shop/other", nodeB + " Service shop/other"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := keepers()
			if tc.without != "" {
				w.pools = w.pools[:2]
			}
			w.nodes = addresses(nodeA, nodeB)
			madeAt(1)(tc.svc)
			w.stored(tc.svc)
			if tc.in != nil {
				tc.in(w)
			}
			held := points(t, tc.held...)
			for at, c := range claims(web, held...) {
				w.claims[at] = c
			}
			w.asked = 0
			s := subjectOf(t, tc.svc, held...)
			if diff := cmp.Diff(tc.want, enteredTexts(Enter(w, s))); diff != "" {
				t.Error(diff)
			}
			w.failAfterEach(func() { Enter(w, s) })
		})
	}
}

// TestListedIsNotFree has a Service ask for addresses that another lists, of which nobody holds anything.
func TestListedIsNotFree(t *testing.T) {
	listing := func(changes ...serviceChange) *cluster {
		return clusterWith(pool("a", "192.0.2.1,192.0.2.2"), pool("s", "198.51.100.1", sharesPorts), pool("b", "203.0.113.1", forTier("none")), pool("c", "203.0.113.2", sharesPorts, forTier("edge"))).
			stored(asking(append([]serviceChange{called("other"), madeAt(5)}, changes...)...))
	}
	const other80, other443 = "addr.203-0-113-2.tcp.80", "addr.203-0-113-2.tcp.443"
	ungiven := func() *cluster {
		return listing(onPorts(8080), servedOn("203.0.113.2"), func(s *corev1.Service) { s.Labels = nil })
	}
	isOthers := func(ip, instead string) []verdict {
		return []verdict{{v1beta1.ReasonAddressConflict, `metadata.annotations[` + v1beta1.AnnotationAddresses + `]: Duplicate value: "` + ip +
			`": held by Service shop/other since 2026-07-01T12:35:00Z` + instead + orHandedOver}}
	}
	checkAll(t, map[string]allocated{
		"any but that":            {in: listing(servedOn("192.0.2.1")), svc: asking(), want: []string{"a " + two4 + " auto-assigned"}},
		"that one, asking for it": {in: listing(servedOn("192.0.2.1")), svc: asking(forAddresses("192.0.2.1")), why: isOthers("192.0.2.1", "; free in AddressPool a is 192.0.2.2, or leave the address out to be given one")},
		"another port of it":      {in: listing(onPorts(443), servedOn("198.51.100.1")), svc: asking(forAddresses("198.51.100.1")), want: []string{"s " + shared80}},
		"its port": {in: listing(servedOn("198.51.100.1")), svc: asking(forAddresses("198.51.100.1")), why: []verdict{{v1beta1.ReasonPortConflict,
			`spec.ports[0].port: Duplicate value: "TCP/80": held by Service shop/other since 2026-07-01T12:35:00Z on 198.51.100.1 of AddressPool s; ` +
				"choose another port; AddressPool s has no other that is free" + orHandedOver}}},
		"another port of what no pool gives it": {in: listing(onPorts(443), servedOn("203.0.113.2"), func(s *corev1.Service) { s.Labels = nil }),
			svc: asking(forAddresses("203.0.113.2")), why: []verdict{{v1beta1.ReasonPortConflict,
				`spec.ports[0].port: Duplicate value: "TCP/80": held by Service shop/other since 2026-07-01T12:35:00Z on 203.0.113.2 of AddressPool c; ` +
					"choose another port; AddressPool c has no other that is free" + orHandedOver}}},
		"another port of what no pool gives it, where somebody has a third": {in: ungiven().taken("x", points(t, other443)...), svc: asking(forAddresses("203.0.113.2")),
			want: []string{"c " + other80}},
		"another port of what no pool gives it, where somebody lists a third": {in: ungiven().stored(asking(called("x"), onPorts(443), servedOn("203.0.113.2"))),
			svc: asking(forAddresses("203.0.113.2")), want: []string{"c " + other80}},
		"one more port beside what no pool gives it": {in: ungiven(), svc: asking(servedOn("203.0.113.2"), onPorts(80, 443)), held: points(t, other80),
			want: []string{"c " + other80 + " " + other443}},
	})
}

// TestJudgeStaying has a Service, which no pool gives what it lists, be changed while other pools serve it.
func TestJudgeStaying(t *testing.T) {
	for name, tc := range map[string]struct {
		svc     *corev1.Service
		want    []string
		problem string
	}{
		"it stays":                                         {svc: asking(servedOn("203.0.113.1"))},
		"it stays, on other ports":                         {svc: asking(servedOn("203.0.113.1"), onPorts(80, 443))},
		"without a class":                                  {svc: asking(servedOn("203.0.113.1"), func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil }), want: []string{"a " + one4 + " auto-assigned"}},
		"it asks for another":                              {svc: asking(servedOn("203.0.113.1"), forAddresses("192.0.2.2")), want: []string{"a " + two4}},
		"it asks for one that is none":                     {svc: asking(servedOn("203.0.113.1"), forAddresses("203.0.113.2")), problem: v1beta1.ReasonAddressNotInPool},
		"it asks for the nodes":                            {svc: asking(servedOn("203.0.113.1"), forPool("nodes"))},
		"it asks for ports of the nodes that they reserve": {svc: asking(servedOn("203.0.113.1"), forPool("nodes"), onPorts(22)), problem: v1beta1.ReasonPortReserved},
		"it asks for another, and one of two stays": {svc: asking(eitherFamily, servedOn("203.0.113.1", "2001:db8::9"), forAddresses("192.0.2.2,2001:db8::9")),
			want: []string{"a " + two4}},
	} {
		t.Run(name, func(t *testing.T) {
			w := keepers().stored(tc.svc)
			s := subjectOf(t, tc.svc)
			d := Judge(w, s, w.graceLeft)
			if diff := cmp.Diff(tc.want, allocationTexts(d.Allocations)); diff != "" {
				t.Error(diff)
			}
			if tc.problem == "" && len(d.Problems) > 0 || tc.problem != "" && (len(d.Problems) != 1 || d.Problems[0].Reason != tc.problem) {
				t.Errorf("problems %v, want %q", verdicts(d.Problems), tc.problem)
			}
			w.failAfterEach(func() { Judge(w, s, w.graceLeft) })
		})
	}
}

// TestListedNodesAreNotFree has a Service ask for a port of the nodes that another is served at, and does not hold.
func TestListedNodesAreNotFree(t *testing.T) {
	const node, gone = "10.0.0.1", "10.0.0.9"
	noClass := func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil }
	for name, tc := range map[string]struct {
		other *corev1.Service
		holds []string
		free  bool
	}{
		"at a node":                                {other: asking(servedOn(node))},
		"at nodes that are gone":                   {other: asking(servedOn(gone, "10.0.0.10"))},
		"at one that is gone, or whatever":         {other: asking(servedOn(gone)), free: true},
		"on another port":                          {other: asking(onPorts(443), servedOn(node)), free: true},
		"of another controller":                    {other: asking(noClass, servedOn(gone, "10.0.0.10")), free: true},
		"without a class, at a node":               {other: asking(noClass, servedOn(node))},
		"at a node that it has as an address":      {other: asking(servedOn(node)), holds: []string{"addr.10-0-0-1"}, free: true},
		"and has begun to claim its ports":         {other: asking(onPorts(80, 443), servedOn(node)), holds: []string{node443}},
		"and is to have one that is not listed":    {other: asking(onPorts(443), servedOn(node), onPorts(80, 443)), holds: []string{node443}, free: true},
		"and has that of an address beside a node": {other: asking(eitherFamily, servedOn(node, "2001:db8::1")), holds: []string{one6}},
	} {
		t.Run(name, func(t *testing.T) {
			w := clusterWith(pool("nodes", "")).stored(tc.other)
			called("other")(tc.other)
			w.nodes = addresses(node)
			for at, c := range claims(claim.ServiceHolder("shop", "other"), points(t, tc.holds...)...) {
				w.claims[at] = c
			}
			d := Allocate(w, subjectOf(t, asking()), w.graceLeft)
			if free := len(d.Problems) == 0; free != tc.free {
				t.Errorf("it is free: %v, %v", free, verdicts(d.Problems))
			}
			w.failAfterEach(func() { Allocate(w, subjectOf(t, asking()), w.graceLeft) })
		})
	}
}

// TestOneListerIsLookedAt has many Services list an address with the port that another asks for: whether they still do is asked of those only
// that would keep it from having that, and at most until one does.
func TestOneListerIsLookedAt(t *testing.T) {
	for moved, want := range map[string][]string{"": {"first"}, "first": {"first", "second"}} {
		var listers []*corev1.Service
		for minute, name := range []string{"first", "second", "third", "fourth"} {
			listers = append(listers, asking(called(name), madeAt(minute), servedOn("198.51.100.1")))
		}
		w := keepers().stored(append(listers, asking(called("beside"), onPorts(443), servedOn("198.51.100.1")))...)
		w.moved = []string{moved}
		d := Allocate(w, subjectOf(t, asking(forAddresses("198.51.100.1"))), w.graceLeft)
		slices.Sort(w.looked)
		if diff := cmp.Diff(want, slices.Compact(w.looked)); diff != "" || len(d.Problems) != 1 {
			t.Errorf("%s %v", diff, verdicts(d.Problems))
		}
	}
	w := keepers().stored(asking(called("other"), servedOn("198.51.100.1")))
	w.moved = []string{"other"}
	if d := Allocate(w, subjectOf(t, asking(forAddresses("198.51.100.1"))), w.graceLeft); len(d.Problems) > 0 {
		t.Error("one that has moved has it still:", verdicts(d.Problems))
	}
}

// TestEnteringGoesOn has a Service that lists an address with two ports hold one of them: the rest of it is its own before a younger one's.
func TestEnteringGoesOn(t *testing.T) {
	for minute, want := range map[int][]string{0: nil, 2: {"s " + shared80 + " " + shared443}} {
		svc := asking(madeAt(1), onPorts(80, 443), servedOn("198.51.100.1"))
		w := keepers().stored(svc, asking(called("other"), madeAt(minute), onPorts(443), servedOn("198.51.100.1")))
		for at, c := range claims(web, points(t, shared80)...) {
			w.claims[at] = c
		}
		if diff := cmp.Diff(want, allocationTexts(Allocate(w, subjectOf(t, svc, points(t, shared80)...), w.graceLeft).Allocations)); diff != "" {
			t.Errorf("beside one made at minute %d: %s", minute, diff)
		}
	}
}

// TestClassKeepsOffListed gives a class an address beside one that a Service lists, of which nobody holds anything.
func TestClassKeepsOffListed(t *testing.T) {
	pool := poolOfSource(v1beta1.SourceAddresses, lists("192.0.2.1", "192.0.2.2"))
	w := clusterWith(pool).stored(asking(servedOn("192.0.2.1")))
	if diff := cmp.Diff([]string{"pool " + two4 + " auto-assigned"}, allocationTexts(ForClass(w, pooled(nil), w.graceLeft).Allocations)); diff != "" {
		t.Error(diff)
	}
	if d := ForClass(w, pooled([]string{"192.0.2.1"}), w.graceLeft); len(d.Problems) != 1 || d.Problems[0].Reason != v1beta1.ReasonAddressConflict {
		t.Errorf("asking for it: %v, %v", allocationTexts(d.Allocations), verdicts(d.Problems))
	}
	w.moved = []string{"web"}
	if d := ForClass(w, pooled([]string{"192.0.2.1"}), w.graceLeft); len(d.Problems) > 0 {
		t.Errorf("asking for it when the Service has left it: %v", verdicts(d.Problems))
	}
}
