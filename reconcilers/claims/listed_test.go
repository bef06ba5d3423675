package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestStaysWhileItsGiverIsListed has an heir be gone while the Service that has handed an address over to it is listed there: the claim is
// not released before that is not. Else the giver would be taken for one that has lost its claim with the ledger.
func TestStaysWhileItsGiverIsListed(t *testing.T) {
	const ip = "192.0.2.7"
	giver := func(change ...func(*corev1.Service)) *corev1.Service {
		svc := &corev1.Service{}
		svc.Namespace, svc.Name, svc.UID = "shop", "giver", "g"
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
		svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip, Ports: []corev1.PortStatus{{Protocol: corev1.ProtocolTCP, Port: 80}}}}
		for _, c := range change {
			c(svc)
		}
		return svc
	}
	unlisted := func(svc *corev1.Service) { svc.Status.LoadBalancer.Ingress = nil }
	another := func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("example.com/other") }
	foreign := func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass, svc.Status.LoadBalancer.Ingress[0].Ports = nil, nil
	}
	classless := func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }
	whole, port := accesstest.AddressAt(ip), claim.AddressPort(accesstest.AddressAt(ip).Address(), "TCP", 80)
	https := claim.AddressPort(accesstest.AddressAt(ip).Address(), "TCP", 443)
	for name, tc := range map[string]struct {
		at    claim.Coordinate
		giver *corev1.Service
		stays bool
	}{
		"it is listed at the address":          {whole, giver(), true},
		"it is listed with the port":           {port, giver(), true},
		"it is listed with another port":       {https, giver(), false},
		"it is listed, and has no class":       {port, giver(classless), true},
		"it is listed no longer":               {whole, giver(unlisted), false},
		"another controller's is listed there": {whole, giver(another), false},
		"as is one without a class":            {whole, giver(foreign), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := claim.New(tc.at, claim.Claimant{Holder: claim.ServiceHolder("shop", "heir"), UID: "h"})
			r := newClaimReconciler(accesstest.Of(t, c, tc.giver), claimTestOptions())
			r.View.LoadBalancers.Options.ByDefault = true
			result, err := r.Reconcile(t.Context(), claimRequest{Holder: claim.HolderOf(c), Gone: "h"})
			if err != nil {
				t.Fatal(err)
			}
			stays := r.Live.Get(t.Context(), client.ObjectKeyFromObject(c), c) == nil
			if stays != tc.stays || stays && result.RequeueAfter != bridgePoll {
				t.Errorf("it stays: %v, and is looked at again after %s", stays, result.RequeueAfter)
			}
		})
	}
}
