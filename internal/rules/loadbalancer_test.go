package rules

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

func TestAsksForAddresses(t *testing.T) {
	illegible := func(path, text string) verdict { return verdict{v1beta1.ReasonInvalidRequest, path + ": " + text} }
	noName := illegible(poolPath, `Invalid value: "D M Z": is not the name of an AddressPool: name one, or leave the annotation out`)
	noSharing := illegible(sharingPath, `Unsupported value: "all": supported values: "None", "Ports"`)
	for name, tc := range map[string]struct {
		svc  *corev1.Service
		want []verdict
	}{
		"nothing in particular": {asking(), nil},
		"all there is":          {asking(forPool("a"), forAddresses("192.0.2.1,2001:db8::1"), forSharing("Ports"), bothFamilies), nil},
		"no address": {asking(forAddresses("everywhere")), []verdict{illegible(addressesPath,
			`Invalid value: "everywhere": is not an IP address: write one, or one of each IP family, for example 192.0.2.7 or 192.0.2.7,2001:db8::7`)}},
		"no pool, no sharing": {asking(forPool("D M Z"), forSharing("all")), []verdict{noName, noSharing}},
	} {
		ask, problems := AsksForAddresses(tc.svc)
		if diff := cmp.Diff(tc.want, verdicts(problems)); diff != "" {
			t.Error(name, diff)
		}
		if !ask.HasPort(v1beta1.TCP, 80) {
			t.Errorf("%s: its ports are %v", name, ask.Ports)
		}
	}
	ask, _ := AsksForAddresses(asking(forPool("a"), forAddresses("192.0.2.1,2001:db8::1"), forSharing("Ports"), bothFamilies))
	want := loadbalancer.Ask{
		Pool: "a", Addresses: addresses("192.0.2.1", "2001:db8::1"), Sharing: v1beta1.SharingPorts, EachFamily: true,
		Families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, Ports: []loadbalancer.Port{{Protocol: corev1.ProtocolTCP, Number: 80}},
	}
	if ask.AddressesPath.String() != addressesPath {
		t.Errorf("the addresses are named by %s", ask.AddressesPath)
	}
	if diff := cmp.Diff(want, ask, cmpopts.EquateComparable(netip.Addr{}), cmpopts.IgnoreFields(loadbalancer.Ask{}, "AddressesPath")); diff != "" {
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
	ports := []loadbalancer.Port{{Protocol: corev1.ProtocolTCP, Number: 80}, {Protocol: corev1.ProtocolUDP, Number: 80}}
	problems := append(refusal.One(v1beta1.ReasonPortConflict, field.Invalid(loadbalancer.PortPath(1), 80, "is held")),
		refusal.One(v1beta1.ReasonNoFreeAddress, field.Invalid(loadbalancer.TypePath, "", "none is left"))...)
	want := map[loadbalancer.Port]string{ports[1]: v1beta1.ReasonPortConflict}
	if diff := cmp.Diff(want, RefusedPorts(problems, ports)); diff != "" {
		t.Error(diff)
	}
}
