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
)

// listing is a Service of Portcullis' class that is served at addresses by its status, and holds nothing.
func listing(name string, addresses ...string) *corev1.Service {
	svc := balanced(team(0), name, "")
	svc.Spec.LoadBalancerClass = new(v1beta1.LoadBalancerClass)
	for _, ip := range addresses {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return svc
}

// TestListedServices changes Services that have addresses by their status alone, and creates others beside them. A pool gives ports of the
// nodes.
func TestListedServices(t *testing.T) {
	nodes := &v1beta1.AddressPool{ObjectMeta: meta("", "nodes")}
	nodes.Spec.Source = v1beta1.SourceNodeIP
	stays, onNodes, fresh := listing("stays", "203.0.113.1"), listing("on-nodes", "10.0.0.1", "10.0.0.2"), listing("fresh")
	stays.Annotations = map[string]string{v1beta1.AnnotationAddressPool: "gone"}
	stays.Spec.Ports[0].Port, onNodes.Spec.Ports[0].Port = 81, 82
	change := func(svc *corev1.Service, change func(*corev1.Service)) *corev1.Service {
		svc = svc.DeepCopy()
		change(svc)
		return svc
	}
	onPort := func(port int32) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Spec.Ports[0].Port = port }
	}
	for name, tc := range map[string]struct {
		before, svc *corev1.Service
		// says is a part of the refusal, empty for none; claimed what is claimed of the nodes.
		says    string
		claimed int
	}{
		"what stays asks for any pool":       {before: stays, svc: change(stays, func(svc *corev1.Service) { svc.Annotations = nil })},
		"what stays asks for the nodes":      {before: stays, svc: change(stays, func(svc *corev1.Service) { svc.Annotations[v1beta1.AnnotationAddressPool] = "nodes" })},
		"what stays has another port":        {before: stays, svc: change(stays, onPort(85)), says: "or when its status lists another address instead: the annotation"},
		"a port of the nodes that is listed": {svc: change(fresh, onPort(82)), says: "held by Service team-0/on-nodes"},
		"another port of the nodes":          {svc: change(fresh, onPort(83)), claimed: 1},
		"who lists the nodes takes another":  {before: onNodes, svc: change(onNodes, onPort(84)), claimed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []client.Object{nodes, stays.DeepCopy(), onNodes.DeepCopy()}, nil)
			v := &serviceValidator{view: w.view, ledger: w.ledger}
			var err error
			if tc.before == nil {
				_, err = v.ValidateCreate(asking(t, admissionv1.Create), tc.svc)
			} else {
				_, err = v.ValidateUpdate(asking(t, admissionv1.Update), tc.before, tc.svc)
			}
			if tc.says == "" && err != nil || tc.says != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("it says %v, want %q", err, tc.says)
			}
			claims, err := w.claims.List(t.Context(), claim.NodeScope, "")
			if err != nil || len(claims) != tc.claimed {
				t.Errorf("%d ports of the nodes are claimed, want %d: %v", len(claims), tc.claimed, err)
			}
		})
	}
}
