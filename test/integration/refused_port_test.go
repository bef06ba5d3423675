package integration

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestNodePortsRunOut: a cluster with ten node ports, and more streams than that.
func TestNodePortsRunOut(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, ControlPlane: controlplane.Options{
		APIServerFlags: []string{"--service-node-port-range=30000-30009"},
	}}))
	e := w.newEdge("nodeports")
	other := service("default/other", port("a", 1), port("b", 2))
	other.Spec.Type = corev1.ServiceTypeNodePort
	w.create(other, namespace("nodeports"))
	edit(w, e.proxy(), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })

	// Four are taken: six of the eight find one.
	var streams []*v1beta1.StreamIngress
	for i := range 8 {
		s := sti(fmt.Sprintf("nodeports/s%d", i), of("nodeports"), tcp(1000+int32(i)))
		streams = append(streams, s)
		w.create(s)
	}
	open, refused := e.sorted(streams, 6)
	for _, s := range refused {
		mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "Service edge-nodeports/proxy", "failed to allocate a nodePort: range is full")
		w.has(s, v1beta1.ConditionAccepted, "True Accepted")
		e.heldBy("nodeports", TCP, *s.Spec.Listen, "StreamIngress nodeports/"+s.Name)
		e.leads(TCP, *s.Spec.Listen, "no port: nodeports/web:80")
	}
	w.eventually("the class to list the refused ports", func() error { // while they came there were fewer
		w.classHas(e.class, v1beta1.ConditionProgrammed, "False PortRefused")
		return is(len(e.class.Status.Refused), 2)
	})

	t.Log("a stream that goes makes room for another")
	w.delete(open[0])
	open, refused = e.sorted(append(open[1:], refused...), 6)

	t.Log("streams without a node port can go, too")
	w.create(sti("nodeports/late", of("nodeports"), tcp(2000)))
	w.has(sti("nodeports/late"), v1beta1.ConditionProgrammed, "False PortRefused")
	w.delete(sti("nodeports/late"))
	e.leads(TCP, 2000, "closed")
	w.programmed(open...)

	t.Log("room that appears elsewhere is found")
	w.delete(other)
	w.programmed(append(open, refused...)...)
	w.classHas(e.class, v1beta1.ConditionProgrammed, "True Programmed")
}

// sorted waits until so many streams are programmed and the others refused, and returns both.
func (e *edge) sorted(streams []*v1beta1.StreamIngress, want int) (programmed, refused []*v1beta1.StreamIngress) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("%d streams to be programmed, and %d refused", want, len(streams)-want), func() (err error) {
		programmed, refused, err = e.apart(streams, v1beta1.ReasonPortRefused)
		return cmp.Or(err, is(len(programmed), want))
	})
	return programmed, refused
}

// apart reads streams, and tells those that are programmed from those that are not for a reason. One that is neither is an error.
func (w *fixture) apart(streams []*v1beta1.StreamIngress, reason string) (programmed, refused []*v1beta1.StreamIngress, err error) {
	w.t.Helper()
	for _, s := range streams {
		w.get(s)
		switch got := condition(s.Status.Conditions, v1beta1.ConditionProgrammed); got {
		case "True " + v1beta1.ReasonProgrammed:
			programmed = append(programmed, s)
		case "False " + reason:
			refused = append(refused, s)
		default:
			return nil, nil, fmt.Errorf("%s is %s", s.Name, got)
		}
	}
	return programmed, refused, nil
}

// TestUnnamedPort: beside an unnamed port no other is possible, which its owner can change.
func TestUnnamedPort(t *testing.T) {
	w := shared(t)
	e := &edge{fixture: w, namespace: "edge-unnamed", class: streamClass("unnamed", "edge-unnamed")}
	proxy := service("edge-unnamed/proxy", port("", 80))
	s := sti("unnamed/s", of("unnamed"), tcp(1000))
	w.create(namespace("edge-unnamed"), namespace("unnamed"), proxy, e.class)
	w.eventually("the class to be seen", func() error { return w.try(s) })
	w.has(s, v1beta1.ConditionProgrammed, "False PortRefused")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "Service edge-unnamed/proxy", "spec.ports[0].name: Required value")
	w.get(proxy)
	if proxy.Labels[v1beta1.LabelClass] != "unnamed" || len(proxy.Spec.Ports) != 1 {
		t.Errorf("got the labels %v and the ports %v", proxy.Labels, proxy.Spec.Ports)
	}
	edit(w, proxy, func(s *corev1.Service) { s.Spec.Ports[0].Name = "http" })
	e.leads(TCP, 1000, "unnamed/web:80")
	w.programmed(s)
}

// TestOneBadPort: somebody else's port bears the name that one of ours needs.
func TestOneBadPort(t *testing.T) {
	e := shared(t).newEdge("bad")
	proxy := e.proxy()
	edit(e.fixture, proxy, func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, port("tcp-1003", 9999)) })
	e.create(namespace("bad"))
	var good []*v1beta1.StreamIngress
	bad := sti("bad/s3", of("bad"), tcp(1003))
	for i := range 20 {
		s := sti(fmt.Sprintf("bad/s%d", i), of("bad"), tcp(1000+int32(i)))
		if i == 3 {
			s = bad
		} else {
			good = append(good, s)
		}
		e.create(s)
	}
	e.programmed(good...)
	e.has(bad, v1beta1.ConditionProgrammed, "False PortRefused")
	message := messageOf(bad.Status.Conditions, v1beta1.ConditionProgrammed)
	mustContain(t, message, `Duplicate value: "tcp-1003"`)
	e.classHas(e.class, v1beta1.ConditionProgrammed, "False PortRefused")
	mustContain(t, messageOf(e.class.Status.Conditions, v1beta1.ConditionProgrammed), "1 port(s) could not be programmed", "TCP/1003")

	t.Log("others still come and go beside it")
	late := sti("bad/late", of("bad"), udp(1003))
	e.create(late)
	e.programmed(late)
	e.delete(good[0])
	e.leads(TCP, 1000, "closed")

	t.Log("it opens when the name is free")
	edit(e.fixture, proxy, func(s *corev1.Service) {
		for i := range s.Spec.Ports {
			if s.Spec.Ports[i].Port == 9999 {
				s.Spec.Ports[i].Name = strings.ReplaceAll(s.Spec.Ports[i].Name, "tcp-", "own-")
			}
		}
	})
	e.programmed(bad)
	e.leads(TCP, 1003, "bad/web:80")
	e.classHas(e.class, v1beta1.ConditionProgrammed, "True Programmed")
}
