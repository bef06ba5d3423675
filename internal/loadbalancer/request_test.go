package loadbalancer

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// asking is a Service of type LoadBalancer with annotations, given as name and value.
func asking(annotations ...string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Spec.Ports = []corev1.ServicePort{{Port: 80}, {Port: 53, Protocol: corev1.ProtocolUDP}}
	for pair := range slices.Chunk(annotations, 2) {
		svc.Annotations[pair[0]] = pair[1]
	}
	return svc
}

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		svc       *corev1.Service
		addresses []string
		pool      string
		sharing   v1beta1.AddressSharing
		refused   string
	}{
		"nothing in particular": {svc: asking()},
		"a pool":                {svc: asking(v1beta1.AnnotationAddressPool, "dmz"), pool: "dmz"},
		"no name of a pool":     {svc: asking(v1beta1.AnnotationAddressPool, "D M Z"), pool: "D M Z", refused: "is not the name of an AddressPool"},
		"an address":            {svc: asking(v1beta1.AnnotationAddresses, "192.0.2.7"), addresses: []string{"192.0.2.7"}},
		"one of each family": {
			svc: asking(v1beta1.AnnotationAddresses, "192.0.2.7, 2001:db8::7"), addresses: []string{"192.0.2.7", "2001:db8::7"},
		},
		"two of one family": {svc: asking(v1beta1.AnnotationAddresses, "192.0.2.7,192.0.2.8"), refused: "at most one IPv4 address"},
		"no address":        {svc: asking(v1beta1.AnnotationAddresses, "everywhere"), refused: "is not an IP address"},
		"an empty one":      {svc: asking(v1beta1.AnnotationAddresses, ""), refused: "is not an IP address"},
		"too long a value": {
			svc: asking(v1beta1.AnnotationAddresses, "192.0.2.7"+strings.Repeat(" ", MaxLength)), refused: "is longer than 1024 bytes",
		},
		"a zone":           {svc: asking(v1beta1.AnnotationAddresses, "fe80::1%eth0"), refused: "write fe80::1"},
		"a mapped address": {svc: asking(v1beta1.AnnotationAddresses, "::ffff:192.0.2.7"), refused: "write 192.0.2.7"},
		"the older field": {
			svc:       func() *corev1.Service { s := asking(); s.Spec.LoadBalancerIP = "192.0.2.7"; return s }(),
			addresses: []string{"192.0.2.7"},
		},
		"the older field says something else": {
			svc: func() *corev1.Service {
				s := asking(v1beta1.AnnotationAddresses, "192.0.2.7")
				s.Spec.LoadBalancerIP = "192.0.2.8"
				return s
			}(),
			refused: "leave this field out",
		},
		"sharing":           {svc: asking(v1beta1.AnnotationSharing, "Ports"), sharing: v1beta1.SharingPorts},
		"no such a sharing": {svc: asking(v1beta1.AnnotationSharing, "ports"), sharing: "ports", refused: `supported values: "None", "Ports"`},
	} {
		t.Run(name, func(t *testing.T) {
			request, errs := Read(tc.svc)
			if tc.refused == "" && len(errs) > 0 || tc.refused != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.refused)) {
				t.Fatalf("errors are %v", errs)
			}
			var addresses []string
			for _, ip := range request.Addresses {
				addresses = append(addresses, ip.String())
			}
			if diff := cmp.Diff(tc.addresses, addresses); diff != "" || request.Pool != tc.pool || request.Sharing != tc.sharing {
				t.Errorf("pool %q, sharing %q, addresses (-want +got):\n%s", request.Pool, request.Sharing, diff)
			}
			if want := []Port{{corev1.ProtocolTCP, 80}, {corev1.ProtocolUDP, 53}}; !slices.Equal(request.Ports, want) {
				t.Errorf("ports are %v", request.Ports)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{"192.0.2.7", "192.0.2.7,2001:db8::7", "::1", ",", "fe80::1%eth0", "::ffff:1.2.3.4", "1.2.3.4,1.2.3.5", " 1.2.3.4 "} {
		f.Add(text, "public", "Ports", "")
		f.Add(text, "", "None", text)
	}
	f.Fuzz(func(t *testing.T, addresses, pool, sharing, older string) {
		svc := asking(v1beta1.AnnotationAddresses, addresses, v1beta1.AnnotationAddressPool, pool, v1beta1.AnnotationSharing, sharing)
		svc.Spec.LoadBalancerIP = older
		request, errs := Read(svc)
		if len(errs) > 0 {
			return
		}
		if len(request.Addresses) == 0 || len(request.Addresses) > 2 {
			t.Fatalf("%q is %v", addresses, request.Addresses)
		}
		for _, ip := range request.Addresses {
			if !ip.IsValid() || ip.Zone() != "" || ip != ip.Unmap() {
				t.Errorf("%q has %v", addresses, ip)
			}
		}
		if request.Sharing != v1beta1.SharingNone && request.Sharing != v1beta1.SharingPorts {
			t.Errorf("sharing is %q", request.Sharing)
		}
	})
}

func TestIsOurs(t *testing.T) {
	class := func(name string) *corev1.Service {
		svc := asking()
		svc.Spec.LoadBalancerClass = &name
		return svc
	}
	other := asking()
	other.Spec.Type = corev1.ServiceTypeNodePort
	for name, tc := range map[string]struct {
		svc               *corev1.Service
		always, byDefault bool
	}{
		"of our class":     {class(v1beta1.LoadBalancerClass), true, true},
		"of another class": {class("example.com/other"), false, false},
		"without a class":  {asking(), false, true},
		"of another type":  {other, false, false},
	} {
		if IsOurs(tc.svc, false) != tc.always || IsOurs(tc.svc, true) != tc.byDefault {
			t.Errorf("%s: %v, by default %v", name, IsOurs(tc.svc, false), IsOurs(tc.svc, true))
		}
	}
}

func TestPortRanges(t *testing.T) {
	for text, want := range map[string]PortRanges{
		"":               nil,
		"22":             {{From: 22}},
		"22, 2379-2380":  {{From: 22}, {From: 2379, To: 2380}},
		"80-80":          {{From: 80, To: 80}},
		"30000-32767,22": {{From: 30000, To: 32767}, {From: 22}},
	} {
		var got PortRanges
		if err := got.Set(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	for _, text := range []string{",", "0", "65536", "-1", "9-8", "ssh", "1-", "-", "22,,23"} {
		if err := new(PortRanges).Set(text); err == nil {
			t.Errorf("%q is taken for ranges", text)
		}
	}
	reserved := DefaultReserved()
	for port, want := range map[int32]bool{21: false, 22: true, 23: false, 6443: true, 10250: true, 29999: false, 30000: true, 32767: true, 32768: false} {
		if reserved.Has(port) != want {
			t.Errorf("%d is reserved: %v", port, !want)
		}
	}
}

func FuzzPortRanges(f *testing.F) {
	for _, text := range []string{"22", "22,2379-2380", "", "1-65535", "9-8", "0", "99999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var ranges, again PortRanges
		if ranges.Set(text) != nil {
			return
		}
		if err := again.Set(ranges.String()); err != nil {
			t.Fatalf("%q is written as %q: %v", text, ranges.String(), err)
		}
		for port := range int32(70000) {
			if ranges.Has(port) != again.Has(port) || port > 65535 && ranges.Has(port) {
				t.Fatalf("%q and %q differ about %d", text, ranges.String(), port)
			}
		}
	})
}

func TestStatus(t *testing.T) {
	ports := []Port{{corev1.ProtocolTCP, 80}, {corev1.ProtocolUDP, 53}}
	served := Served([]netip.Addr{netip.MustParseAddr("192.0.2.7")}, corev1.LoadBalancerIPModeVIP, ports)
	if len(served) != 1 || served[0].IP != "192.0.2.7" || *served[0].IPMode != corev1.LoadBalancerIPModeVIP || len(served[0].Ports) != 2 ||
		served[0].Ports[0].Error != nil {
		t.Errorf("served is %v", served)
	}
	refused := Refused(ports, map[Port]string{ports[1]: v1beta1.ReasonPortConflict})
	if len(refused) != 1 || refused[0].IP != "" || refused[0].Ports[0].Error != nil ||
		*refused[0].Ports[1].Error != "nginx-stream.jeffthecoder.xyz/PortConflict" {
		t.Errorf("refused is %v", refused)
	}
	if got := Listed(append(served, refused...)); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("192.0.2.7")}) {
		t.Errorf("listed are %v", got)
	}
}

func TestListsPort(t *testing.T) {
	ip, other := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	ports := []Port{{corev1.ProtocolTCP, 80}, {corev1.ProtocolUDP, 53}}
	served := Served([]netip.Addr{ip}, corev1.LoadBalancerIPModeVIP, ports)
	for at, want := range map[claim.Coordinate]bool{
		claim.Address(ip): true, claim.AddressPort(ip, "TCP", 80): true, claim.NodePort("UDP", 53): true,
		claim.AddressPort(other, "TCP", 80): false, claim.AddressPort(ip, "UDP", 80): false, claim.NodePort("TCP", 53): false,
	} {
		if got := ListsPort(served, at); got != want {
			t.Errorf("%s is listed: %v", at, got)
		}
	}
	if ListsPort(Refused(ports, nil), claim.NodePort("TCP", 80)) {
		t.Error("a port without an address is listed")
	}
}
