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
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// IndexBalanced finds the Services of type LoadBalancer that are Portcullis' to serve, under the value "true".
const IndexBalanced = "balanced"

// Balancing is what a View needs to know of load balancers.
type Balancing struct {
	// ByDefault: Services of type LoadBalancer without a class are Portcullis' to serve.
	ByDefault bool
	// Reserved are the ports of the nodes that no Service gets.
	Reserved loadbalancer.PortRanges
	// MaxPorts is how many ports one Service gets of what it shares with others, 0 for any number.
	MaxPorts int
}

var _ rules.LoadBalancerView = &View{}

// AddBalancingIndexes adds the indexes of Services of type LoadBalancer to a cache.
func AddBalancingIndexes(ctx context.Context, indexer client.FieldIndexer, b Balancing) error {
	err := indexer.IndexField(ctx, &corev1.Service{}, IndexBalanced, func(o client.Object) []string {
		if loadbalancer.IsOurs(o.(*corev1.Service), b.ByDefault) {
			return []string{"true"}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Services by %s: %w", IndexBalanced, err)
	}
	return addNodeIndexes(ctx, indexer)
}

// Balance tells the view of load balancers.
func (v *View) Balance(b Balancing) { v.balancing = b }

// Balances says whether a Service is a load balancer that is Portcullis' to serve.
func (v *View) Balances(svc *corev1.Service) bool {
	return loadbalancer.IsOurs(svc, v.balancing.ByDefault)
}

// Balanced lists the Services that are Portcullis' to serve; with a namespace only those in it.
func (v *View) Balanced(ctx context.Context, namespace string) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := v.Reader.List(ctx, &list, client.MatchingFields{IndexBalanced: "true"}, client.InNamespace(namespace))
	return list.Items, err
}

// ReservedNodePorts implements rules.LoadBalancerView. Proxies on the nodes, of classes without a Service, reserve what they open
// of their own accord.
func (v *View) ReservedNodePorts() loadbalancer.PortRanges {
	reserved := slices.Clone(v.balancing.Reserved)
	classes, err := v.ClassesOnNodes(context.Background())
	if err != nil {
		return reserved // the cache is not filled yet, and nothing is decided
	}
	for i := range classes {
		reserved = append(reserved, classes[i].Spec.Reserved...)
	}
	return reserved
}

// ClassesOnNodes implements rules.NodesView.
func (v *View) ClassesOnNodes(ctx context.Context) ([]v1beta1.StreamIngressClass, error) {
	classes, err := v.Classes(ctx)
	return slices.DeleteFunc(classes, func(c v1beta1.StreamIngressClass) bool { return c.Spec.Service != nil }), err
}

// GivesNodes says whether there is a pool that gives Services the addresses of nodes.
func (v *View) GivesNodes() bool {
	return slices.ContainsFunc(v.Pools().Pools(), func(p *addresspool.Pool) bool { return p.SourceOrDefault() == v1beta1.SourceNodeIP })
}

// MaxPorts implements rules.LoadBalancerView.
func (v *View) MaxPorts() int { return v.balancing.MaxPorts }

// ClaimedPorts implements rules.LoadBalancerView.
func (v *View) ClaimedPorts(ctx context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error) {
	return v.claimsIn(ctx, claim.PortsScope(ip))
}
