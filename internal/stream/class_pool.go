package stream

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// AddressesPath is the field in which a class asks for addresses of its pool, and PoolNamePath the one that names the pool.
var (
	AddressesPath = specPath.Child("addressPool", "addresses")
	PoolNamePath  = specPath.Child("addressPool", "name")
)

// RequestedAddresses are the addresses that a class asks for by name, none if it leaves that to the pool. Those that can't be read
// are problems.
func RequestedAddresses(class *v1beta1.StreamIngressClass) (addresses []netip.Addr, problems refusal.Problems) {
	if class.Spec.AddressPool == nil {
		return nil, nil
	}
	for i, text := range class.Spec.AddressPool.Addresses {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" || ip.Is4In6() {
			problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonInvalid, Err: field.Invalid(AddressesPath.Index(i), text,
				"must be an IP address, such as 192.0.2.10 or 2001:db8::10")})
			continue
		}
		addresses = append(addresses, ip)
	}
	return addresses, problems
}

// ClassAddresses are the addresses that a class has, as its status says.
func ClassAddresses(class *v1beta1.StreamIngressClass) []netip.Addr {
	var addresses []netip.Addr
	for _, text := range class.Status.Addresses {
		if ip, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, ip)
		}
	}
	return addresses
}

// poolChange decides whether a change of a class would take the addresses, or the Services, from so many streams.
func poolChange(before, after *v1beta1.StreamIngressClass, served int) (problems refusal.Problems) {
	was, is := before.Spec.AddressPool, after.Spec.AddressPool
	if was == nil && is == nil {
		return nil
	}
	if was == nil || is == nil {
		text := map[bool]string{true: "none", false: "a pool"}
		return keeps(specPath.Child("addressPool"), text[was == nil], text[is == nil], served)
	}
	problems = append(keeps(PoolNamePath, was.Name, is.Name, served),
		keeps(specPath.Child("addressPool", "namespace"), was.Namespace, is.Namespace, served)...)
	asked, _ := RequestedAddresses(after)
	for _, ip := range ClassAddresses(before) {
		if len(asked) > 0 && !slices.Contains(asked, ip) {
			problems = append(problems, keeps(AddressesPath, ip.String(), asked[0].String(), served)...)
		}
	}
	return problems
}

// OutsideEndpoint says why a class without a proxy does not forward to an address that is no Pod's of the upstream's namespace;
// empty if it does: such an address is an upstream outside the cluster.
func OutsideEndpoint(class *v1beta1.StreamIngressClass, address, domain string) string {
	if class.Spec.OutsideUpstreams != v1beta1.OutsideAllowed {
		return fmt.Sprintf("class %q does not let streams lead elsewhere (outsideUpstreams: Denied)", class.Name)
	}
	if why := OutsideHost(address, domain); why != "" {
		return "it " + why
	}
	return ""
}

// UpstreamPort is the port of a Service that a stream leads to; ok is false if there is none.
func UpstreamPort(s *v1beta1.StreamIngress, svc *corev1.Service) (number int32, ok bool) {
	return FindPort(svc, s.Spec.Upstream.Port, s.ProtocolOrDefault())
}
