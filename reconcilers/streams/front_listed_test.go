package streams

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestListedPortIsNotClaimed has a class share an address with a Service that is served there, and of which the ledger knows nothing: its port is
// not claimed for the class, unless the class has it.
func TestListedPortIsNotClaimed(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.7")
	on := func(port int32) claim.Coordinate { return claim.AddressPort(ip, "TCP", port) }
	class := doorOf("kernel", 80).class
	class.Status.Addresses = []string{ip.String()}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "w"}}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}, {Protocol: corev1.ProtocolTCP, Port: 443}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip.String()}}
	own := claim.New(on(443), claim.Claimant{Holder: claim.ClassHolder("kernel")})
	c := accesstest.Cluster(t, []client.Object{class, svc, own}...).Build()
	b, _ := baseOn(t, c, c)
	front, err := b.frontOf(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[int32]string{80: "Service shop/web", 443: "", 7000: ""} {
		held, err := b.claimFrontPoint(t.Context(), front, on(port))
		if err != nil {
			t.Fatal(err)
		}
		by := ""
		if held != nil {
			by = claim.HolderOf(held.Claim).String()
		}
		if by != want {
			t.Errorf("port %d is held by %q, want %q", port, by, want)
		}
	}
}
