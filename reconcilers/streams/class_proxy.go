package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// proxy is the Service in front of the proxy of a class, as it is now.
type proxy struct {
	class *v1beta1.StreamIngressClass
	// service is nil where there is none.
	service *corev1.Service
	front   stream.ServicePorts
}

// String names the Service, which is there.
func (p *proxy) String() string {
	return fmt.Sprintf("Service %s/%s", p.service.Namespace, p.service.Name)
}

// proxyOf gathers what stands on the Service of a class.
func (b base) proxyOf(ctx context.Context, class *v1beta1.StreamIngressClass) (*proxy, error) {
	p := &proxy{class: class}
	if class.Spec.Service == nil {
		return p, nil
	}
	var err error
	if p.service, err = b.View.Targets.ProxyService(ctx, *class.Spec.Service); err != nil || p.service == nil {
		return p, err
	}
	p.front, err = b.View.Targets.Ports(p.service)
	return p, err
}

// refuse reports ports that the API server has refused, with its words.
func (p *proxy) refuse(report *classReport, refused map[stream.PortKey]string) {
	for _, port := range slices.SortedFunc(maps.Keys(refused), stream.ComparePorts) {
		report.refuse(port, v1beta1.ReasonPortRefused, fmt.Sprintf("%s: %s", p, refused[port]))
	}
}

// claimFront claims what ports take of what the Service shares with others, and leaves out those of which others have it:
// kube-proxy would take their traffic here.
func (r *serviceReconciler) claimFront(
	ctx context.Context, p *proxy, ports []stream.PortKey, report *classReport,
) ([]stream.PortKey, error) {
	front, err := r.frontOf(ctx, p.class)
	if err != nil || front == nil {
		return ports, err
	}
	free := ports[:0:0]
	for _, port := range ports {
		held, err := r.claimFrontPort(ctx, front, port)
		switch {
		case err != nil:
			return nil, err
		case held != nil:
			report.refuse(port, v1beta1.ReasonPortRefused, fmt.Sprintf("%s: %s", p, held))
		default:
			free = append(free, port)
		}
	}
	return free, nil
}

// noteClass has the claims on what open ports take say for which class the Service has them. Those that were made when the Service
// was given its addresses don't.
func (r *serviceReconciler) noteClass(ctx context.Context, p *proxy, ports []stream.PortKey) error {
	front, err := r.frontOf(ctx, p.class)
	if err != nil || front == nil {
		return err
	}
	group := errgroup.Group{}
	group.SetLimit(claimersAtOnce)
	for _, port := range ports {
		for _, point := range front.Points(port.Protocol, port.Port) {
			c, err := r.View.Claim(ctx, point.Name())
			if err != nil || c == nil || !front.IsOwn(c) || c.Spec.ClassName == p.class.Name {
				continue
			}
			group.Go(func() error {
				_, err := r.Ledger.Claim(ctx, front.Claimant(point), nil, point)
				return claim.IgnoreHeld(err)
			})
		}
	}
	return group.Wait()
}

// fingerprint is what others decide about the Service of a class. When that changes, the API server may grant what it
// has refused.
func fingerprint(p *proxy) string {
	spec := p.service.Spec
	spec.Ports = nil
	for _, key := range slices.SortedFunc(maps.Keys(p.front.Foreign), stream.ComparePorts) {
		spec.Ports = append(spec.Ports, p.front.Foreign[key])
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err.Error() // it can always be marshaled
	}
	return string(text)
}

// serviceWith is what we apply to a Service.
func serviceWith(class string, existing *corev1.Service, ports []stream.PortKey) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec()
	for _, port := range ports {
		spec.WithPorts(corev1ac.ServicePort().WithName(port.Name()).WithProtocol(corev1.Protocol(port.Protocol)).
			WithPort(port.Port).WithTargetPort(intstr.FromInt32(port.Port)))
	}
	svc := corev1ac.Service(existing.Name, existing.Namespace).WithUID(existing.UID).WithLabels(map[string]string{v1beta1.LabelClass: class})
	if len(ports) > 0 {
		svc.WithSpec(spec)
	}
	return svc
}
