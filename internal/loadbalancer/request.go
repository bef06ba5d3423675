// Package loadbalancer is what a Service of type LoadBalancer says: whether it is Portcullis' to serve, what it asks for,
// which points of the edge that takes, and what its status says of them.
package loadbalancer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
)

// Request is what a Service requests.
type Request struct {
	// Pool is the AddressPool that is to serve it, empty for any.
	Pool string
	// Addresses are those that it is to have, at most one of each family; of another family it may have any.
	Addresses []netip.Addr
	// AddressesPath is the field that names them.
	AddressesPath *field.Path
	// Sharing is what of an address it is to have, empty for either.
	Sharing v1beta1.AddressSharing
	// Families are its IP families. There is none while the API server has not chosen them.
	Families []corev1.IPFamily
	// EachFamily: it is to have an address of each family, or none at all.
	EachFamily bool
	// Ports are its ports.
	Ports []Port
}

// Port is a port of a Service. It is comparable.
type Port struct {
	Protocol corev1.Protocol
	Number   int32
}

// String is the port as people write it, for example TCP/80.
func (p Port) String() string { return fmt.Sprintf("%s/%d", p.Protocol, p.Number) }

// The fields of a request.
var (
	annotationsPath = field.NewPath("metadata", "annotations")
	// PoolPath names the pool.
	PoolPath = annotationsPath.Key(v1beta1.AnnotationAddressPool)
	// SharingPath names the sharing.
	SharingPath = annotationsPath.Key(v1beta1.AnnotationSharing)
	// TypePath is the field that asks for just any address.
	TypePath = field.NewPath("spec", "type")
	// PortsPath is the field that lists the ports.
	PortsPath = field.NewPath("spec", "ports")

	addressesPath      = annotationsPath.Key(v1beta1.AnnotationAddresses)
	loadBalancerIPPath = field.NewPath("spec", "loadBalancerIP")
)

// PortPath is the number of one of the ports.
func PortPath(i int) *field.Path { return PortsPath.Index(i).Child("port") }

// IsOurs says whether a Service is Portcullis' to serve. byDefault says whether those without a class are.
func IsOurs(svc *corev1.Service, byDefault bool) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	if svc.Spec.LoadBalancerClass == nil {
		return byDefault
	}
	return *svc.Spec.LoadBalancerClass == v1beta1.LoadBalancerClass
}

// Read reads what a Service asks for.
func Read(svc *corev1.Service) (Request, field.ErrorList) {
	request := Request{
		Families:   slices.Clone(svc.Spec.IPFamilies),
		EachFamily: svc.Spec.IPFamilyPolicy != nil && *svc.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack,
	}
	for _, p := range svc.Spec.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		request.Ports = append(request.Ports, Port{Protocol: protocol, Number: p.Port})
	}
	errs := request.readAddresses(svc)
	if name, asked := svc.Annotations[v1beta1.AnnotationAddressPool]; asked {
		request.Pool = name
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			errs = append(errs, field.Invalid(PoolPath, name, "is not the name of an AddressPool: name one, or leave the annotation out"))
		}
	}
	if sharing, asked := svc.Annotations[v1beta1.AnnotationSharing]; asked {
		request.Sharing = v1beta1.AddressSharing(sharing)
		if request.Sharing != v1beta1.SharingNone && request.Sharing != v1beta1.SharingPorts {
			errs = append(errs, field.NotSupported(SharingPath, sharing, []v1beta1.AddressSharing{v1beta1.SharingNone, v1beta1.SharingPorts}))
		}
	}
	return request, errs
}

// MaxLength is how long what asks for addresses may be, in bytes. It is more than the longest two addresses need.
const MaxLength = 1 << 10

// readAddresses reads the annotation that asks for addresses, or the older field for one.
func (r *Request) readAddresses(svc *corev1.Service) field.ErrorList {
	text, asked := svc.Annotations[v1beta1.AnnotationAddresses]
	one := svc.Spec.LoadBalancerIP
	r.AddressesPath = addressesPath
	if !asked {
		if one == "" {
			return nil
		}
		r.AddressesPath, text = loadBalancerIPPath, one
	}
	if len(text) > MaxLength {
		return r.unreadable(text[:32]+"...", fmt.Sprintf("is longer than %d bytes, which is the most: "+
			"write an IP address, or one of each IP family, for example 192.0.2.7 or 192.0.2.7,2001:db8::7", MaxLength))
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		ip, err := netip.ParseAddr(part)
		switch {
		case err != nil:
			return r.unreadable(part, "is not an IP address: write one, or one of each IP family, for example 192.0.2.7 or 192.0.2.7,2001:db8::7")
		case ip.Zone() != "" || ip.Is4In6():
			return r.unreadable(part, fmt.Sprintf("write %s", ip.WithZone("").Unmap()))
		case slices.ContainsFunc(r.Addresses, func(other netip.Addr) bool { return other.BitLen() == ip.BitLen() }):
			return r.unreadable(text, fmt.Sprintf("a Service has at most one %s address", addresspool.FamilyOf(ip)))
		}
		r.Addresses = append(r.Addresses, ip)
	}
	if ip, err := netip.ParseAddr(one); asked && one != "" && (err != nil || !slices.Contains(r.Addresses, ip)) {
		r.AddressesPath = loadBalancerIPPath
		return r.unreadable(one, fmt.Sprintf("the annotation %s asks for %s: leave this field out", v1beta1.AnnotationAddresses, text))
	}
	return nil
}

func (r *Request) unreadable(value, detail string) field.ErrorList {
	r.Addresses = nil
	return field.ErrorList{field.Invalid(r.AddressesPath, value, detail)}
}

// Address is the address of a family that is asked for; ok is false when any will do.
func (r Request) Address(family corev1.IPFamily) (ip netip.Addr, ok bool) {
	for _, ip := range r.Addresses {
		if addresspool.FamilyOf(ip) == family {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// HasPort says whether a port is one of those of the Service.
func (r Request) HasPort(protocol v1beta1.Protocol, number int32) bool {
	return slices.Contains(r.Ports, Port{Protocol: corev1.Protocol(protocol), Number: number})
}
