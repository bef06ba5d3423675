package audit

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestForwarded compares the Services of streams that the kernel forwards with the ledger.
func TestForwarded(t *testing.T) {
	kernel := claim.ClassHolder("kernel")
	ip := netip.MustParseAddr("192.0.2.7")
	port := claim.Stream("kernel", v1beta1.TCP, 80)
	whole, shared := claim.Address(ip), claim.AddressPort(ip, "TCP", 80)
	for name, tc := range map[string]struct {
		claims map[claim.Coordinate]claim.Holder
		// closed has no Service, or one without an address; classless has no class.
		closed, classless bool
		want              []string
	}{
		"all is claimed":                 {claims: map[claim.Coordinate]claim.Holder{port: claim.StreamHolder("shop", "s"), whole: kernel}},
		"the port of a shared address":   {claims: map[claim.Coordinate]claim.Holder{port: claim.StreamHolder("shop", "s"), shared: kernel}},
		"a stream that is gone":          {claims: map[claim.Coordinate]claim.Holder{port: claim.StreamHolder("shop", "gone"), whole: kernel}},
		"a port that nobody has claimed": {claims: map[claim.Coordinate]claim.Holder{whole: kernel}, want: []string{"point_without_claim " + port.String()}},
		"an address that is another's": {claims: map[claim.Coordinate]claim.Holder{port: claim.StreamHolder("shop", "s"), whole: claim.ClassHolder("other")},
			want: []string{"claim_without_holder " + whole.String(), "point_without_claim " + shared.String()}},
		"a stream that is gone, and its Service, too": {closed: true, claims: map[claim.Coordinate]claim.Holder{port: claim.StreamHolder("shop", "gone"), whole: kernel},
			want: []string{"claim_without_holder " + port.String()}},
		"a class that may come back": {closed: true, classless: true, claims: map[claim.Coordinate]claim.Holder{
			port: claim.StreamHolder("shop", "s"), whole: kernel}},
		"a class that is gone": {closed: true, classless: true, claims: map[claim.Coordinate]claim.Holder{whole: kernel},
			want: []string{"claim_without_holder " + whole.String()}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFacts()
			for at, by := range tc.claims {
				f.AddClaim(claim.New(at, claim.Claimant{Holder: by}), false)
			}
			s := &v1beta1.StreamIngress{}
			s.Namespace, s.Name = "shop", "s"
			s.Spec.ClassName, s.Spec.Listen = "kernel", new(int32(80))
			f.AddStream(s)
			svc := &corev1.Service{}
			svc.Namespace, svc.Name, svc.Labels = "streams", "kernel-tcp-80", map[string]string{v1beta1.LabelClass: "kernel"}
			svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.StreamLoadBalancerClass)
			svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
			if !tc.closed {
				svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip.String()}}
			}
			f.AddLoadBalancer(svc)
			if !tc.classless {
				class := &v1beta1.StreamIngressClass{}
				class.Name = "kernel"
				class.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: "pool", Namespace: "streams"}
				class.Status.Addresses = []string{ip.String()}
				f.AddClass(class, Targets{})
			}
			var got []string
			for _, d := range f.Disagreements() {
				got = append(got, string(d.Kind)+" "+d.Point.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
