package kube

import (
	"cmp"
	"context"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Streams reads StreamIngresses.
type Streams struct {
	objects   *objects
	occupancy *Occupancy
	// Domain is that of the cluster, "" for cluster.local.
	Domain string
}

// Get reads a StreamIngress, nil for none.
func (s *Streams) Get(ctx context.Context, key types.NamespacedName) (*v1beta1.StreamIngress, error) {
	return read[v1beta1.StreamIngress](ctx, s.objects, key)
}

// OfClass lists the streams that name a class, or that it serves.
func (s *Streams) OfClass(ctx context.Context, class string) ([]v1beta1.StreamIngress, error) {
	var list v1beta1.StreamIngressList
	err := s.objects.Reader.List(ctx, &list, client.MatchingFields{IndexClass: class})
	return list.Items, err
}

// At lists the streams of any class that ask for a port or have been given it; port 0 stands for those that wait to
// be given one.
func (s *Streams) At(ctx context.Context, protocol v1beta1.Protocol, port int32) ([]v1beta1.StreamIngress, error) {
	key := listenKey(protocol, port)
	isThere := func(one *v1beta1.StreamIngress) bool { return slices.Contains(listens(one), port) }
	if kept, known := keptUnder[*v1beta1.StreamIngress](s.objects.stores, IndexListen, key); known {
		var streams []v1beta1.StreamIngress
		for _, one := range kept {
			if isThere(one) {
				streams = append(streams, *one)
			}
		}
		return streams, nil
	}
	var list v1beta1.StreamIngressList
	err := s.objects.Reader.List(ctx, &list, client.MatchingFields{IndexListen: key})
	return slices.DeleteFunc(list.Items, func(one v1beta1.StreamIngress) bool { return !isThere(&one) }), err
}

// To lists the streams whose upstream is a Service.
func (s *Streams) To(ctx context.Context, service types.NamespacedName) ([]v1beta1.StreamIngress, error) {
	var list v1beta1.StreamIngressList
	err := s.objects.Reader.List(ctx, &list, client.MatchingFields{IndexUpstream: service.String()})
	return list.Items, err
}

// IsOutside answers Facts.IsOutside. It asks for the cause, a stream, as what is made for that comes and goes later; and for the
// EndpointSlice that may outlive the stream. What the Service says of its owner is not asked for: tenants can write that.
func (s *Streams) IsOutside(ctx context.Context, service types.NamespacedName) (bool, error) {
	if !v1beta1.IsOutsideServiceName(service.Name) {
		return false, nil
	}
	slice, err := read[discoveryv1.EndpointSlice](ctx, s.objects, service)
	if err != nil || slice != nil && IsOwnSlice(slice) {
		return err == nil, err
	}
	var list v1beta1.StreamIngressList
	of := client.MatchingFields{IndexOutside: service.Name}
	err = s.objects.Reader.List(ctx, &list, client.InNamespace(service.Namespace), of, client.Limit(1))
	return len(list.Items) > 0, err
}

// ClusterDomain is the domain of the names of the cluster's own Services.
func (s *Streams) ClusterDomain() string { return cmp.Or(s.Domain, "cluster.local") }

// Unclaimed takes the ports of a class that have a claim out of a set.
func (s *Streams) Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol) {
	s.occupancy.Subtract(ports, class, protocol)
}
