package loadbalancer

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// naming is a Service that names addresses, with the ports TCP/80 and UDP/53.
func naming(addresses ...string) *corev1.Service {
	svc := &corev1.Service{}
	svc.Spec.ExternalIPs = addresses
	svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}, {Protocol: corev1.ProtocolUDP, Port: 53}}
	return svc
}

// TestExternalIPs reads addresses as kube-proxy does.
func TestExternalIPs(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "192.000.002.007": "192.0.2.7", "010.0.0.8": "10.0.0.8", "::ffff:192.0.2.7": "192.0.2.7",
		"2001:DB8::7": "2001:db8::7", "": "invalid IP", "192.0.2": "invalid IP", "a.example.com": "invalid IP", "fe80::1%eth0": "invalid IP",
	} {
		if got := ExternalIPs(naming(text))[0].String(); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	many := naming(slices.Repeat([]string{"192.0.2.7"}, 20)...)
	if n := len(ExternalIPs(many)); n != MaxExternalIPs {
		t.Errorf("%d addresses are read", n)
	}
	if slim := SlimExternalIPs(many.Spec.ExternalIPs); len(slim) != MaxExternalIPs+1 || SlimExternalIPs(nil) != nil {
		t.Errorf("%d are kept", len(slim))
	}
}

// TestExternalPoints has the ports at an address that a Service names.
func TestExternalPoints(t *testing.T) {
	svc, ip := naming("192.0.2.7", "nothing"), netip.MustParseAddr("192.0.2.7")
	var got []string
	for _, at := range ExternalPoints(svc, ip) {
		got = append(got, at.Name())
		if !NamesPoint(svc, at) || NamesPoint(naming("192.0.2.8"), at) {
			t.Errorf("%s is not named where it is, or where it is not", at)
		}
	}
	if diff := cmp.Diff([]string{"addr.192-0-2-7.tcp.80", "addr.192-0-2-7.udp.53"}, got); diff != "" {
		t.Error(diff)
	}
	for _, at := range []claim.Coordinate{
		claim.Address(ip), claim.AddressPort(ip, "TCP", 53), claim.AddressPort(ip, "SCTP", 80), claim.NodePort("TCP", 80), {},
	} {
		if NamesPoint(svc, at) {
			t.Errorf("%s is named", at)
		}
	}
	if points := ExternalPoints(svc, netip.Addr{}); len(points) > 0 {
		t.Errorf("%v at no address", points)
	}
}

func FuzzExternalIPs(f *testing.F) {
	for _, text := range []string{"192.0.2.7", "010.0.0.8", "::ffff:192.0.2.7", "2001:db8::7", "", "1.2.3.4.5", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ip, read := ExternalIPs(naming(text))[0], netutils.ParseIPSloppy(text)
		if ip.IsValid() != (read != nil) || read != nil && ip.String() != read.String() {
			t.Errorf("%q is %s, and %s to kube-proxy", text, ip, read)
		}
		for _, kept := range SlimExternalIPs([]string{text}) {
			if ExternalIPs(naming(kept))[0] != ip && ip.IsValid() {
				t.Errorf("%q is another address when it is cut", text)
			}
		}
	})
}
