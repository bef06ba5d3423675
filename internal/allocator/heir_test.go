package allocator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// handsOver has a Service name its heir.
func handsOver(heir string) serviceChange {
	return func(s *corev1.Service) { s.Annotations[v1beta1.AnnotationHandOverTo] = heir }
}

// givenBy is a cluster with pools in which the Service shop/x holds points and hands them over, "" for to nobody.
func givenBy(heir string, pools []*v1beta1.AddressPool, points ...claim.Coordinate) *cluster {
	c := clusterWith(pools...).taken("x", points...)
	if heir != "" {
		c.services["shop/x"].Annotations = map[string]string{v1beta1.AnnotationHandOverTo: heir}
	}
	return c
}

// promised has a claim be promised to an heir.
func (c *cluster) promised(on claim.Coordinate, heir claim.Holder) *cluster {
	c.claims[on].Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: heir.Spec("h"), Renewed: metav1.NewMicroTime(since)}
	return c
}

// TestTakeWhatIsHandedOver has the Service shop/web ask for what shop/x has.
func TestTakeWhatIsHandedOver(t *testing.T) {
	const one, two = "192.0.2.1", "192.0.2.2"
	whole := []*v1beta1.AddressPool{pool("a", one+","+two)}
	shared := []*v1beta1.AddressPool{pool("s", one+","+two, sharesPorts)}
	other := claim.ServiceHolder("shop", "other")
	instead, insteadPort := "; free in AddressPool a is 192.0.2.2, or leave the address out to be given one",
		" on 192.0.2.1 of AddressPool s; choose another port; free in AddressPool s is 192.0.2.2, or leave the address out to be given one"
	atMost := func(n int32) poolChange { return func(s *v1beta1.AddressPoolSpec) { s.MaxPerNamespace = n } }
	front := givenBy("shop/web", whole, at(one))
	front.classes = []*v1beta1.StreamIngressClass{class("public", func(c *v1beta1.StreamIngressClass) {
		c.Spec.Service = &v1beta1.ObjectReference{Namespace: "shop", Name: "x"}
	})}
	external := givenBy("shop/web", whole, at(one))
	external.services["shop/x"].Spec.ExternalIPs = []string{one}
	forProxy := givenBy("shop/web", shared, portAt(one, 80))
	forProxy.claims[portAt(one, 80)].Spec.ClassName = "public"
	begun := givenBy("shop/web", shared, portAt(one, 443))
	begun.services["shop/x"].Spec.Ports = asking(onPorts(80, 443)).Spec.Ports
	servedOn(one)(begun.services["shop/x"])
	checkAll(t, map[string]allocated{
		"by name":                   {in: givenBy("shop/web", whole, at(one)), svc: asking(forAddresses(one)), want: []string{"a addr.192-0-2-1"}},
		"by the older field":        {in: givenBy("shop/web", whole, at(one)), svc: asking(func(s *corev1.Service) { s.Spec.LoadBalancerIP = one }), want: []string{"a addr.192-0-2-1"}},
		"in place of one it has":    {in: givenBy("shop/web", whole, at(one)), svc: asking(forAddresses(one)), held: []claim.Coordinate{at(two)}, want: []string{"a addr.192-0-2-1"}},
		"not for any":               {in: givenBy("shop/web", whole, at(one)), svc: asking(), want: []string{"a addr.192-0-2-2 auto-assigned"}},
		"not who is not named":      {in: givenBy("shop/other", whole, at(one)), svc: asking(forAddresses(one)), why: addressTaken(one, heldByX+instead+orHandedOver)},
		"not of another namespace":  {in: givenBy("else/web", whole, at(one)), svc: asking(forAddresses(one)), why: addressTaken(one, heldByX+instead+orHandedOver)},
		"promised to it before":     {in: givenBy("", whole, at(one)).promised(at(one), web), svc: asking(forAddresses(one)), want: []string{"a addr.192-0-2-1"}},
		"promised to another":       {in: givenBy("shop/web", whole, at(one)).promised(at(one), other), svc: asking(forAddresses(one)), why: addressTaken(one, heldByX+", which is handing it over to Service shop/other"+instead)},
		"not who gives itself":      {in: givenBy("shop/web", whole, at(one)), svc: asking(forAddresses(one), handsOver("shop/x")), why: handedOver("shop/x")},
		"a front keeps what it has": {in: front, svc: asking(forAddresses(one)), why: addressTaken(one, heldByX+instead)},
		"who names it keeps it":     {in: external, svc: asking(forAddresses(one)), why: addressTaken(one, heldByX+instead)},
		"a port":                    {in: givenBy("shop/web", shared, portAt(one, 80)), svc: asking(forAddresses(one)), want: []string{"s addr.192-0-2-1.tcp.80"}},
		"a port beside a free one":  {in: givenBy("shop/web", shared, portAt(one, 80)), svc: asking(forAddresses(one), onPorts(80, 443)), want: []string{"s addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.443"}},
		"one more port":             {in: givenBy("shop/web", shared, portAt(one, 80)), svc: asking(forAddresses(one), onPorts(80, 443)), held: []claim.Coordinate{portAt(one, 443)}, want: []string{"s addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.443"}},
		"the second of two ports":   {in: begun, svc: asking(forAddresses(one), onPorts(80, 443)), held: []claim.Coordinate{portAt(one, 80)}, want: []string{"s addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.443"}},
		"a port of any address":     {in: givenBy("shop/web", shared, portAt(one, 443)), svc: asking(onPorts(80, 443)), held: []claim.Coordinate{portAt(one, 80)}, why: []verdict{portTaken("spec.ports[1].port", "TCP/443", heldByX+" on 192.0.2.1 of AddressPool s; choose another port; free in AddressPool s is 192.0.2.2"+orHandedOver+", with 192.0.2.1 asked for by name")}},
		"a port of a proxy":         {in: forProxy, svc: asking(forAddresses(one)), why: []verdict{portTaken("spec.ports[0].port", "TCP/80", heldByX+insteadPort)}},
		"the whole as ports": {in: givenBy("shop/web", shared, at(one)), svc: asking(forAddresses(one)), why: []verdict{portTaken("spec.ports[0].port", "TCP/80",
			heldByX+insteadPort+"; its holder has the whole address, and can't hand it over as the ports that the pool gives by now")}},
		"ports as the whole": {in: givenBy("shop/web", whole, portAt(one, 80)), svc: asking(forAddresses(one)), why: addressTaken(one,
			heldByX+instead+"; its holder has only ports of it, and can't hand them over as the whole address that the pool gives by now")},
		"it is not one more": {in: givenBy("shop/web", []*v1beta1.AddressPool{pool("a", one+","+two, atMost(1))}, at(one)), svc: asking(forAddresses(one)), want: []string{"a addr.192-0-2-1"}},
		"it is one too many": {in: givenBy("shop/web", []*v1beta1.AddressPool{pool("a", one+","+two, atMost(1))}, at(one)).taken("y", at(two)), svc: asking(forAddresses(one)),
			why: []verdict{{v1beta1.ReasonNamespaceLimitReached, `metadata.annotations[nginx-stream.jeffthecoder.xyz/addresses]: Invalid value: "192.0.2.1": ` +
				`AddressPool a gives at most 1 address(es) to one namespace (spec.maxPerNamespace), and namespace "shop" has 1: delete a Service that has one, or choose another pool`}}},
	})
}

func handedOver(heir string) []verdict {
	return []verdict{{v1beta1.ReasonHandedOver, `metadata.annotations[nginx-stream.jeffthecoder.xyz/hand-over-to]: Invalid value: "` + heir +
		`": a Service that hands over what it has is given nothing else: remove the annotation to have it ask for an address again`}}
}

func noOtherPort(i, port int) []verdict {
	return []verdict{{v1beta1.ReasonHandedOver, fmt.Sprintf("spec.ports[%d].port: Invalid value: %d: a Service that hands over what it has is given "+
		"no other port: remove the annotation nginx-stream.jeffthecoder.xyz/hand-over-to to have it ask for one", i, port)}}
}

// TestGiverAsksForNothing has the Service shop/web hand over what it has to shop/x.
func TestGiverAsksForNothing(t *testing.T) {
	const one, two, six = "192.0.2.1", "192.0.2.2", "2001:db8::1"
	gives := handsOver("shop/x")
	whole := func() *cluster { return clusterWith(pool("a", one+","+two+","+six)) }
	shared := func() *cluster { return clusterWith(pool("s", one, sharesPorts)) }
	classless := func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil }
	given := handedOver("shop/x")
	checkAll(t, map[string]allocated{
		"it keeps what it has":                    {in: whole(), svc: asking(gives), held: []claim.Coordinate{at(two)}, want: []string{"a addr.192-0-2-2"}},
		"it is given none":                        {in: whole(), svc: asking(gives), why: given},
		"it asks for none":                        {in: whole(), svc: asking(gives, forAddresses(one)), why: given},
		"it asks for another":                     {in: whole(), svc: asking(gives, forAddresses(one)), held: []claim.Coordinate{at(two)}, why: given},
		"it is given none of another family":      {in: whole(), svc: asking(gives, eitherFamily), held: []claim.Coordinate{at(two)}, want: []string{"a addr.192-0-2-2"}},
		"it has handed it over":                   {in: whole().taken("x", at(one)), svc: asking(gives, forAddresses(one), servedAt(one)), why: given},
		"it has handed it over, and does not ask": {in: whole().taken("x", at(one)), svc: asking(gives, servedAt(one)), why: given},
		"it keeps another family":                 {in: whole().taken("x", at(one)), svc: asking(gives, eitherFamily, servedAt(one, six)), held: []claim.Coordinate{at(six)}, want: []string{"a addr.2001-db8--1"}},
		"it adds a port":                          {in: shared(), svc: asking(gives, onPorts(80, 443)), held: []claim.Coordinate{portAt(one, 80)}, why: noOtherPort(1, 443)},
		"it asks for another port":                {in: shared(), svc: asking(gives, onPorts(443)), held: []claim.Coordinate{portAt(one, 80)}, why: noOtherPort(0, 443)},
		"a port that it has been listed with":     {in: shared(), svc: asking(gives, onPorts(80), servedOn(one)), held: []claim.Coordinate{portAt(one, 443)}, want: []string{"s addr.192-0-2-1.tcp.80"}},
		"one of its ports is the heir's":          {in: shared().taken("x", portAt(one, 80)), svc: asking(gives, onPorts(80, 443), servedAt(one)), held: []claim.Coordinate{portAt(one, 443)}, why: given},
		"another port is the heir's":              {in: shared().taken("x", portAt(one, 22)), svc: asking(gives), held: []claim.Coordinate{portAt(one, 80)}, want: []string{"s addr.192-0-2-1.tcp.80"}},
		"it names nobody":                         {in: whole(), svc: asking(handsOver("nonsense")), want: []string{"a addr.192-0-2-1 auto-assigned"}},
		"it lists it, and the ledger is lost":     {in: whole(), svc: asking(gives, forAddresses(two), servedAt(two), classless), want: []string{"a addr.192-0-2-2"}},
	})

	t.Run("the ledger is lost", func(t *testing.T) {
		w, svc := whole(), asking(gives, servedAt(two))
		if e := Enter(w, subjectOf(t, svc)); !slices.Equal(allocationTexts(e.Allocations), []string{"a addr.192-0-2-2"}) {
			t.Errorf("it enters %q", allocationTexts(e.Allocations))
		}
	})
	t.Run("what is left of an address is released", func(t *testing.T) {
		w := shared().taken("x", portAt(one, 80))
		left := subjectOf(t, asking(gives, onPorts(80, 443)), portAt(one, 443))
		if WantsPoint(w, left, portAt(one, 443)) {
			t.Error("it wants the port beside the one that the heir has")
		}
		delete(w.claims, portAt(one, 80))
		if !WantsPoint(w, left, portAt(one, 443)) {
			t.Error("it does not want what it has")
		}
	})
	t.Run("it waits for no other family", func(t *testing.T) {
		s := subjectOf(t, asking(gives, eitherFamily), at(two))
		p, _ := addresspool.New(pool("a", one))
		if AwaitsFamily(whole(), s, []Allocation{AddressAllocation(p, s.Held[0].Address(), v1beta1.SharingNone, s.Ports)}) {
			t.Error("it waits")
		}
	})
}

// TestHandedOver has the Service shop/web be listed at what its heir, or another Service, has.
func TestHandedOver(t *testing.T) {
	const one, away = "192.0.2.1", "198.51.100.1"
	classless := func(s *corev1.Service) {
		s.Spec.LoadBalancerClass = nil
		for i := range s.Status.LoadBalancer.Ingress {
			s.Status.LoadBalancer.Ingress[i].Ports = []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}
		}
	}
	for name, tc := range map[string]struct {
		svc    *corev1.Service
		held   claim.Coordinate
		want   []string
		has    string
		served bool
	}{
		"the heir has it":                         {asking(handsOver("shop/x"), servedAt(one)), at(one), []string{one}, "x", true},
		"the heir has its port":                   {asking(handsOver("shop/x"), servedAt(one)), portAt(one, 80), []string{one}, "x", true},
		"the heir has another port":               {asking(handsOver("shop/x"), servedAt(one)), portAt(one, 443), nil, "", true},
		"the heir has the port that it is at":     {asking(handsOver("shop/x"), servedOn(one), onPorts(81)), portAt(one, 80), []string{one}, "x", true},
		"the heir has another address":            {asking(handsOver("shop/x"), servedAt(one)), at("192.0.2.2"), nil, "", true},
		"it names another":                        {asking(handsOver("shop/y"), servedAt(one)), at(one), nil, "x", true},
		"it names nobody":                         {asking(servedAt(one)), at(one), nil, "x", true},
		"it names nobody any longer":              {asking(servedAt(one), classless), at(one), nil, "x", true},
		"it has no class":                         {asking(handsOver("shop/x"), servedAt(one), classless), at(one), []string{one}, "x", true},
		"no class, and nobody has its port":       {asking(servedAt(one), classless), portAt(one, 443), nil, "", false},
		"no class, of no pool, and it is had":     {asking(servedAt(away), classless), at(away), nil, "x", true},
		"no class, of no pool, and nobody has it": {asking(servedAt(away), classless), at(one), nil, "", false},
		"another controller lists no port":        {asking(servedAt(one), func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil }), at(one), nil, "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := clusterWith(pool("a", one)).taken("x", tc.held)
			var got []string
			for _, ip := range HandedOver(w, tc.svc) {
				got = append(got, ip.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			listed := loadbalancer.Listed(tc.svc.Status.LoadBalancer.Ingress)[0]
			if by := Successor(w, tc.svc, listed); by.Name != tc.has {
				t.Errorf("%s has it", by)
			}
			if is := IsServed(w, tc.svc); is != tc.served {
				t.Errorf("it is served: %v", is)
			}
		})
	}
}

// TestBridgedTo holds that a Service stays listed only for who has a point that its status lists, and not with a port that it does not list.
func TestBridgedTo(t *testing.T) {
	const one = "192.0.2.1"
	ip := at(one).Address()
	for name, tc := range map[string]struct {
		svc  *corev1.Service
		held claim.Coordinate
		want bool
	}{
		"the address":                         {asking(onPorts(80), servedOn(one)), at(one), true},
		"the port":                            {asking(onPorts(80), servedOn(one)), portAt(one, 80), true},
		"another port":                        {asking(onPorts(80), servedOn(one)), portAt(one, 443), false},
		"a port that it no longer has":        {asking(onPorts(80, 81), servedOn(one), onPorts(80)), portAt(one, 81), true},
		"a port that it has come to have":     {asking(onPorts(81), servedOn(one), onPorts(80, 81)), portAt(one, 80), false},
		"its port, and it has another by now": {asking(onPorts(80), servedOn(one), onPorts(80, 81)), portAt(one, 80), false},
		"its status lists no port":            {asking(servedAt(one), onPorts(80)), portAt(one, 80), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := clusterWith(pool("a", one)).taken("x", tc.held)
			if by := BridgedTo(w, tc.svc, ip); (by.Name == "x") != tc.want {
				t.Errorf("it stays for %q", by)
			}
			if is := IsBridged(tc.svc, ip, tc.held); is != tc.want {
				t.Errorf("it is bridged: %v", is)
			}
		})
	}
}

// TestGiverMayWait holds that a Service which hands over what it has is no Service that is refused.
func TestGiverMayWait(t *testing.T) {
	d := Judge(clusterWith(pool("a", "192.0.2.1")), subjectOf(t, asking(handsOver("shop/x"))), (&cluster{}).graceLeft)
	if !loadbalancer.IsPending(d.Problems) || len(d.Problems) == 0 {
		t.Errorf("it is refused: %v", verdicts(d.Problems))
	}
}
