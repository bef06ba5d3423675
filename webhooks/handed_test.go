package webhooks

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestGiversAreJudged changes Services that hand over what they have, before, while and after they do. In between they are forwarded at an
// address that is another's: their ports change there for nobody, whether they have a class or not, and say to whom they hand over or not.
func TestGiversAreJudged(t *testing.T) {
	const ip = "192.0.2.7"
	heir := team(1) + "/heir"
	pool := accesstest.PoolOf("pool", "192.0.2.0/28")
	pool.Spec.Sharing = v1beta1.SharingPorts
	giver := listing("giver", ip)
	giver.Status.LoadBalancer.Ingress[0].Ports = []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}
	giver.ResourceVersion = "7"
	with := func(value string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Annotations = map[string]string{v1beta1.AnnotationHandOverTo: value} }
	}
	classless := func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }
	onPort := func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 443 }
	all := func(changes ...func(*corev1.Service)) *corev1.Service {
		svc := giver.DeepCopy()
		for _, change := range changes {
			change(svc)
		}
		return svc
	}
	his := claim.ServiceHolder(giver.Namespace, giver.Name)
	hers := claim.ServiceHolder(team(1), "heir")
	for name, tc := range map[string]struct {
		before, svc *corev1.Service
		by          claim.Holder
		says        string
	}{
		"it names whom it means":          {all(), all(with(heir)), his, ""},
		"it names nobody":                 {all(), all(with("heir")), his, "must be namespace/name of the Service that may have what this one has"},
		"it names itself":                 {all(), all(with(team(0) + "/giver")), his, "names the Service itself"},
		"it named nobody before":          {all(with("heir")), all(with("heir"), onPort), his, ""},
		"it changes its port before":      {all(with(heir)), all(with(heir), onPort), his, "is given no other port"},
		"it changes its port then":        {all(with(heir)), all(with(heir), onPort), hers, "is given no other port"},
		"it changes its port as it ends":  {all(with(heir)), all(onPort), his, ""},
		"it no longer names anybody then": {all(with(heir)), all(), hers, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []client.Object{pool, tc.before.DeepCopy()},
				[]*v1beta1.EdgeClaim{claim.New(claim.AddressPort(accesstest.AddressAt(ip).Address(), "TCP", 80), claim.Claimant{Holder: tc.by})})
			v := &serviceValidator{view: w.view, ledger: w.ledger}
			_, err := v.ValidateUpdate(asking(t, admissionv1.Update), tc.before, tc.svc)
			if tc.says == "" && err != nil || tc.says != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("it says %v, want %q", err, tc.says)
			}
		})
	}

	both := func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolTCP})
	}
	const none, theirs = "is given no other port", `"TCP/443": held for Service `
	for name, tc := range map[string]struct {
		before, svc *corev1.Service
		says        string
	}{
		"with a class": {all(with(heir)), all(with(heir), both), none},
		"without one":  {all(with(heir), classless), all(with(heir), classless, both), none},
		"without one, and it no longer names anybody": {all(classless), all(classless, both), theirs},
		"as it no longer names anybody":               {all(with(heir), classless), all(classless, both), theirs},
	} {
		t.Run("ports that others have, "+name, func(t *testing.T) {
			points := []*v1beta1.EdgeClaim{
				claim.New(claim.AddressPort(accesstest.AddressAt(ip).Address(), "TCP", 80), claim.Claimant{Holder: hers}),
				claim.New(claim.AddressPort(accesstest.AddressAt(ip).Address(), "TCP", 443), claim.Claimant{Holder: claim.ServiceHolder(team(2), "third")}),
			}
			w := newWorld(t, []client.Object{pool, tc.before.DeepCopy()}, points)
			v := &serviceValidator{view: w.view, ledger: w.ledger}
			_, err := v.ValidateUpdate(asking(t, admissionv1.Update), tc.before, tc.svc)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
