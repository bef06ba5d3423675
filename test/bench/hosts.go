package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// hostsBenchmark is the Go benchmark of decisions on host names.
	hostsBenchmark = "BenchmarkHosts"
	// hostsOfOne is how many hosts an Ingress has that is measured.
	hostsOfOne = 10
)

// hosts measures decisions on the host names of Ingresses: in process, and creates of an Ingress of ten hosts whose names belong to
// namespaces, of one whose names namespaces share, and of one for which no webhook is called.
func (b *bench) hosts() error {
	names := b.of(10000, 100)
	section := report.Section{
		Title: "Host names",
		About: fmt.Sprintf("Creates of an Ingress of %d hosts, where %d namespaces' Ingresses have %d hosts: of names that a HostPolicy gives "+
			"to namespaces, which Portcullis claims, one write for each; of names that namespaces share, of which it claims one path each; "+
			"told no, since one of the names is another namespace's; and the same create in a namespace where no webhook is called. One "+
			"client creates them one after the other, and the kinds take turns. There are %d webhook servers, and no replica leads. In "+
			"process is the decision alone, as Go benchmark.",
			hostsOfOne, crowd, names, replicas),
	}
	found, err := b.decisions("-bench=^" + hostsBenchmark + "$")
	if err != nil {
		return err
	}
	limits := map[string]float64{"decision": 100, "refusal": 100, "paths": 100}
	for _, of := range byName(found) {
		name := strings.TrimPrefix(of[0].name, "Hosts/")
		section.Figures = append(section.Figures, decisionFigures("in process, "+name, "names", limits[name], of)...)
	}
	err = b.on(1, harness.Options{Guard: true}, func(s *stage) error {
		figures, err := s.named(names)
		section.Figures = append(figures, section.Figures...)
		return err
	})
	if err != nil {
		return err
	}
	b.add(section)
	return nil
}

// named has namespaces have names, and measures.
func (s *stage) named(names int) ([]report.Figure, error) {
	if err := s.judge(); err != nil {
		return nil, err
	}
	for name, sharing := range map[string]v1beta1.HostSharing{"own": v1beta1.ShareNamespace, "shared": v1beta1.SharePaths} {
		policy := &v1beta1.HostPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		policy.Spec.Hosts, policy.Spec.Sharing = []string{"*." + name + ".example.com"}, sharing
		if err := s.Client.Create(s.b.ctx, policy); err != nil {
			return nil, err
		}
	}
	if err := s.knowPolicies(); err != nil {
		return nil, err
	}
	filled, err := s.use(names)
	if err != nil {
		return nil, err
	}
	variants := []*variant{{name: "own names"}, {name: "shared names"}, {name: "told no", refused: true}, {name: "no webhook", by: byNothing}}
	if err := s.compareNamed(variants); err != nil {
		return nil, err
	}
	nothing := variants[3].took.At
	var figures []report.Figure
	for _, v := range variants[:3] {
		for _, p := range []float64{50, 99} {
			figures = append(figures,
				report.Figure{Name: fmt.Sprintf("%s, p%.0f", v.name, p), Value: v.took.At(p), Unit: "ms"}.Against("no webhook", nothing(p)))
		}
	}
	return append(figures, report.Figure{
		Name: fmt.Sprintf("creates per second by %d clients, of one host", crowd), Value: filled.Rate(), Unit: "1/s",
	}), nil
}

// knowPolicies waits until each replica knows that names belong to namespaces: it refuses what may be any name then.
func (s *stage) knowPolicies() error {
	probe := ingressOf("default", "probe", "probe.example.com")
	probe.Annotations = map[string]string{v1beta1.AnnotationServerAlias: "~."}
	refused := 0
	return s.until(func() (bool, error) {
		err := s.Client.Create(s.b.ctx, probe.DeepCopy(), client.DryRunAll)
		refused++
		if !apierrors.IsInvalid(err) {
			refused = 0
		}
		return refused >= 10*replicas, nil
	})
}

// use has Ingresses use a name each, by many clients.
func (s *stage) use(n int) (*sample.Sample, error) {
	s.b.say("hosts: %d Ingresses by %d clients", n, crowd)
	clients, namespaces, err := s.clients("hosts", crowd)
	if err != nil {
		return nil, err
	}
	took := &sample.Sample{}
	err = took.Measure(crowd, n, func(worker, i int) error {
		ing := ingressOf(namespaces[worker], fmt.Sprintf("app-%d", i), fmt.Sprintf("app-%d.own.example.com", i))
		return clients[worker].Create(s.b.ctx, ing)
	})
	return took, err
}

// compareNamed measures kinds of creates.
func (s *stage) compareNamed(variants []*variant) error {
	user, err := s.user()
	if err != nil {
		return err
	}
	for i, v := range variants {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("named-%d", i)}}
		if v.by != "" {
			ns.Labels = map[string]string{admissionLabel: v.by}
		}
		if err := s.Client.Create(s.b.ctx, ns); err != nil {
			return err
		}
	}
	times := s.b.of(200, 20)
	s.b.say("hosts: %d creates of each kind", times)
	for turn := range times {
		for i, v := range variants {
			suffix := "own.example.com"
			if v.name == "shared names" {
				suffix = "shared.example.com"
			}
			var hosts []string
			for n := range hostsOfOne {
				hosts = append(hosts, fmt.Sprintf("h%d.t%d.k%d.%s", n, turn, i, suffix))
			}
			if v.refused {
				hosts[hostsOfOne-1] = fmt.Sprintf("app-%d.own.example.com", turn)
			}
			ing := ingressOf(fmt.Sprintf("named-%d", i), fmt.Sprintf("app-%d", turn), hosts...)
			if err := v.took.Measure(1, 1, func(int, int) error { return v.check(user.Create(s.b.ctx, ing)) }); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return s.isNamed(times)
}

// isNamed makes sure that what was measured as guarded was, and that names were claimed where they are own.
func (s *stage) isNamed(times int) error {
	for i, refused := range []bool{true, true, true, false} {
		err := s.Client.Create(s.b.ctx, ingressOf(fmt.Sprintf("named-%d", i), "try", "app-0.own.example.com"), client.DryRunAll)
		if apierrors.IsInvalid(err) != refused {
			return fmt.Errorf("a held name in namespace named-%d: %w", i, err)
		}
	}
	for i, want := range []int{times * hostsOfOne, 0} {
		var claims v1beta1.EdgeClaimList
		by := client.MatchingFields{"spec.heldBy": claim.NamespaceHolder(fmt.Sprintf("named-%d", i)).String()}
		if err := s.Client.List(s.b.ctx, &claims, by); err != nil {
			return err
		}
		if len(claims.Items) != want {
			return fmt.Errorf("namespace named-%d has %d names, want %d", i, len(claims.Items), want)
		}
	}
	return nil
}

// ingressOf is an Ingress that serves all of some hosts.
func ingressOf(namespace, name string, hosts ...string) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	prefix := networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
	}
	for _, host := range hosts {
		rule := networkingv1.IngressRule{Host: host}
		rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: backend}}}
		ing.Spec.Rules = append(ing.Spec.Rules, rule)
	}
	return ing
}
