package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
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
	return addIndexes(ctx, indexer,
		indexOf(&corev1.Service{}, IndexOurLoadBalancers, func(svc *corev1.Service) []string {
			if loadbalancer.IsOurs(svc, o.ByDefault) {
				return []string{"true"}
			}
			return nil
		}),
		indexOf(&corev1.Service{}, indexExternalIP, externalKeys),
		indexOf(&discoveryv1.EndpointSlice{}, IndexService, func(slice *discoveryv1.EndpointSlice) []string {
			return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}
		}),
	)
}

// LoadBalancers reads Services of type LoadBalancer, the pools that give them addresses, and the nodes.
type LoadBalancers struct {
	objects   *objects
	pools     *book[*v1beta1.AddressPool, addresspool.Book]
	addresses *Addresses
	claims    *Claims
	Options   LoadBalancerOptions
}

// IsOurs says whether a Service is a load balancer that is Portcullis' to serve.
func (l *LoadBalancers) IsOurs(svc *corev1.Service) bool {
	return loadbalancer.IsOurs(svc, l.Options.ByDefault)
}

// ListOurs lists the Services of type LoadBalancer that are Portcullis' to serve; with a namespace only those in it.
func (l *LoadBalancers) ListOurs(ctx context.Context, namespace string) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := l.objects.Reader.List(ctx, &list, client.MatchingFields{IndexOurLoadBalancers: "true"}, client.InNamespace(namespace))
	return list.Items, err
}

// ReservedNodePorts are the ports of the nodes that no Service gets. Proxies on the nodes, of classes without a Service, reserve what
// they open of their own accord.
func (l *LoadBalancers) ReservedNodePorts() loadbalancer.PortRanges {
	reserved := slices.Clone(l.Options.Reserved)
	classes, err := l.objects.ClassesOnNodes(context.Background())
	if err != nil {
		return reserved // the cache is not filled yet, and nothing is decided
	}
	for i := range classes {
		reserved = append(reserved, classes[i].Spec.Reserved...)
	}
	return reserved
}

// GivesNodes says whether there is a pool that gives Services the addresses of nodes.
func (l *LoadBalancers) GivesNodes() bool {
	return slices.ContainsFunc(l.Pools().Pools(), func(p *addresspool.Pool) bool { return p.SourceOrDefault() == v1beta1.SourceNodeIP })
}

// MaxPorts is how many ports one Service gets of what it shares with others, 0 for any number.
func (l *LoadBalancers) MaxPorts() int { return l.Options.MaxPorts }

// NodePorts counts the node ports that Services have, by the cache.
func (l *LoadBalancers) NodePorts(ctx context.Context) (int, error) {
	var services corev1.ServiceList
	if err := l.objects.Reader.List(ctx, &services); err != nil {
		return 0, err
	}
	used := map[int32]bool{}
	for i := range services.Items {
		spec := &services.Items[i].Spec
		used[spec.HealthCheckNodePort] = true
		for _, p := range spec.Ports {
			used[p.NodePort] = true
		}
	}
	delete(used, 0) // has none
	return len(used), nil
}
