package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// nodePorts measures bursts for classes whose Services are as in most clusters: of type LoadBalancer, where each port takes a
// node port. First there are enough of them, then there are not.
func (b *bench) nodePorts() error {
	n := b.of(1000, 100)
	return b.on(1, harness.Options{ControlPlane: controlplane.Options{Audit: true}}, func(s *stage) error {
		section := report.Section{
			Title: "Services with node ports",
			About: fmt.Sprintf("Bursts by %d clients, for a class whose Service is of type LoadBalancer, so that the API server allocates a "+
				"node port for each port, one after the other. Compared is a class whose Service has none. Then all but %d of the 2768 "+
				"node ports that there are by default are taken, and another burst comes. Settled is when every stream's status says "+
				"that it is programmed, or in the words of the API server why it is not.", crowd, n/2),
		}
		plain, err := s.nodePortBurst("plain", n, nil)
		if err != nil {
			return err
		}
		some, err := s.nodePortBurst("some", n, loadBalancer)
		if err != nil {
			return err
		}
		if err := s.takeNodePorts(2768 - (n + 1) - (n/2 + 1)); err != nil {
			return err
		}
		full, err := s.nodePortBurst("full", n, loadBalancer)
		if err != nil {
			return err
		}
		const than = "without node ports"
		after := func(o *outcome, at time.Duration) float64 { return (at - o.lastCreate).Seconds() }
		name := func(what string) string { return fmt.Sprintf("%d streams: %s", n, what) }
		section.Figures = []report.Figure{
			report.Figure{Name: name("last create to all in the ConfigMap"), Value: after(some, some.entered), Unit: "s"}.
				Against(than, after(plain, plain.entered)),
			report.Figure{Name: name("last create to programmed"), Value: after(some, some.programmed), Unit: "s"}.
				Against(than, after(plain, plain.programmed)),
			report.Figure{Name: name("writes of ConfigMap and Service"), Value: float64(some.proxyWrites()), Unit: "writes"}.
				Against(than, float64(plain.proxyWrites())),
			report.Figure{Name: name("too few node ports, last create to all in the ConfigMap"), Value: after(full, full.entered), Unit: "s"}.
				Against(than, after(plain, plain.entered)),
			report.Figure{Name: name("too few node ports, last create to settled"), Value: after(full, full.reported), Unit: "s"}.
				AtMost(5, "the statuses of all streams are written by then, which the API server has to store one by one"),
			{
				Name:  name("too few node ports, writes of the Service that were refused"),
				Value: float64(full.writes.refused["services"]), Unit: "writes",
			},
		}
		s.b.add(section)
		return nil
	})
}

// nodePortBurst measures a burst for a class of that name, whose Service change makes different.
func (s *stage) nodePortBurst(class string, n int, change func(*corev1.Service)) (*outcome, error) {
	s.b.say("node ports: %d streams of class %s", n, class)
	b := burst{class: class, streams: n, firstPort: 10000, withService: true, user: harness.User, reports: isSettled, limit: 10 * time.Minute}
	var changes []func(*corev1.Service)
	if change != nil {
		changes = append(changes, change)
	}
	if class == "full" {
		b.withService = false // not all will be open, so the ConfigMap is what is waited for
	}
	if err := s.class(class, true, changes...); err != nil {
		return nil, err
	}
	o, err := s.converge(b)
	if err == nil {
		s.b.say("  %s", o)
	}
	return o, err
}

// loadBalancer makes each port of a Service take a node port.
func loadBalancer(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeLoadBalancer }

// takeNodePorts has somebody else take node ports.
func (s *stage) takeNodePorts(n int) error {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "others"}}
	svc.Spec.Type = corev1.ServiceTypeNodePort
	for i := range n {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(1 + i)})
	}
	return s.Client.Create(s.b.ctx, svc)
}

// isSettled says whether a stream says that it is programmed, or that its port was refused.
func isSettled(si *v1beta1.StreamIngress) bool {
	programmed := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionProgrammed)
	return programmed != nil && (programmed.Status == metav1.ConditionTrue || programmed.Reason == v1beta1.ReasonPortRefused)
}
