package rules

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// NodesView is what the rules see of who has ports of the nodes.
type NodesView interface {
	// Claim reads a claim by name.
	Claim(ctx context.Context, name string) (*v1beta1.EdgeClaim, error)
	// ClassesOnNodes lists the classes without a Service, whose proxies are on the network of the nodes.
	ClassesOnNodes(ctx context.Context) ([]v1beta1.StreamIngressClass, error)
}

// FrontView is what the rules see of the Service in front of a proxy, as a load balancer.
type FrontView interface {
	NodesView
	// Service reads a Service.
	Service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error)
	// Balances says whether a Service is a load balancer that is Portcullis' to serve.
	Balances(svc *corev1.Service) bool
	// Held lists the points that a holder has claims on, in ascending order.
	Held(ctx context.Context, by claim.Holder) ([]claim.Coordinate, error)
	// ClaimedPorts lists the claims on ports of an address.
	ClaimedPorts(ctx context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error)
	// NodePortClaims lists the claims on ports of the nodes.
	NodePortClaims(ctx context.Context) ([]*v1beta1.EdgeClaim, error)
	// ReservedNodePorts are the ports of the nodes that no Service gets.
	ReservedNodePorts() loadbalancer.PortRanges
	// Unclaimed takes the ports of a class that have a claim out of a set.
	Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol)
	// GivesNodes says whether there is a pool that gives Services the addresses of nodes.
	GivesNodes() bool
}

// Front is what stands in front of the proxy of a class, where it shares its addresses, or the nodes, with Services port by
// port: what is opened on it is opened there, and must be free there. It is the class's Service; where the class has none, its
// proxy is on the network of the nodes, and the class itself is the holder.
type Front struct {
	class *v1beta1.StreamIngressClass
	// Service is nil for a proxy on the network of the nodes. One that does not exist has only its name.
	Service *corev1.Service
	// Addresses are those that it shares.
	Addresses []netip.Addr
	// Nodes: it shares the nodes.
	Nodes bool
}

// FrontOf finds the front of a class, nil where it shares nothing. A Service that does not exist while the class names it keeps
// what it has.
func FrontOf(ctx context.Context, v FrontView, class *v1beta1.StreamIngressClass) (*Front, error) {
	ref := class.Spec.Service
	if ref == nil && v.GivesNodes() {
		return &Front{class: class, Nodes: true}, nil
	}
	if ref == nil {
		return nil, nil
	}
	svc, err := v.Service(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	if err != nil || svc != nil && !v.Balances(svc) {
		return nil, err
	}
	if svc == nil { // it is about to be made again, and has what it had
		svc = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	}
	f := &Front{class: class, Service: svc}
	held, err := v.Held(ctx, f.Holder())
	if err != nil {
		return nil, err
	}
	for _, at := range held {
		switch {
		case at.IsNode():
			f.Nodes = true
		case at.IsAddress() && at.Port() != 0 && !slices.Contains(f.Addresses, at.Address()):
			f.Addresses = append(f.Addresses, at.Address())
		}
	}
	if !f.Nodes && len(f.Addresses) == 0 {
		return nil, nil
	}
	return f, nil
}

// Holder is the Service as holder of claims, or the class.
func (f *Front) Holder() claim.Holder {
	if f.Service == nil {
		return claim.ClassHolder(f.class.Name)
	}
	return claim.ServiceHolder(f.Service.Namespace, f.Service.Name)
}

// Claimant is the holder as it is now. Its claims are settled at once: they stay while somebody has a claim on the port.
func (f *Front) Claimant() claim.Claimant {
	if f.Service == nil {
		return claim.Claimant{Holder: f.Holder(), UID: f.class.UID, Generation: f.class.Generation}
	}
	return claim.Claimant{
		Holder: f.Holder(), UID: f.Service.UID, Generation: claim.Version(f.Service.ResourceVersion), ClassName: f.class.Name,
	}
}

// IsOwn says whether a claim is the front's. Proxies of several classes may be on the nodes, on other ones each: what one of
// them has there is no reason to refuse it to another.
func (f *Front) IsOwn(held *v1beta1.EdgeClaim) bool {
	holder := claim.HolderOf(held)
	return holder == f.Holder() || f.Service == nil && holder.IsClass()
}

// Points are what a port of the proxy takes of the addresses and the nodes.
func (f *Front) Points(protocol v1beta1.Protocol, port int32) []claim.Coordinate {
	if f == nil {
		return nil
	}
	points := make([]claim.Coordinate, 0, len(f.Addresses)+1)
	for _, ip := range f.Addresses {
		points = append(points, claim.AddressPort(ip, string(protocol), port))
	}
	if f.Nodes {
		points = append(points, claim.NodePort(string(protocol), port))
	}
	return points
}

// Hindrance says what keeps a port of the proxy from being opened on its front, as far as is known without asking the API
// server; none if nothing does.
func (f *Front) Hindrance(ctx context.Context, v FrontView, at claim.Coordinate) (refusal.Problems, error) {
	for _, point := range f.Points(at.Protocol(), at.Port()) {
		held, err := f.claimOn(ctx, v, point)
		if err != nil {
			return nil, err
		}
		if problems := f.Refused(v, point, held); len(problems) > 0 {
			return problems, nil
		}
	}
	return nil, nil
}

// claimOn finds the claim on a point of the front, or the one that keeps it from Services.
func (f *Front) claimOn(ctx context.Context, v NodesView, point claim.Coordinate) (*v1beta1.EdgeClaim, error) {
	if f.Service != nil && point.IsNode() {
		return HeldOnNodes(ctx, v, point)
	}
	return v.Claim(ctx, point.Name())
}

// HeldOnNodes finds the claim that keeps a port of the nodes from Services, nil for none: the one on the port itself, or the one on
// the port of a proxy that listens on the nodes. Its class claims it there, too, but only when it has learned that the nodes are
// shared, or that its proxy is on them by now; a Service that has waited for the same would be faster.
func HeldOnNodes(ctx context.Context, v NodesView, at claim.Coordinate) (*v1beta1.EdgeClaim, error) {
	held, err := v.Claim(ctx, at.Name())
	if err != nil || held != nil {
		return held, err
	}
	classes, err := v.ClassesOnNodes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range classes {
		port := claim.Stream(classes[i].Name, at.Protocol(), at.Port())
		if port.IsZero() { // SCTP, which no proxy serves
			return nil, nil
		}
		if held, err = v.Claim(ctx, port.Name()); err != nil || held != nil {
			return held, err
		}
	}
	return nil, nil
}

// Refused tells a stream that its port can't be opened on the front at a point, on which held is a claim, nil for none.
func (f *Front) Refused(v FrontView, point claim.Coordinate, held *v1beta1.EdgeClaim) refusal.Problems {
	if held != nil && f.IsOwn(held) {
		return nil
	}
	if f.Service == nil {
		if held == nil {
			return nil
		}
		return refusal.One(v1beta1.ReasonPortConflict, refusal.Duplicate(listenPath, point.Point(), refusal.Held(held, false, 0)+
			", on the nodes, where the class's proxy listens, too"))
	}
	where := fmt.Sprintf("Service %s/%s, which stands in front of the class's proxy", f.Service.Namespace, f.Service.Name)
	switch {
	case held != nil && point.IsNode():
		return refusal.One(v1beta1.ReasonPortConflict, refusal.Duplicate(listenPath, point.Point(), refusal.Held(held, false, 0)+
			", on the nodes, which also serve "+where))
	case held != nil:
		return refusal.One(v1beta1.ReasonPortConflict, refusal.Duplicate(listenPath, point.Point(), refusal.Held(held, false, 0)+
			fmt.Sprintf(", on %s, which is also an address of %s", point.Address(), where)))
	case point.IsNode() && v.ReservedNodePorts().Has(point.Port()):
		return refusal.One(v1beta1.ReasonPortReserved, field.Invalid(listenPath, point.Port(),
			"the nodes reserve this port for themselves, and they serve "+where))
	default:
		return nil
	}
}

// Free takes out of a set the ports that are not free on the front.
func (f *Front) Free(ctx context.Context, v FrontView, protocol v1beta1.Protocol, ports *stream.PortSet) error {
	if f == nil {
		return nil
	}
	var claims []*v1beta1.EdgeClaim
	for _, ip := range f.Addresses {
		on, err := v.ClaimedPorts(ctx, ip)
		if err != nil {
			return err
		}
		claims = append(claims, on...)
	}
	if f.Nodes {
		on, err := v.NodePortClaims(ctx)
		if err != nil {
			return err
		}
		claims = append(claims, on...)
	}
	if f.Nodes && f.Service != nil {
		for _, r := range v.ReservedNodePorts() {
			ports.RemoveRange(stream.Ends(r))
		}
		classes, err := v.ClassesOnNodes(ctx)
		if err != nil {
			return err
		}
		for i := range classes {
			v.Unclaimed(ports, classes[i].Name, protocol)
		}
	}
	for _, c := range claims {
		if at, err := claim.Of(c); err == nil && at.Protocol() == protocol && !f.IsOwn(c) {
			ports.Remove(at.Port())
		}
	}
	return nil
}
