package rules

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// AddressClaims implements AddressPoolView.
func (w *world) AddressClaims(_ context.Context, in ...addresspool.Range) ([]*v1beta1.EdgeClaim, error) {
	return w.claimsWhere(func(at claim.Coordinate) bool {
		return slices.ContainsFunc(in, func(r addresspool.Range) bool { return at.IsAddress() && r.Contains(at.Address()) })
	}), w.ask("AddressClaims")
}

// NodePortClaims implements AddressPoolView.
func (w *world) NodePortClaims(context.Context) ([]*v1beta1.EdgeClaim, error) {
	return w.claimsWhere(claim.Coordinate.IsNode), w.ask("NodePortClaims")
}

func (w *world) claimsWhere(wanted func(claim.Coordinate) bool) []*v1beta1.EdgeClaim {
	var all []*v1beta1.EdgeClaim
	for at, c := range w.claims {
		if wanted(at) {
			all = append(all, c)
		}
	}
	return all
}

// serviceHolds is a Service with labels "tier=<tier>", and its claims on points.
func (w *world) serviceHolds(name, tier string, points ...claim.Coordinate) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"tier": tier}}}
	if w.services == nil {
		w.services, w.claims = map[string]*corev1.Service{}, map[claim.Coordinate]*v1beta1.EdgeClaim{}
	}
	w.services["shop/"+name] = svc
	maps.Copy(w.claims, claims(claim.ServiceHolder("shop", name), points...))
	return svc
}

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
	const addresses, nodes, cluster = v1beta1.SourceAddresses, v1beta1.SourceNodeIP, v1beta1.SourceClusterIP
	w := &world{namespaces: map[string]labels.Set{"shop": {"team": "a"}}}
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
		"cluster IPs go": {before: poolOfSource(cluster),
			want: []verdict{inUse("metadata.name", "3 Service(s) would lose their address, shop/vip (10.96.0.9), shop/vip-port (10.96.0.11), shop/vip-six (fd00::9)")}},
	} {
		t.Run(name, func(t *testing.T) {
			judge(t, w, func() (refusal.Problems, error) {
				var after *addresspool.Pool
				if test.after != nil {
					after = readPool(t, test.after)
				}
				var others []*addresspool.Pool
				for _, p := range test.others {
					others = append(others, readPool(t, p))
				}
				users, err := PoolUsers(t.Context(), w, readPool(t, test.before), after, others)
				return PoolInUse(users), err
			}, test.want...)
			w.asked = nil
		})
	}
}

func TestPoolWithASecondOfItsKind(t *testing.T) {
	w := &world{}
	svc := w.serviceHolds("web", "edge", claim.NodePort("TCP", 80))
	second := poolOfSource(v1beta1.SourceNodeIP)
	second.Name = "second"
	users := func() int {
		t.Helper()
		others := []*addresspool.Pool{readPool(t, second)}
		users, err := PoolUsers(t.Context(), w, readPool(t, poolOfSource(v1beta1.SourceNodeIP)), nil, others)
		if err != nil {
			t.Fatal(err)
		}
		return len(users)
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
	w := &world{}
	for i := range 5 {
		w.serviceHolds(fmt.Sprint("s", i), "", at(fmt.Sprint("192.0.2.", i)))
	}
	users, err := PoolUsers(t.Context(), w, readPool(t, poolOfSource(v1beta1.SourceAddresses)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []verdict{{v1beta1.ReasonPoolInUse, "metadata.name: Forbidden: 5 Service(s) would lose their address, " +
		"among them shop/s0 (192.0.2.0), shop/s1 (192.0.2.1), shop/s2 (192.0.2.2): move or delete them first"}}
	if diff := cmp.Diff(want, verdicts(PoolInUse(users))); diff != "" {
		t.Error(diff)
	}
}

func TestAddressPool(t *testing.T) {
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
	if diff := cmp.Diff(want, verdicts(AddressPool(bad))); diff != "" {
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
