package kube

import (
	"context"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

const (
	// IndexForwarded finds the Services of streams that the kernel forwards by their class.
	IndexForwarded = "forwarded"
	// IndexOpenAt finds such Services by the addresses, and by the ports of addresses, at which they are open, and those that are open by
	// the port of the class that they are for.
	IndexOpenAt = "openAt"
	// IndexMirrored finds the EndpointSlices of such Services by the name of the Service, in one namespace.
	IndexMirrored = "mirrored"
)

// forwardingIndexes are the indexes of what is written for streams that the kernel forwards.
func forwardingIndexes() []index {
	return []index{
		indexOf(&corev1.Service{}, IndexForwarded, func(svc *corev1.Service) []string {
			class, _, ok := ForwardedPort(svc)
			if !ok || !IsForwarded(svc) {
				return nil
			}
			return []string{class}
		}),
		indexOf(&corev1.Service{}, IndexOpenAt, func(svc *corev1.Service) (names []string) {
			for _, at := range OpenAt(svc) {
				names = append(names, at.Name())
			}
			if class, port, ok := ForwardedPort(svc); ok && len(names) > 0 {
				names = append(names, claim.Stream(class, port.Protocol, port.Port).Name())
			}
			return names
		}),
		indexOf(&discoveryv1.EndpointSlice{}, IndexMirrored, func(slice *discoveryv1.EndpointSlice) []string {
			if !IsMirror(slice) {
				return nil
			}
			return []string{slice.Labels[discoveryv1.LabelServiceName]}
		}),
	}
}

// digestKey is the annotation that a cached mirror has in place of what it says; see MirrorDigest.
const digestKey = "digest"

// MirrorDigest is the stream.SliceDigest of a mirror that came from the cache.
func MirrorDigest(cached *discoveryv1.EndpointSlice) string { return cached.Annotations[digestKey] }

// IsMirror says whether an EndpointSlice is one that Portcullis mirrors for a stream.
func IsMirror(slice client.Object) bool {
	return slice.GetLabels()[discoveryv1.LabelManagedBy] == MirrorManager
}

// isStreamService says whether a Service is of the kind that streams have. Its class can't be changed once it is set.
func isStreamService(svc *corev1.Service) bool {
	class := svc.Spec.LoadBalancerClass
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && class != nil && *class == v1beta1.StreamLoadBalancerClass
}

// IsForwarded says whether a Service is one that Portcullis has made for a stream that the kernel forwards, whichever.
func IsForwarded(svc *corev1.Service) bool { return isStreamService(svc) && Applied(svc) }

// ForwardedPort is the port that a Service of a stream forwards, and its class; ok is false if it is no such Service, or does not say.
func ForwardedPort(svc *corev1.Service) (class string, port stream.PortKey, ok bool) {
	class = svc.Labels[v1beta1.LabelClass]
	if !isStreamService(svc) || class == "" || len(svc.Spec.Ports) != 1 {
		return "", stream.PortKey{}, false
	}
	port = stream.PortKey{Protocol: v1beta1.Protocol(svc.Spec.Ports[0].Protocol), Port: svc.Spec.Ports[0].Port}
	return class, port, !claim.Stream(class, port.Protocol, port.Port).IsZero()
}

// OpenAt are the addresses, and the ports of them, at which the Service of a stream is open: a claim on any of them is one on the door.
// Tenants can't write the status that says so.
func OpenAt(svc *corev1.Service) (points []claim.Coordinate) {
	_, port, ok := ForwardedPort(svc)
	if !ok || !IsForwarded(svc) {
		return nil
	}
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(ingress.IP); err == nil {
			points = append(points, claim.Address(ip), claim.AddressPort(ip, string(port.Protocol), port.Port))
		}
	}
	return points
}

// ServiceKey is the name of the Service of a port of a class with an addressPool.
func ServiceKey(class *v1beta1.StreamIngressClass, port stream.PortKey) types.NamespacedName {
	return types.NamespacedName{
		Namespace: class.Spec.AddressPool.Namespace, Name: v1beta1.StreamServiceName(class.Name, port.Protocol, port.Port),
	}
}

// nameOfPort matches the names of v1beta1.StreamServiceName.
var nameOfPort = regexp.MustCompile(`-(tcp|udp)-([1-9]\d{0,4})$`)

// portNamed is the port in a name that is like one of those; ok is false if it is not.
func portNamed(name string) (port stream.PortKey, ok bool) {
	found := nameOfPort.FindStringSubmatch(name)
	if found == nil {
		return port, false
	}
	number, err := strconv.ParseInt(found[2], 10, 32) // it may be more than any port
	return stream.PortKey{Protocol: v1beta1.Protocol(strings.ToUpper(found[1])), Port: int32(number)}, err == nil
}

// PortAt is the port of which a Service, or an EndpointSlice's Service, has the name, and its class, nil if it is that of none. What the
// Service says of itself counts for nothing: by hand it can be made to say anything.
func (v *View) PortAt(ctx context.Context, key types.NamespacedName) (class *v1beta1.StreamIngressClass, port stream.PortKey, err error) {
	port, ok := portNamed(key.Name)
	if !ok {
		return nil, port, nil
	}
	classes, err := v.Classes(ctx)
	if err != nil {
		return nil, port, err
	}
	for i := range classes {
		if classes[i].Spec.AddressPool != nil && ServiceKey(&classes[i], port) == key {
			return &classes[i], port, nil
		}
	}
	return nil, port, nil
}

// Forwarded lists the Services of the streams of a class that the kernel forwards.
func (s *Streams) Forwarded(ctx context.Context, class string) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := s.objects.Reader.List(ctx, &list, client.MatchingFields{IndexForwarded: class})
	return list.Items, err
}

// OpenAt lists the Services of streams that are open at an address, at a port of one, or anywhere for a port of a class. More than one may
// say that it is for that port; tenants can't have one of theirs open.
func (s *Streams) OpenAt(ctx context.Context, at claim.Coordinate) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := s.objects.Reader.List(ctx, &list, client.MatchingFields{IndexOpenAt: at.Name()})
	return list.Items, err
}

// Mirrors lists the EndpointSlices that are mirrored for a Service.
func (s *Streams) Mirrors(ctx context.Context, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := s.objects.Reader.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{IndexMirrored: service.Name})
	return list.Items, err
}

// Mirror computes what is to be mirrored for a stream of a class. known is false while the EndpointSlices are not all read. A stream
// whose upstream, or the port of it, is not there has nothing mirrored.
func (v *View) Mirror(
	ctx context.Context, class *v1beta1.StreamIngressClass, si *v1beta1.StreamIngress, at claim.Coordinate,
) (mirrored stream.Mirrored, known bool, err error) {
	v.Endpoints.Ask()
	upstream := types.NamespacedName{Namespace: si.UpstreamNamespace(), Name: si.UpstreamService()}
	svc, err := v.Service(ctx, upstream)
	if err != nil {
		return mirrored, false, err
	}
	slices, known := v.Endpoints.Of(upstream)
	if svc == nil || !known || si.Outside() && !metav1.IsControlledBy(svc, si) {
		return mirrored, known, nil
	}
	number, found := stream.UpstreamPort(si, svc)
	if !found {
		return mirrored, true, nil
	}
	port := stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}
	source := stream.MirrorSource{
		Service: svc, Port: number, Slices: slices,
		Pod: func(key types.NamespacedName) *corev1.Pod {
			pod, errPod := v.Pods.Get(ctx, key)
			if errPod != nil && err == nil {
				err = errPod
			}
			return pod
		},
		Outside: func(address string) string { return stream.OutsideEndpoint(class, address, v.Streams.ClusterDomain()) },
	}
	mirrored = stream.Mirror(v1beta1.StreamServiceName(class.Name, port.Protocol, port.Port), port, source)
	return mirrored, true, err
}
