package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// guardBenchmark is the Go benchmark of decisions on listeners of others.
	guardBenchmark = "BenchmarkGuard"
	// pairs is how many pairs of listeners a ListenerSet has that is measured: one of a host name, and one of a port.
	pairs = 8
	// hostsPort is the port that listeners share by host name; ListenerSets have ports of their own from firstListen on.
	hostsPort, firstListen = 443, 2000
)

// guard measures decisions on the listeners that others open on a Gateway: in process, and creates of a ListenerSet against the same where
// no webhook is called.
func (b *bench) guard() error {
	sets := b.of(10000, 100)
	section := report.Section{
		Title: "Listeners of others, guarded",
		About: fmt.Sprintf("Creates of a ListenerSet with %d listeners on a Gateway that %d other ListenerSets are attached to, with a "+
			"host name and a port each: told yes by Portcullis, which claims all of it; told no, since one of the ports is held; "+
			"and the same create in a namespace where no webhook is called. One client creates them one after the other, and the kinds take "+
			"turns. There are %d webhook servers, and no replica leads. In process is the decision alone, as Go benchmark: without claims, "+
			"with claims that are written into memory, and a refusal.", 2*pairs, sets, replicas),
	}
	found, err := b.decisions("-bench=^" + guardBenchmark + "$")
	if err != nil {
		return err
	}
	section.Figures = guardedInProcess(found)
	err = b.on(1, harness.Options{Guard: true}, func(s *stage) error {
		figures, err := s.guarded(sets)
		section.Figures = append(figures, section.Figures...)
		return err
	})
	if err != nil {
		return err
	}
	b.add(section)
	return nil
}

// guarded fills a Gateway, and measures.
func (s *stage) guarded(sets int) ([]report.Figure, error) {
	if err := s.judge(); err != nil {
		return nil, err
	}
	if err := s.openGateway(); err != nil {
		return nil, err
	}
	filled, err := s.attach(sets)
	if err != nil {
		return nil, err
	}
	variants := []*variant{{name: "told yes"}, {name: "told no", refused: true}, {name: "no webhook", by: byNothing}}
	if err := s.compareGuarded(sets, variants); err != nil {
		return nil, err
	}
	yes, no, nothing := variants[0].took.At, variants[1].took.At, variants[2].took.At
	figure := func(name string, of func(float64) float64, p float64) report.Figure {
		return report.Figure{Name: fmt.Sprintf("%s, p%.0f", name, p), Value: of(p), Unit: "ms"}
	}
	return []report.Figure{
		figure("told yes", yes, 50).Against("no webhook", nothing(50)), figure("told yes", yes, 99).Against("no webhook", nothing(99)),
		figure("told no", no, 50).Against("no webhook", nothing(50)), figure("told no", no, 99).Against("no webhook", nothing(99)),
		{Name: fmt.Sprintf("creates per second by %d clients, of 2 listeners", crowd), Value: filled.Rate(), Unit: "1/s"},
	}, nil
}

// judge has replicas judge what is guarded, of which none leads, but for namespaces with the label that leaves them out.
func (s *stage) judge() error {
	if err := s.leaveOut("portcullis-guard"); err != nil {
		return err
	}
	if err := s.Replicas[0].Terminate(); err != nil {
		return err
	}
	if err := s.lead(); err != nil {
		return err
	}
	for range replicas {
		if _, err := s.StartReplica(s.b.ctx); err != nil {
			return err
		}
	}
	return nil
}

// guardedGateway is a Gateway that nobody serves.
var guardedGateway = client.ObjectKey{Namespace: edge("guard"), Name: "shared"}

// openGateway makes a Gateway that lets all namespaces attach ListenerSets.
func (s *stage) openGateway() error {
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: guardedGateway.Namespace, Name: guardedGateway.Name}}
	gateway.Spec.GatewayClassName = "none"
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "web", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	gateway.Spec.AllowedListeners = &gatewayv1.AllowedListeners{
		Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)},
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gateway.Namespace}}
	if err := s.Client.Create(s.b.ctx, ns); err != nil {
		return err
	}
	return s.Client.Create(s.b.ctx, gateway)
}

// attach attaches ListenerSets with two listeners, by many clients.
func (s *stage) attach(n int) (*sample.Sample, error) {
	s.b.say("guard: %d ListenerSets by %d clients", n, crowd)
	clients, namespaces, err := s.clients("guard", crowd)
	if err != nil {
		return nil, err
	}
	took := &sample.Sample{}
	err = took.Measure(crowd, n, func(worker, i int) error {
		return clients[worker].Create(s.b.ctx, listenerSet(namespaces[worker], fmt.Sprintf("set-%d", i), 1, firstListen+i))
	})
	return took, err
}

// compareGuarded measures kinds of creates with n ListenerSets there.
func (s *stage) compareGuarded(n int, variants []*variant) error {
	user, err := s.user()
	if err != nil {
		return err
	}
	for i, v := range variants {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("guarded-%d", i)}}
		if v.by != "" {
			ns.Labels = map[string]string{admissionLabel: v.by}
		}
		if err := s.Client.Create(s.b.ctx, ns); err != nil {
			return err
		}
	}
	times := s.b.of(200, 20)
	s.b.say("guard: %d creates of each kind", times)
	free := firstListen + n
	for turn := range times {
		for i, v := range variants {
			set := listenerSet(fmt.Sprintf("guarded-%d", i), fmt.Sprintf("set-%d", turn), pairs, free)
			if free += pairs; v.refused {
				set.Spec.Listeners[2*pairs-1].Port = int32(firstListen + turn) //nolint:gosec // a port
			}
			if err := v.took.Measure(1, 1, func(int, int) error { return v.check(user.Create(s.b.ctx, set)) }); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return s.isGuarded()
}

// isGuarded makes sure that what was measured as guarded was.
func (s *stage) isGuarded() error {
	for i, refused := range []bool{true, true, false} {
		err := s.Client.Create(s.b.ctx, listenerSet(fmt.Sprintf("guarded-%d", i), "try", 1, firstListen), client.DryRunAll)
		if apierrors.IsInvalid(err) != refused {
			return fmt.Errorf("a held port in namespace guarded-%d: %w", i, err)
		}
	}
	return nil
}

// listenerSet is one of the Gateway with pairs of listeners, whose ports are free from one on.
func listenerSet(namespace, name string, pairs, from int) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	set.Spec.ParentRef.Namespace = ptr.To(gatewayv1.Namespace(guardedGateway.Namespace))
	set.Spec.ParentRef.Name = gatewayv1.ObjectName(guardedGateway.Name)
	for i := range pairs {
		port := int32(from + i) //nolint:gosec // a port
		set.Spec.Listeners = append(set.Spec.Listeners,
			gatewayv1.ListenerEntry{
				Name: gatewayv1.SectionName(fmt.Sprintf("host-%d", port)), Port: hostsPort, Protocol: gatewayv1.HTTPProtocolType,
				Hostname: ptr.To(gatewayv1.Hostname(fmt.Sprintf("app-%d.example.com", port))),
			},
			gatewayv1.ListenerEntry{Name: gatewayv1.SectionName(fmt.Sprintf("port-%d", port)), Port: port, Protocol: gatewayv1.TCPProtocolType},
		)
	}
	return set
}

// guardedInProcess are the figures of the Go benchmark.
func guardedInProcess(found []*measured) (figures []report.Figure) {
	limits := map[string]float64{"decision": 100, "create": 500, "refusal": 100}
	for _, of := range byName(found) {
		name := strings.TrimPrefix(of[0].name, "Guard/")
		figures = append(figures, decisionFigures("in process, "+name, "ListenerSets", limits[name], of)...)
	}
	return figures
}
