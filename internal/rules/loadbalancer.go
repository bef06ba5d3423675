package rules

import (
	"context"
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

// LoadBalancerView is what the rules for Services of type LoadBalancer see of the cluster. What is not there is nil, not
// an error.
type LoadBalancerView interface {
	// AddressPool reads a pool that may not be in the book yet.
	AddressPool(ctx context.Context, name string) (*v1beta1.AddressPool, error)
	// Pools are all pools as they are read.
	Pools() *addresspool.Book
	// FreeAddress is the lowest address of a pool and a family of which nobody has any of the points that points returns
	// for it; ok is false when there is none.
	FreeAddress(pool *addresspool.Pool, family corev1.IPFamily, points func(netip.Addr) []claim.Coordinate) (ip netip.Addr, ok bool)
	// ReservedNodePorts are the ports of the nodes that no Service gets.
	ReservedNodePorts() loadbalancer.PortRanges
	// MaxPorts is how many ports one Service gets of what it shares with others, 0 for any number.
	MaxPorts() int
	ShareView
	// NamespaceLabels reads the labels of a namespace.
	NamespaceLabels(ctx context.Context, name string) (labels.Set, error)
	// Service reads a Service.
	Service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error)
	NodesView
	// ClaimedPorts lists the claims on ports of an address.
	ClaimedPorts(ctx context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error)
}

// Balance is a Service of type LoadBalancer with what it asks for and what it has.
type Balance struct {
	Service *corev1.Service
	loadbalancer.Ask
	// Held are the addresses and ports that it holds.
	Held []claim.Coordinate
}

// Holder is the Service as holder of claims.
func (b *Balance) Holder() claim.Holder {
	return claim.ServiceHolder(b.Service.Namespace, b.Service.Name)
}

// AsksForAddresses is what a Service of type LoadBalancer asks for.
func AsksForAddresses(svc *corev1.Service) (loadbalancer.Ask, refusal.Problems) {
	ask, errs := loadbalancer.Read(svc)
	problems := make(refusal.Problems, 0, len(errs))
	for _, err := range errs {
		problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonInvalidRequest, Err: err})
	}
	return ask, problems
}

// Allot decides what a Service is to have: what it holds already, as far as the pools still give it, and for the rest what
// is free in the first pool that has all of it. Whether it is still free the ledger has to tell. graceLeft says how long a
// claim is kept if its holder is gone.
//
// Of a Service that is to have an address of each family, or may have only one, problems of one family are none while
// there is another. One that is being deleted keeps what it has, and is given nothing: finalizers let it live, and be
// changed, for as long as its owner likes.
func Allot(
	ctx context.Context, v LoadBalancerView, b *Balance, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) ([]loadbalancer.Lot, refusal.Problems, error) {
	pools, problems, err := fitting(ctx, v, b)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	a := &allotment{view: v, Balance: b, graceLeft: graceLeft, pools: pools}
	kept := Keep(b, pools)
	if b.Service.DeletionTimestamp != nil {
		return kept, b.beyond(kept), nil
	}
	if len(kept) > 0 {
		return a.complete(ctx, kept)
	}
	return a.choose(ctx)
}

// gives says whether an address is one that a pool has for a Service. The zero Addr stands for the ports of the nodes.
func gives(pool *addresspool.Pool, svc *corev1.Service, ip netip.Addr) bool {
	switch pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		return !ip.IsValid()
	case v1beta1.SourceClusterIP:
		return slices.Contains(clusterIPs(svc), ip)
	default:
		return pool.Set.Contains(ip)
	}
}

// clusterIPs are the cluster IPs of a Service. There is none before the API server has given it any.
func clusterIPs(svc *corev1.Service) []netip.Addr {
	var ips []netip.Addr
	for _, text := range svc.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			ips = append(ips, ip.Unmap())
		}
	}
	return ips
}

// Serving are the pools whose selectors let them serve a Service, whatever it asks for.
func Serving(ctx context.Context, v LoadBalancerView, svc *corev1.Service) ([]*addresspool.Pool, error) {
	namespace, err := v.NamespaceLabels(ctx, svc.Namespace)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(v.Pools().Pools()), func(p *addresspool.Pool) bool { return !p.Serves(svc.Labels, namespace) }), nil
}

// Gives says whether any pool gives an address to a Service, whatever it asks for.
func Gives(ctx context.Context, v LoadBalancerView, svc *corev1.Service, ip netip.Addr) (bool, error) {
	pools, err := Serving(ctx, v, svc)
	return slices.ContainsFunc(pools, func(p *addresspool.Pool) bool { return gives(p, svc, ip) }), err
}

// IsPending says whether problems are such as time may solve: a Service may wait for a pool, an address or a node.
func IsPending(p refusal.Problems) bool {
	return !slices.ContainsFunc(p, func(problem refusal.Problem) bool {
		return problem.Reason != v1beta1.ReasonNoAddressPool && problem.Reason != v1beta1.ReasonNoFreeAddress &&
			problem.Reason != v1beta1.ReasonNoReadyNode
	})
}

// RefusedPorts are those of the ports of a Service that problems are about, with the reason of each.
func RefusedPorts(p refusal.Problems, ports []loadbalancer.Port) map[loadbalancer.Port]string {
	refused := map[loadbalancer.Port]string{}
	for i, port := range ports {
		path := loadbalancer.PortPath(i).String()
		for _, problem := range p {
			if problem.Err.Field == path {
				refused[port] = problem.Reason
			}
		}
	}
	return refused
}
