package stream

import (
	"cmp"
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
)

// Front is what is in front of the proxy of a class, where it shares its addresses, or the nodes, with Services port by
// port: what is opened on it is opened there, and must be free there. It is the class's Service; where the class has none, its
// proxy is on the network of the nodes, or it has addresses of a pool, and the class itself is the holder. In front of a Gateway stands
// the Service that has the port of one of the Gateway's own listeners at one of its addresses.
type Front struct {
	class *v1beta1.StreamIngressClass
	// Service is nil where the class is the holder. One that does not exist has only its name.
	Service *corev1.Service
	// Addresses are those that it shares.
	Addresses []netip.Addr
	// Nodes: it shares the nodes.
	Nodes bool
	// Others are the classes whose Gateways have an address of this one's: a port of either is nobody's of the other.
	Others []string
}

// FrontOf finds the front of a class, nil where it shares nothing. A Service that does not exist while the class names it keeps
// what it has.
func FrontOf(facts FrontFacts, class *v1beta1.StreamIngressClass) *Front {
	switch {
	case class.Spec.AddressPool != nil:
		return ownFront(facts, class)
	case class.Spec.Gateway != nil:
		return gatewayFront(facts, class)
	}
	ref := class.Spec.Service
	if class.OnNodes() && facts.GivesNodes() {
		return &Front{class: class, Nodes: true}
	}
	if ref == nil {
		return nil
	}
	svc := facts.Service(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	if svc != nil && !facts.IsOurs(svc) {
		return nil
	}
	if svc == nil { // it is about to be made again, and has what it had
		svc = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	}
	f := &Front{class: class, Service: svc}
	for _, at := range facts.Held(f.Holder()) {
		switch {
		case at.IsNode():
			f.Nodes = true
		case at.IsAddress() && at.Port() != 0 && !slices.Contains(f.Addresses, at.Address()):
			f.Addresses = append(f.Addresses, at.Address())
		}
	}
	if !f.Nodes && len(f.Addresses) == 0 {
		return nil
	}
	return f
}

// ownFront is the front of a class that has addresses of a pool, nil where it shares none. Of an address that it holds whole, it
// has every port.
func ownFront(facts FrontFacts, class *v1beta1.StreamIngressClass) *Front {
	f := &Front{class: class}
	for _, ip := range ClassAddresses(class) {
		if whole := facts.Claim(claim.Address(ip).Name()); whole == nil || claim.HolderOf(whole) != f.Holder() {
			f.Addresses = append(f.Addresses, ip)
		}
	}
	if len(f.Addresses) == 0 {
		return nil
	}
	return f
}

// gatewayFront is the front of a class with a Gateway, nil where it shares nothing.
func gatewayFront(facts FrontFacts, class *v1beta1.StreamIngressClass) *Front {
	f := &Front{class: class}
	addresses := ClassAddresses(class)
	if len(addresses) == 0 {
		return nil
	}
	own := facts.Held(claim.GatewayHolder(class.Spec.Gateway.Namespace, class.Spec.Gateway.Name))
	for _, ip := range addresses {
		if svc := serviceAt(facts, class, own, ip); svc != nil && (f.Service == nil || f.Service.UID == svc.UID) {
			f.Service, f.Addresses = svc, append(f.Addresses, ip)
		}
	}
	classes := facts.Classes()
	for i := range classes {
		if SharesGateway(class, &classes[i]) {
			f.Others = append(f.Others, classes[i].Name)
		}
	}
	if f.Service == nil && len(f.Others) == 0 {
		return nil
	}
	return f
}

// serviceAt is the Service of ours that has the port of one of a Gateway's own listeners at an address that it shares, nil for none. Only
// one in the Gateway's namespace counts: a tenant's may have that port there, where the Gateway's does not, and would be given the others.
func serviceAt(facts FrontFacts, class *v1beta1.StreamIngressClass, own []claim.Coordinate, ip netip.Addr) *corev1.Service {
	for _, at := range own {
		if at.Class() != class.Name {
			continue
		}
		c := facts.Claim(claim.AddressPort(ip, string(at.Protocol()), at.Port()).Name())
		if c == nil || !claim.HolderOf(c).IsService() || claim.HolderOf(c).Namespace != class.Spec.Gateway.Namespace {
			continue
		}
		if svc := facts.Service(claim.HolderOf(c).Key()); svc != nil && facts.IsOurs(svc) {
			return svc
		}
	}
	return nil
}

// SharesGateway says whether two classes have Gateways with an address in common.
func SharesGateway(a, b *v1beta1.StreamIngressClass) bool {
	return a.Name != b.Name && a.Spec.Gateway != nil && b.Spec.Gateway != nil &&
		slices.ContainsFunc(a.Status.Addresses, func(ip string) bool { return slices.Contains(b.Status.Addresses, ip) })
}

// Holder is the Service as holder of claims, or the class.
func (f *Front) Holder() claim.Holder {
	if f.Service == nil {
		return claim.ClassHolder(f.class.Name)
	}
	return claim.ServiceHolder(f.Service.Namespace, f.Service.Name)
}

// Claimant is the holder of a point as it is now. Its claims are settled at once: they stay while somebody has a claim on the port.
func (f *Front) Claimant(point claim.Coordinate) claim.Claimant {
	if point.IsStream() {
		return claim.Claimant{Holder: claim.ClassHolder(f.class.Name), UID: f.class.UID, Generation: f.class.Generation}
	}
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
	return holder == f.Holder() || holder == claim.ClassHolder(f.class.Name) || f.Service == nil && f.Nodes && holder.IsClass()
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
	for _, other := range f.Others {
		points = append(points, claim.Stream(other, protocol, port))
	}
	return points
}

// Conflicts say what keeps a port of the proxy from being opened on its front, as far as is known without asking the API
// server; none if nothing does.
func (f *Front) Conflicts(facts FrontFacts, at claim.Coordinate) refusal.Problems {
	for _, point := range f.Points(at.Protocol(), at.Port()) {
		if problems := f.Refused(facts.ReservedNodePorts, point, f.claimOn(facts, point)); len(problems) > 0 {
			return problems
		}
	}
	return nil
}

// claimOn finds the claim on a point of the front, or the one that keeps it from Services, or that a Service will have.
func (f *Front) claimOn(facts FrontFacts, point claim.Coordinate) *v1beta1.EdgeClaim {
	if point.IsNode() { // what most have; who lists one is looked for at each node
		held := facts.Claim(point.Name())
		if f.Service != nil {
			held = loadbalancer.HeldOnNodes(facts, point)
		}
		if held != nil {
			return held
		}
		return f.Listed(facts, point)
	}
	listed := f.Listed(facts, point) // before the claim: who makes one meanwhile is found by either
	return cmp.Or(facts.Claim(point.Name()), listed)
}

// Listed is the claim that another Service will have on a point, which its status lists and it does not hold; nil for none.
func (f *Front) Listed(facts FrontFacts, point claim.Coordinate) *v1beta1.EdgeClaim {
	var listing []*corev1.Service
	switch {
	case point.IsNode():
		listing = f.others(facts.ListingOnNodes(point))
	case point.IsAddress():
		listing = f.others(facts.Listing(point.Address()))
	}
	for _, svc := range listing {
		if loadbalancer.HasPort(svc, point) && facts.StillLists(svc, point) {
			return loadbalancer.WillHold(svc, point)
		}
	}
	return nil
}

// others are those of some Services that are not the front, by age.
func (f *Front) others(services []*corev1.Service) []*corev1.Service {
	return slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool {
		return claim.ServiceHolder(svc.Namespace, svc.Name) == f.Holder()
	})), loadbalancer.ByAge)
}

// Refused tells a stream that its port can't be opened on the front at a point, on which held is a claim, nil for none. reserved
// answers which ports of the nodes no Service gets; it is asked only where that counts.
func (f *Front) Refused(
	reserved func() loadbalancer.PortRanges, point claim.Coordinate, held *v1beta1.EdgeClaim,
) refusal.Problems {
	switch {
	case held != nil && !f.IsOwn(held):
		text := refusal.Held(held, false, 0) + f.where(point)
		return refusal.One(v1beta1.ReasonPortConflict, refusal.Duplicate(listenPath, point.Point(), text))
	case held == nil && f.Service != nil && point.IsNode() && reserved().Has(point.Port()):
		return refusal.One(v1beta1.ReasonPortReserved, field.Invalid(listenPath, point.Port(),
			"the nodes reserve this port for themselves, and they serve "+f.text()))
	default:
		return nil
	}
}

// where says what a point is that somebody else holds, as the end of a refusal.
func (f *Front) where(point claim.Coordinate) string {
	switch {
	case point.IsStream():
		return fmt.Sprintf(", of class %q, whose Gateway has the same address as that of class %q", point.Class(), f.class.Name)
	case point.IsAddress() && f.Service == nil:
		return fmt.Sprintf(", on %s, which is also an address of class %q", point.Address(), f.class.Name)
	case point.IsAddress():
		return fmt.Sprintf(", on %s, which is also an address of %s", point.Address(), f.text())
	case f.Service == nil:
		return ", on the nodes, where the class's proxy listens, too"
	default:
		return ", on the nodes, which also serve " + f.text()
	}
}

// text is the Service in front, in words.
func (f *Front) text() string {
	if f.class.Spec.Gateway != nil {
		return fmt.Sprintf("Service %s/%s, which stands in front of the class's Gateway", f.Service.Namespace, f.Service.Name)
	}
	return fmt.Sprintf("Service %s/%s, which stands in front of the class's proxy", f.Service.Namespace, f.Service.Name)
}

// Free takes out of a set the ports that are not free on the front.
func (f *Front) Free(facts FrontFacts, protocol v1beta1.Protocol, ports *PortSet) {
	if f == nil {
		return
	}
	var claims []*v1beta1.EdgeClaim
	for _, ip := range f.Addresses {
		claims = append(claims, facts.ClaimedPorts(ip)...)
		for _, svc := range f.others(facts.Listing(ip)) {
			for _, point := range loadbalancer.ExternalPoints(svc, ip) {
				claims = append(claims, loadbalancer.WillHold(svc, point))
			}
		}
	}
	if f.Nodes {
		claims = append(claims, facts.NodePortClaims()...)
	}
	if f.Nodes && f.Service != nil {
		for _, r := range facts.ReservedNodePorts() {
			ports.RemoveRange(Ends(r))
		}
		classes := facts.ClassesOnNodes()
		for i := range classes {
			facts.Unclaimed(ports, classes[i].Name, protocol)
		}
	}
	for _, other := range f.Others {
		facts.Unclaimed(ports, other, protocol)
	}
	for _, c := range claims {
		if at, err := claim.Of(c); err == nil && at.Protocol() == protocol && !f.IsOwn(c) {
			ports.Remove(at.Port())
		}
	}
}
