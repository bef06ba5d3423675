package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// listenersOfOne is how many listeners a ListenerSet has here: the API lets it have 64.
const listenersOfOne = 50

// plugin measures kubectl portcullis audit in a large cluster without Portcullis.
func (b *bench) plugin() (err error) {
	program := filepath.Join(b.dir, "kubectl-portcullis")
	build := exec.CommandContext(b.ctx, "go", "build", "-o", program, "./cmd/kubectl-portcullis")
	build.Dir = b.root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the plugin: %w\n%s", err, out)
	}
	cp, err := controlplane.Start(b.ctx, controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	s := &stage{Harness: &harness.Harness{ControlPlane: cp}, b: b}
	if s.Client, err = client.New(cp.Config(), client.Options{Scheme: harness.Scheme()}); err != nil {
		return err
	}
	objects, listeners := b.of(10_000, 100), b.of(1000, 50)
	if err := s.crowded(objects, listeners); err != nil {
		return err
	}
	took, peak, err := s.audit(program)
	if err != nil {
		return err
	}
	b.add(report.Section{
		Title: fmt.Sprintf("kubectl portcullis audit, %d Ingresses, %d Services and %d listeners", objects, objects, listeners),
		About: "The plugin reads a cluster without Portcullis and says what is in conflict there. Every second Ingress has the host and path " +
			"of the one before it, in another namespace, and every second listener the port of another.",
		Figures: []report.Figure{
			report.Figure{Name: "from start to end", Value: took.Seconds(), Unit: "s"}.AtMost(30, "the API server answers slowly"),
			report.Figure{Name: "memory at its peak", Value: peak / (1 << 20), Unit: "MiB"}.AtMost(500, "all objects are in memory at once"),
		},
	})
	return nil
}

// crowded makes a cluster with so many Ingresses and Services, and so many listeners on one Gateway.
func (s *stage) crowded(objects, listeners int) error {
	if err := s.InstallGateways(s.b.ctx); err != nil {
		return err
	}
	s.b.say("plugin: %d Ingresses, %d Services and %d listeners", objects, objects, listeners)
	namespace := func(i int) string { return fmt.Sprintf("team-%d", i%crowd) }
	for i := range crowd {
		if err := s.Client.Create(s.b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}); err != nil {
			return err
		}
	}
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(0), Name: "edge"}}
	gateway.Spec.GatewayClassName = "any"
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "own", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	all := &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}
	gateway.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: all}
	if err := s.until(func() (bool, error) { return s.Client.Create(s.b.ctx, gateway.DeepCopy()) == nil, s.b.ctx.Err() }); err != nil {
		return err
	}
	for i := range listeners / listenersOfOne {
		if err := s.Client.Create(s.b.ctx, crowdedSet(namespace(i), i)); err != nil {
			return err
		}
	}
	return new(sample.Sample).Measure(crowd, objects, func(_, i int) error {
		if err := s.Client.Create(s.b.ctx, anyService(namespace(i), i)); err != nil {
			return err
		}
		return s.Client.Create(s.b.ctx, anyIngress(namespace(i), i))
	})
}

// crowdedSet is one of the Gateway edge. Each second one has the ports of the one before.
func crowdedSet(namespace string, i int) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("set-%d", i)}}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace("team-0")), Name: "edge"}
	for j := range listenersOfOne {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(fmt.Sprintf("listener-%d", j)), Port: int32(1000 + i/2*listenersOfOne + j),
			Protocol: gatewayv1.TCPProtocolType,
		})
	}
	return set
}

// anyService is one as teams have them.
func anyService(namespace string, i int) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("service-%d", i)}}
	svc.Labels = map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop"}
	svc.Spec.ClusterIP = corev1.ClusterIPNone // for each other, the API server lists all addresses that it has given
	svc.Spec.Selector = map[string]string{"app.kubernetes.io/name": "web"}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}
	return svc
}

// anyIngress is one for that Service. Each second one has the host of the one before.
func anyIngress(namespace string, i int) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("ingress-%d", i)}}
	ing.Spec.IngressClassName = ptr.To("nginx")
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: fmt.Sprintf("service-%d", i), Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	path := networkingv1.HTTPIngressPath{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: backend}
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: fmt.Sprintf("host-%d.example.com", i/2)}}
	ing.Spec.Rules[0].HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}
	return ing
}

// audit runs the plugin, and says how long it took, and how many bytes of memory at its peak.
func (s *stage) audit(program string) (took time.Duration, peak float64, err error) {
	cmd := exec.CommandContext(s.b.ctx, program, "--kubeconfig", s.Kubeconfig(), "audit", "-o", "json")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	began := time.Now()
	err = cmd.Run()
	took = time.Since(began)
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 { // it has findings
		return 0, 0, fmt.Errorf("audit: %w\n%s", err, errOut.String())
	}
	s.b.say("plugin: %s", bytes.TrimSpace(errOut.Bytes()[bytes.LastIndexByte(bytes.TrimSpace(errOut.Bytes()), '\n')+1:]))
	usage, is := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !is {
		return 0, 0, errors.New("this system does not say how much memory a process took")
	}
	return took, float64(usage.Maxrss) * 1024, nil
}
