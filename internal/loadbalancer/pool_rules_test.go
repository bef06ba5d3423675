package loadbalancer

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func at(ip string) claim.Coordinate { return claim.Address(netip.MustParseAddr(ip)) }

func portAt(ip string, port int32) claim.Coordinate {
	return claim.AddressPort(netip.MustParseAddr(ip), "TCP", port)
}

type poolChange func(*v1beta1.AddressPoolSpec)

func poolOfSource(source v1beta1.AddressSource, changes ...poolChange) *v1beta1.AddressPool {
	p := &v1beta1.AddressPool{Spec: v1beta1.AddressPoolSpec{Source: source}}
	p.Name = "pool"
	if source == v1beta1.SourceAddresses {
		p.Spec.Addresses = []string{"192.0.2.0/28"}
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

func lists(addresses ...string) poolChange {
	return func(s *v1beta1.AddressPoolSpec) { s.Addresses = addresses }
}

func forTier(tier string) poolChange {
	return func(s *v1beta1.AddressPoolSpec) {
		s.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}
	}
}

func forTeam(team string) poolChange {
	return func(s *v1beta1.AddressPoolSpec) {
		s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
}

func avoidBuggy(s *v1beta1.AddressPoolSpec) { s.AvoidBuggyIPs = true }

func readPool(t *testing.T, p *v1beta1.AddressPool) *addresspool.Pool {
	t.Helper()
	read, errs := addresspool.New(p)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return read
}

func TestPoolInUse(t *testing.T) {
	const addresses, nodes, clusterIPs = v1beta1.SourceAddresses, v1beta1.SourceNodeIP, v1beta1.SourceClusterIP
	w := &cluster{namespaces: map[string]labels.Set{"shop": {"team": "a"}}}
	w.serviceHolds("api", "edge", at("192.0.2.1"), at("2001:db8::1"))
	w.serviceHolds("web", "inner", portAt("192.0.2.15", 80), portAt("192.0.2.15", 443), claim.NodePort("TCP", 80))
	w.serviceHolds("vip", "edge", at("10.96.0.9")).Spec.ClusterIPs = []string{"10.96.0.9"}
	w.serviceHolds("vip-six", "edge", at("fd00::9")).Spec.ClusterIPs = []string{"FD00:0::9"}
	w.serviceHolds("vip-port", "edge", portAt("10.96.0.11", 80)).Spec.ClusterIPs = []string{"10.96.0.11"}
	w.serviceHolds("other-vip", "edge", at("10.96.0.10")).Spec.ClusterIPs = []string{"10.96.0.77"}
	maps.Copy(w.claims, claims(claim.ServiceHolder("shop", "gone"), at("192.0.2.7")))
	maps.Copy(w.claims, claims(claim.StreamHolder("shop", "stream"), at("192.0.2.8")))

	inUse := func(path, text string) verdict {
		return verdict{v1beta1.ReasonPoolInUse, path + ": Forbidden: " + text + ": move or delete them first"}
	}
	for name, test := range map[string]struct {
		before, after *v1beta1.AddressPool
		others        []*v1beta1.AddressPool
		want          []verdict
	}{
		"nothing changes":          {before: poolOfSource(addresses), after: poolOfSource(addresses)},
		"it grows":                 {before: poolOfSource(addresses), after: poolOfSource(addresses, lists("192.0.2.0/27"))},
		"it is written otherwise":  {before: poolOfSource(addresses), after: poolOfSource(addresses, lists("192.0.2.0-192.0.2.7", "192.0.2.8-192.0.2.15"))},
		"it loses what nobody has": {before: poolOfSource(addresses), after: poolOfSource(addresses, lists("192.0.2.1", "192.0.2.15"))},
		"it loses an address": {before: poolOfSource(addresses), after: poolOfSource(addresses, lists("192.0.2.8/29")),
			want: []verdict{inUse("spec.addresses", "1 Service(s) would lose their address, shop/api (192.0.2.1)")}},
		"it loses all": {before: poolOfSource(addresses), after: poolOfSource(addresses, lists("192.0.3.0/24")),
			want: []verdict{inUse("spec.addresses", "2 Service(s) would lose their address, shop/api (192.0.2.1), shop/web (192.0.2.15)")}},
		"a family goes": {before: poolOfSource(addresses, lists("192.0.2.0/28", "2001:db8::/64")), after: poolOfSource(addresses),
			want: []verdict{inUse("spec.addresses", "1 Service(s) would lose their address, shop/api (2001:db8::1)")}},
		"buggy ones go": {before: poolOfSource(addresses), after: poolOfSource(addresses, avoidBuggy),
			want: []verdict{inUse("spec.avoidBuggyIPs", "1 Service(s) would lose their address, shop/web (192.0.2.15)")}},
		"other Services only": {before: poolOfSource(addresses), after: poolOfSource(addresses, forTier("edge")),
			want: []verdict{inUse("spec.serviceSelector", "1 Service(s) would lose their address, shop/web (192.0.2.15)")}},
		"other namespaces only": {before: poolOfSource(addresses), after: poolOfSource(addresses, forTeam("b")),
			want: []verdict{inUse("spec.namespaceSelector", "2 Service(s) would lose their address, shop/api (192.0.2.1), shop/web (192.0.2.15)")}},
		"the same namespaces":    {before: poolOfSource(addresses), after: poolOfSource(addresses, forTeam("a"))},
		"it served nobody there": {before: poolOfSource(addresses, forTeam("b")), after: poolOfSource(addresses, forTeam("c"))},
		"for two reasons": {before: poolOfSource(addresses), after: poolOfSource(addresses, lists("192.0.2.15"), forTier("edge")), want: []verdict{
			inUse("spec.addresses", "1 Service(s) would lose their address, shop/api (192.0.2.1)"),
			inUse("spec.serviceSelector", "1 Service(s) would lose their address, shop/web (192.0.2.15)")}},
		"it goes": {before: poolOfSource(addresses),
			want: []verdict{inUse("metadata.name", "2 Service(s) would lose their address, shop/api (192.0.2.1), shop/web (192.0.2.15)")}},
		"an unused one goes": {before: poolOfSource(addresses, lists("10.0.0.0/24"))},
		"node ports go": {before: poolOfSource(nodes), others: []*v1beta1.AddressPool{poolOfSource(addresses), poolOfSource(nodes)},
			want: []verdict{inUse("metadata.name", "1 Service(s) would lose their address, shop/web (TCP/80)")}},
		"node ports of others go": {before: poolOfSource(nodes, forTier("edge"))},
		"cluster IPs go": {before: poolOfSource(clusterIPs),
			want: []verdict{inUse("metadata.name", "3 Service(s) would lose their address, shop/vip (10.96.0.9), shop/vip-port (10.96.0.11), shop/vip-six (fd00::9)")}},
	} {
		t.Run(name, func(t *testing.T) {
			var after *addresspool.Pool
			if test.after != nil {
				after = readPool(t, test.after)
			}
			var others []*addresspool.Pool
			for _, p := range test.others {
				others = append(others, readPool(t, p))
			}
			w.asked = 0
			users := PoolUsers(w, readPool(t, test.before), after, others)
			if diff := cmp.Diff(test.want, verdicts(PoolInUse(users))); diff != "" {
				t.Error(diff)
			}
			w.failAfterEach(func() { PoolInUse(PoolUsers(w, readPool(t, test.before), after, others)) })
		})
	}
}

func TestPoolWithASecondOfItsKind(t *testing.T) {
	w := &cluster{}
	svc := w.serviceHolds("web", "edge", claim.NodePort("TCP", 80))
	second := poolOfSource(v1beta1.SourceNodeIP)
	second.Name = "second"
	users := func() int {
		t.Helper()
		others := []*addresspool.Pool{readPool(t, second)}
		return len(PoolUsers(w, readPool(t, poolOfSource(v1beta1.SourceNodeIP)), nil, others))
	}
	if users() != 0 {
		t.Error("the second pool would have served the Service")
	}
	svc.Annotations = map[string]string{v1beta1.AnnotationAddressPool: "pool"}
	if users() != 1 {
		t.Error("the Service names the pool that goes")
	}
}

func TestPoolInUseNamesAFew(t *testing.T) {
	w := &cluster{}
	for i := range 5 {
		w.serviceHolds(fmt.Sprint("s", i), "", at(fmt.Sprint("192.0.2.", i)))
	}
	users := PoolUsers(w, readPool(t, poolOfSource(v1beta1.SourceAddresses)), nil, nil)
	want := []verdict{{v1beta1.ReasonPoolInUse, "metadata.name: Forbidden: 5 Service(s) would lose their address, " +
		"among them shop/s0 (192.0.2.0), shop/s1 (192.0.2.1), shop/s2 (192.0.2.2): move or delete them first"}}
	if diff := cmp.Diff(want, verdicts(PoolInUse(users))); diff != "" {
		t.Error(diff)
	}
}

func TestPoolProblems(t *testing.T) {
	other := poolOfSource(v1beta1.SourceAddresses)
	other.Name = "other"
	book := addresspool.NewBook([]*v1beta1.AddressPool{other})
	bad := book.Judge(poolOfSource(v1beta1.SourceAddresses, lists("192.0.2.300", "192.0.2.9")))
	want := []verdict{
		{v1beta1.ReasonInvalid, `spec.addresses[0]: Invalid value: "192.0.2.300": is not an IP address: ` +
			`write a CIDR (192.0.2.0/24), a range (192.0.2.10-192.0.2.20) or a single address, IPv4 or IPv6`},
		{v1beta1.ReasonPoolOverlap, `spec.addresses[1]: Duplicate value: "192.0.2.9": AddressPool other has these addresses already: ` +
			`an address can be in one pool only`},
	}
	if diff := cmp.Diff(want, verdicts(PoolProblems(bad))); diff != "" {
		t.Error(diff)
	}
	if got := NewInAddressPool(bad, bad); len(got) > 0 {
		t.Errorf("what was wrong before is told again: %v", verdicts(got))
	}
	worse := book.Judge(poolOfSource(v1beta1.SourceAddresses, lists("10.0.0.0/33", "192.0.2.300", "192.0.2.9")))
	got := verdicts(NewInAddressPool(bad, worse))
	if len(got) != 1 || got[0].Reason != v1beta1.ReasonInvalid {
		t.Errorf("got %v", got)
	}
}
