package loadbalancer

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

func TestRequestOf(t *testing.T) {
	const (
		poolField      = "metadata.annotations[nginx-stream.jeffthecoder.xyz/address-pool]"
		addressesField = "metadata.annotations[nginx-stream.jeffthecoder.xyz/addresses]"
		sharingField   = "metadata.annotations[nginx-stream.jeffthecoder.xyz/sharing]"
	)
	illegible := func(path, text string) verdict { return verdict{v1beta1.ReasonInvalidRequest, path + ": " + text} }
	noName := illegible(poolField, `Invalid value: "D M Z": is not the name of an AddressPool: name one, or leave the annotation out`)
	noSharing := illegible(sharingField, `Unsupported value: "all": supported values: "None", "Ports"`)
	all := func() *corev1.Service {
		svc := asking(v1beta1.AnnotationAddressPool, "a", v1beta1.AnnotationAddresses, "192.0.2.1,2001:db8::1", v1beta1.AnnotationSharing, "Ports")
		svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		return svc
	}
	for name, tc := range map[string]struct {
		svc  *corev1.Service
		want []verdict
	}{
		"nothing in particular": {asking(), nil},
		"all there is":          {all(), nil},
		"no address": {asking(v1beta1.AnnotationAddresses, "everywhere"), []verdict{illegible(addressesField,
			`Invalid value: "everywhere": is not an IP address: write one, or one of each IP family, for example 192.0.2.7 or 192.0.2.7,2001:db8::7`)}},
		"no pool, no sharing": {asking(v1beta1.AnnotationAddressPool, "D M Z", v1beta1.AnnotationSharing, "all"), []verdict{noName, noSharing}},
	} {
		request, problems := RequestOf(tc.svc)
		if diff := cmp.Diff(tc.want, verdicts(problems)); diff != "" {
			t.Error(name, diff)
		}
		if !request.HasPort(v1beta1.TCP, 80) {
			t.Errorf("%s: its ports are %v", name, request.Ports)
		}
	}
	request, _ := RequestOf(all())
	want := Request{
		Pool: "a", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, Sharing: v1beta1.SharingPorts, EachFamily: true,
		Families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, Ports: []Port{{Protocol: corev1.ProtocolTCP, Number: 80}, {Protocol: corev1.ProtocolUDP, Number: 53}},
	}
	if request.AddressesPath.String() != addressesField {
		t.Errorf("the addresses are named by %s", request.AddressesPath)
	}
	if diff := cmp.Diff(want, request, cmpopts.EquateComparable(netip.Addr{}), cmpopts.IgnoreFields(Request{}, "AddressesPath")); diff != "" {
		t.Error(diff)
	}
}

func TestPendingProblems(t *testing.T) {
	for want, reasons := range map[bool][][]string{
		true: {nil, {v1beta1.ReasonNoAddressPool}, {v1beta1.ReasonNoFreeAddress, v1beta1.ReasonNoReadyNode}},
		false: {{v1beta1.ReasonPortConflict}, {v1beta1.ReasonNoFreeAddress, v1beta1.ReasonAddressConflict},
			{v1beta1.ReasonAddressPoolNotFound}, {v1beta1.ReasonPortReserved}},
	} {
		for _, some := range reasons {
			var problems refusal.Problems
			for _, reason := range some {
				problems = append(problems, refusal.Problem{Reason: reason})
			}
			if IsPending(problems) != want {
				t.Errorf("%v: time may solve it: %v", some, !want)
			}
		}
	}
}

func TestPortsOfProblems(t *testing.T) {
	ports := []Port{{Protocol: corev1.ProtocolTCP, Number: 80}, {Protocol: corev1.ProtocolUDP, Number: 80}}
	problems := append(refusal.One(v1beta1.ReasonPortConflict, field.Invalid(PortPath(1), 80, "is held")),
		refusal.One(v1beta1.ReasonNoFreeAddress, field.Invalid(TypePath, "", "none is left"))...)
	want := map[Port]string{ports[1]: v1beta1.ReasonPortConflict}
	if diff := cmp.Diff(want, RefusedPorts(problems, ports)); diff != "" {
		t.Error(diff)
	}
}
