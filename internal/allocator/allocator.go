// Package allocator decides which addresses and ports of AddressPools a Service of type LoadBalancer is to have.
//
// A Service requests a pool, addresses, a sharing, or nothing in particular. It retains what it holds as far as a pool still
// gives it; the rest is allocated from the first pool that has all of it: the address that it names, or, auto-assigned, the
// lowest that is free. A decision only reads, and by what the caches show: whether a point is still free the ledger has to
// tell, by a claim. Who is refused there looks again; what is auto-assigned is then another address.
package allocator

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Facts are what the allocator sees of the cluster. What is not there is nil.
type Facts interface {
	loadbalancer.NodeFacts
	// Pools are all pools as they are read.
	Pools() *addresspool.Book
	// AddressPool is a pool that may not be in the book yet.
	AddressPool(name string) *v1beta1.AddressPool
	// FreeAddress is the lowest address of a pool and a family of which nobody has any of the points that points returns
	// for it; ok is false when there is none.
	FreeAddress(pool *addresspool.Pool, family corev1.IPFamily, points func(netip.Addr) []claim.Coordinate) (ip netip.Addr, ok bool)
	// Listing are the Services that are served at an address by their status, and do not hold all that it lists there.
	Listing(ip netip.Addr) []*corev1.Service
	// ListingOnNodes are the Services that have a port of the nodes by their status, and do not hold it.
	ListingOnNodes(at claim.Coordinate) []*corev1.Service
	// HandsOver says whether a Service hands over what it holds to another one.
	HandsOver(from, to claim.Holder) bool
	// StillLists says whether a Service that Listing or ListingOnNodes have found lists a point now: either may not know yet.
	StillLists(svc *corev1.Service, at claim.Coordinate) bool
	// IsNodeAddress says whether a node has an address, also one that takes no traffic now.
	IsNodeAddress(ip netip.Addr) bool
	// ReservedNodePorts are the ports of the nodes that no Service gets.
	ReservedNodePorts() loadbalancer.PortRanges
	// MaxPorts is how many ports one Service gets of what it shares with others, 0 for any number.
	MaxPorts() int
	// ClaimsOfNamespace are the claims in a family of scopes that the objects of a namespace have; see claim.ScopeFamily.
	ClaimsOfNamespace(namespace, family string) []*v1beta1.EdgeClaim
	// Held are the points that a holder has claims on, in ascending order.
	Held(by claim.Holder) []claim.Coordinate
	// ClaimedPorts are the claims on ports of an address.
	ClaimedPorts(ip netip.Addr) []*v1beta1.EdgeClaim
	// Fronts are the Services that classes name.
	Fronts() []types.NamespacedName
	// NamespaceLabels are the labels of a namespace.
	NamespaceLabels(name string) labels.Set
	// Service is a Service.
	Service(key types.NamespacedName) *corev1.Service
}

// Subject is a Service of type LoadBalancer with what it requests and what it holds.
type Subject struct {
	Service *corev1.Service
	loadbalancer.Request
	// Held are the addresses and ports that it holds.
	Held []claim.Coordinate
}

// Holder is the Service as holder of claims.
func (s *Subject) Holder() claim.Holder {
	return claim.ServiceHolder(s.Service.Namespace, s.Service.Name)
}

// allocator makes one decision. Its pools are in the order of preference.
type allocator struct {
	*Subject
	facts Facts
	// graceLeft is how long the ledger keeps a claim if its holder is gone.
	graceLeft func(*v1beta1.EdgeClaim) time.Duration
	pools     []*addresspool.Pool
	// full are the pools that had no address left, and lacking the families of which they had none.
	full    []*addresspool.Pool
	lacking []corev1.IPFamily
	// limited says why pools that have addresses left give this Service none.
	limited refusal.Problems
}

// Decision is what a Service is to have, or why it can't have that.
type Decision struct {
	Allocations []Allocation
	Problems    refusal.Problems
}

// Allocate decides what a Service is to have: what it holds already, as far as the pools still give it, and for the rest what
// is free in the first pool that has all of it. Whether it is still free the ledger has to tell. graceLeft says how long a
// claim is kept if its holder is gone.
//
// Of a Service that is to have an address of each family, or may have only one, problems of one family are none while
// there is another. One that is being deleted keeps what it has, and is given nothing: finalizers let it live, and be
// changed, for as long as its owner likes. One that hands over what it has is given nothing, either.
func Allocate(facts Facts, s *Subject, graceLeft func(*v1beta1.EdgeClaim) time.Duration) (d Decision) {
	pools, problems := fitting(facts, s)
	if len(problems) > 0 {
		return Decision{Problems: problems}
	}
	a := &allocator{facts: facts, Subject: s, graceLeft: graceLeft, pools: pools}
	retained := s.keep(facts, pools)
	switch {
	case s.Service.DeletionTimestamp != nil:
		return Decision{retained, s.beyond(retained)}
	case isGiver(s.Service):
		d.Allocations, d.Problems = a.onlyKeep(retained)
	case len(retained) > 0:
		d.Allocations, d.Problems = a.complete(retained)
	default:
		d.Allocations, d.Problems = a.choose()
	}
	return d
}

// Serving are the pools whose selectors let them serve a Service, whatever it requests.
func Serving(facts Facts, svc *corev1.Service) []*addresspool.Pool {
	namespace := facts.NamespaceLabels(svc.Namespace)
	return slices.DeleteFunc(slices.Clone(facts.Pools().Pools()), func(p *addresspool.Pool) bool { return !p.Serves(svc.Labels, namespace) })
}

// Gives says whether any pool gives an address to a Service, whatever it requests.
func Gives(facts Facts, svc *corev1.Service, ip netip.Addr) bool {
	return giving(Serving(facts, svc), svc, ip) != nil
}
