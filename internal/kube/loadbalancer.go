package kube

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// IndexOurLoadBalancers finds the Services of type LoadBalancer that are Portcullis' to serve, under the value "true".
const IndexOurLoadBalancers = "our-load-balancer"

// LoadBalancerOptions is what a View needs to know of load balancers.
type LoadBalancerOptions struct {
	// ByDefault: Services of type LoadBalancer without a class are Portcullis' to serve.
	ByDefault bool
	// Reserved are the ports of the nodes that no Service gets.
	Reserved loadbalancer.PortRanges
	// MaxPorts is how many ports one Service gets of what it shares with others, 0 for any number.
	MaxPorts int
}

// AddLoadBalancerIndexes adds the indexes of Services of type LoadBalancer to a cache.
func AddLoadBalancerIndexes(ctx context.Context, indexer client.FieldIndexer, o LoadBalancerOptions) error {
	err := indexer.IndexField(ctx, &corev1.Service{}, IndexOurLoadBalancers, func(svc client.Object) []string {
		if loadbalancer.IsOurs(svc.(*corev1.Service), o.ByDefault) {
			return []string{"true"}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Services by %s: %w", IndexOurLoadBalancers, err)
	}
	return addNodeIndexes(ctx, indexer)
}

// SetLoadBalancerOptions tells the view what it needs to know of load balancers.
func (v *View) SetLoadBalancerOptions(o LoadBalancerOptions) { v.loadBalancers = o }

// IsOurLoadBalancer says whether a Service is a load balancer that is Portcullis' to serve.
func (v *View) IsOurLoadBalancer(svc *corev1.Service) bool {
	return loadbalancer.IsOurs(svc, v.loadBalancers.ByDefault)
}

// OurLoadBalancers lists the Services of type LoadBalancer that are Portcullis' to serve; with a namespace only those in it.
func (v *View) OurLoadBalancers(ctx context.Context, namespace string) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := v.Reader.List(ctx, &list, client.MatchingFields{IndexOurLoadBalancers: "true"}, client.InNamespace(namespace))
	return list.Items, err
}

// ReservedNodePorts implements Reader. Proxies on the nodes, of classes without a Service, reserve what they open
// of their own accord.
func (v *View) ReservedNodePorts() loadbalancer.PortRanges {
	reserved := slices.Clone(v.loadBalancers.Reserved)
	classes, err := v.ClassesOnNodes(context.Background())
	if err != nil {
		return reserved // the cache is not filled yet, and nothing is decided
	}
	for i := range classes {
		reserved = append(reserved, classes[i].Spec.Reserved...)
	}
	return reserved
}

// ClassesOnNodes implements Reader.
func (v *View) ClassesOnNodes(ctx context.Context) ([]v1beta1.StreamIngressClass, error) {
	classes, err := v.Classes(ctx)
	return slices.DeleteFunc(classes, func(c v1beta1.StreamIngressClass) bool { return c.Spec.Service != nil }), err
}

// GivesNodes says whether there is a pool that gives Services the addresses of nodes.
func (v *View) GivesNodes() bool {
	return slices.ContainsFunc(v.Pools().Pools(), func(p *addresspool.Pool) bool { return p.SourceOrDefault() == v1beta1.SourceNodeIP })
}

// MaxPorts implements Reader.
func (v *View) MaxPorts() int { return v.loadBalancers.MaxPorts }

// ClaimedPorts implements Reader.
func (v *View) ClaimedPorts(ctx context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error) {
	return v.claimsIn(ctx, claim.PortsScope(ip))
}
