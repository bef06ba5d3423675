package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// ExternalFacts are what the rules for external IPs see of the cluster.
type ExternalFacts interface {
	Facts
	// Naming are the Services that name an address in spec.externalIPs.
	Naming(ip netip.Addr) []*corev1.Service
}

// External judges a Service, a new one (before is nil) or the change of one, by the addresses that it names in spec.externalIPs: it may
// name those that a pool gives to it, port by port, whatever the pool's sharing. points are those that it comes to have, for the ledger
// to tell whether they are free. What it has already is not judged. graceLeft says how long a claim is kept if its holder is gone.
func External(
	facts ExternalFacts, before, svc *corev1.Service, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) (points []claim.Coordinate, problems refusal.Problems) {
	e := newExternal(facts, svc, graceLeft)
	e.before = before
	ips := loadbalancer.ExternalIPs(svc)
	for i, ip := range ips {
		fresh := e.newAt(ip)
		if len(fresh) == 0 || slices.Index(ips, ip) < i { // in another spelling
			continue
		}
		points = append(points, fresh...)
		if len(problems) < mostProblems {
			problems = append(problems, e.judge(i, ip)...)
		}
	}
	switch over := e.tooMuch(); {
	case svc.DeletionTimestamp != nil && len(points) > 0:
		return nil, refusal.Problems{refusal.BeingDeleted(loadbalancer.ExternalIPsPath)}
	case over != nil && (len(points) > 0 || e.namesMore()):
		return nil, refusal.One(v1beta1.ReasonTooManyPorts, over)
	case len(problems) > 0:
		return nil, problems
	}
	return points, nil
}

// mostProblems is how many addresses a refusal speaks of: to find out more takes a time that a request could be made to have.
const mostProblems = 8

// external is one look at the addresses that a Service names.
type external struct {
	facts ExternalFacts
	svc   *corev1.Service
	// before is what is stored of it, nil for nothing.
	before    *corev1.Service
	graceLeft func(*v1beta1.EdgeClaim) time.Duration
	pools     []*addresspool.Pool
	// isFront says that a class names the Service: its ports are those of streams, and what it names is the platform's business.
	isFront bool
}

func newExternal(facts ExternalFacts, svc *corev1.Service, graceLeft func(*v1beta1.EdgeClaim) time.Duration) *external {
	key := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
	return &external{
		facts: facts, svc: svc, graceLeft: graceLeft, pools: Serving(facts, svc), isFront: slices.Contains(facts.Fronts(), key),
	}
}

// newAt are the points of an address that the Service has not been stored with.
func (e *external) newAt(ip netip.Addr) []claim.Coordinate {
	return slices.DeleteFunc(loadbalancer.ExternalPoints(e.svc, ip), func(at claim.Coordinate) bool {
		return e.before != nil && loadbalancer.NamesPoint(e.before, at)
	})
}

// namesMore says whether the Service names addresses beyond those that are looked at, and did not before.
func (e *external) namesMore() bool {
	return len(e.svc.Spec.ExternalIPs) > loadbalancer.MaxExternalIPs && slices.ContainsFunc(e.svc.Spec.ExternalIPs, func(ip string) bool {
		return e.before == nil || !slices.Contains(e.before.Spec.ExternalIPs, ip)
	})
}

// tooMuch says that a Service names more addresses, or has more ports at them, than one gets.
func (e *external) tooMuch() *field.Error {
	if e.isFront {
		return nil
	}
	if n := len(e.svc.Spec.ExternalIPs); n > loadbalancer.MaxExternalIPs {
		return &field.Error{Type: field.ErrorTypeTooMany, Field: loadbalancer.ExternalIPsPath.String(), BadValue: n,
			Detail: fmt.Sprintf("a Service may name at most %d addresses: spread them over several Services", loadbalancer.MaxExternalIPs)}
	}
	n, most := len(e.svc.Spec.ExternalIPs)*len(e.svc.Spec.Ports), e.facts.MaxPorts()
	if most == 0 || n <= most {
		return nil
	}
	return &field.Error{Type: field.ErrorTypeTooMany, Field: loadbalancer.ExternalIPsPath.String(), BadValue: n,
		Detail: fmt.Sprintf("a Service gets at most %d ports of addresses that it names, all of these together: "+
			"spread them over several Services", most)}
}

// judge says what is wrong with one of the addresses.
func (e *external) judge(i int, ip netip.Addr) refusal.Problems {
	path := loadbalancer.ExternalIPsPath.Index(i)
	pool := e.poolOf(ip)
	// Streams are not refused for what their proxy's Service names already.
	if pool == nil && !(e.isFront && e.before != nil && slices.Contains(loadbalancer.ExternalIPs(e.before), ip)) {
		return refusal.One(v1beta1.ReasonAddressNotInPool, field.Forbidden(path, e.ungiven(ip)))
	}
	if pool != nil && pool.Spec.MaxPerNamespace > 0 && !e.isFront {
		if over := e.poolLimit(path, ip, pool); over != nil {
			return refusal.One(v1beta1.ReasonNamespaceLimitReached, over)
		}
	}
	for _, at := range e.newAt(ip) {
		if held := e.heldByOther(at); held != nil {
			return e.conflict(path, pool, at, held)
		}
	}
	return nil
}

// poolLimit says that the namespace would have more of a pool than one gets. What the Service leaves by the same change makes room for as
// much; what it left before counts until it is released.
func (e *external) poolLimit(path *field.Path, ip netip.Addr, pool *addresspool.Pool) *field.Error {
	added := e.beyond(e.svc, e.before, pool)
	leaves := 0
	if e.before != nil {
		leaves = e.beyond(e.before, e.svc, pool)
	}
	has, leaving := 0, 0
	for _, c := range e.facts.ClaimsOfNamespace(e.svc.Namespace, claim.ScopeFamily(claim.Address(ip).Scope())) {
		at, err := claim.Of(c)
		if err != nil || !pool.Set.Contains(at.Address()) || slices.Contains(e.facts.Fronts(), claim.HolderOf(c).Key()) {
			continue
		}
		has++
		if isLeaving(e.facts, c) {
			leaving++
		}
	}
	if has+added-min(leaves, added) <= int(pool.Spec.MaxPerNamespace) {
		return nil
	}
	return field.Invalid(path, ip.String(), fmt.Sprintf(
		"AddressPool %s gives at most %d port(s) to one namespace (spec.maxPerNamespace), and namespace %q has %d, and this Service asks "+
			"for %d more%s, or choose another pool",
		pool.Name, pool.Spec.MaxPerNamespace, e.svc.Namespace, has, added, refusal.WayOut(leaving, "a Service that has one")))
}

// beyond counts the points of a pool that one Service names and another, nil for none, does not, but for those that the Service has a claim
// on already.
func (e *external) beyond(svc, other *corev1.Service, pool *addresspool.Pool) int {
	points := sets.New[claim.Coordinate]()
	for _, ip := range loadbalancer.ExternalIPs(svc) {
		if !pool.Set.Contains(ip) {
			continue
		}
		for _, at := range loadbalancer.ExternalPoints(svc, ip) {
			if other == nil || !loadbalancer.NamesPoint(other, at) {
				points.Insert(at)
			}
		}
	}
	if svc == e.svc {
		for at := range points {
			if c := e.facts.Claim(at.Name()); c != nil && claim.HolderOf(c) == e.holder() {
				points.Delete(at)
			}
		}
	}
	return points.Len()
}

func (e *external) holder() claim.Holder { return claim.ServiceHolder(e.svc.Namespace, e.svc.Name) }

// poolOf is the pool that gives an address to the Service, nil for none.
func (e *external) poolOf(ip netip.Addr) *addresspool.Pool {
	return firstOf(e.pools, func(p *addresspool.Pool) bool {
		return p.SourceOrDefault() == v1beta1.SourceAddresses && p.Set.Contains(ip)
	})
}

// ungiven says which addresses the Service may name in place of one that it may not.
func (e *external) ungiven(ip netip.Addr) string {
	text := fmt.Sprintf("no AddressPool gives %s to a Service like this in namespace %q", ip, e.svc.Namespace)
	have := slices.DeleteFunc(slices.Clone(e.pools), func(p *addresspool.Pool) bool { return p.SourceOrDefault() != v1beta1.SourceAddresses })
	if len(have) == 0 {
		return text + ", nor any other: a pool has to say so by its namespaceSelector and serviceSelector"
	}
	return text + "; it may name those of " + poolNames(have)
}

// heldByOther is the claim of somebody else on a point, or on what it can't be had beside, or what stands there without one; nil for none.
func (e *external) heldByOther(at claim.Coordinate) *v1beta1.EdgeClaim {
	if held, _ := e.standing(at); held != nil {
		return held
	}
	if e.facts.Claim(at.Name()) != nil {
		return nil
	}
	for _, other := range e.facts.Naming(at.Address()) {
		if by := ExternalClaimant(other); by.Holder != e.holder() && loadbalancer.HasPort(other, at) {
			return claim.New(at, by)
		}
	}
	return nil
}

// conflict says who has a port of an address that the Service names; the pool is that of the address, nil for none.
func (e *external) conflict(path *field.Path, pool *addresspool.Pool, at claim.Coordinate, held *v1beta1.EdgeClaim) refusal.Problems {
	what, instead := "port "+at.Point()+" there", "choose another port, or another address"
	if on, err := claim.Of(held); err == nil && on.Port() == 0 {
		what, instead = "all of it", "choose another address"
	}
	text := fmt.Sprintf("%s is %s; %s", what, refusal.Held(held, isLeaving(e.facts, held), e.graceLeft(held)), instead)
	if pool != nil {
		points := func(ip netip.Addr) []claim.Coordinate { return loadbalancer.ExternalPoints(e.svc, ip) }
		if ip, ok := e.facts.FreeAddress(pool, addresspool.FamilyOf(at.Address()), points); ok && ip != at.Address() {
			text += fmt.Sprintf(": free in AddressPool %s is %s", pool.Name, ip)
		}
	}
	return refusal.One(v1beta1.ReasonAddressConflict, refusal.Duplicate(path, at.Address().String(), text))
}

// ExternalConflict tells a Service that a point which it names is held, which was found out as it was claimed.
func ExternalConflict(
	facts ExternalFacts, svc *corev1.Service, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) refusal.Problems {
	e := newExternal(facts, svc, graceLeft)
	i := max(slices.Index(loadbalancer.ExternalIPs(svc), at.Address()), 0)
	return e.conflict(loadbalancer.ExternalIPsPath.Index(i), e.poolOf(at.Address()), at, held)
}

// ExternalClaimant is a stored Service as it claims what it names.
func ExternalClaimant(svc *corev1.Service) claim.Claimant {
	return claim.Claimant{
		Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID, Generation: claim.Version(svc.ResourceVersion), ExternalIP: true,
	}
}
