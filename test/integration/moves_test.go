package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// classPair are a class with a proxy and one without, for streams that move from one to the other.
type classPair struct {
	*edge
	kernel *v1beta1.StreamIngressClass
	// upstream is namespace/service, and answers is what the kernel is told to lead a port to.
	upstream, answers string
}

// newClassPair makes both classes, named <name> and <name>-kernel, and an upstream in namespace <name>-a.
func (w *fixture) newClassPair(name, address string) *classPair {
	w.t.Helper()
	p := &classPair{edge: w.newEdge(name, autoAssign(30000, 30999)), upstream: name + "-a/web", answers: address + " -> 10.9.3.1:8080"}
	p.kernel = kernelClass(name+"-kernel", name, autoAssign(30000, 30999))
	backend := pod(name + "-a/web-0")
	w.create(namespace(p.kernel.Name), namespace(name+"-a"), addressPool(name, []string{address}, onRequest), p.kernel,
		service(p.upstream, port("http", 80)), backend)
	w.runs(backend, "10.9.3.1")
	w.create(sliceOf(p.upstream+"-x", "web", "http", 8080, endpoint("10.9.3.1", backend)))
	w.classHas(p.kernel, v1beta1.ConditionProgrammed, "True Programmed")
	return p
}

// stream is one of the class with a proxy.
func (p *classPair) stream(name string, options ...streamOption) *v1beta1.StreamIngress {
	ns, _, _ := strings.Cut(p.upstream, "/")
	return sti(ns+"/"+name, append([]streamOption{of(p.class.Name), to("web", 80)}, options...)...)
}

// moved waits until a stream is open behind a class, and nowhere else. The stream is read anew.
func (w *fixture) moved(s *v1beta1.StreamIngress, class string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s to have moved to %s", s.Name, class), func() error {
		w.get(s)
		if p := s.Status.Previous; p != nil || s.Status.ClassName != class || !isProgrammed(s) {
			return fmt.Errorf("it is of class %s, moves from %v, with %v", s.Status.ClassName, p, s.Status.Conditions)
		}
		return nil
	})
}

func isProgrammed(s *v1beta1.StreamIngress) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionProgrammed)
	return c != nil && c.Status == "True" && c.ObservedGeneration == s.Generation
}

// saysStaysOpen fails the test unless a stream says that a door stays open.
func (w *fixture) saysStaysOpen(s *v1beta1.StreamIngress, door string) {
	w.t.Helper()
	if c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionProgrammed); c != nil {
		mustContain(w.t, c.Message, door+" stays open until it is")
	}
}

// TestMoves moves a stream from a class with a proxy to one without, and back; to one that can't open it, and back; and on from one to
// the next.
func TestMoves(t *testing.T) {
	w := shared(t)
	p := w.newClassPair("moves", "198.18.72.0")
	s := p.stream("s", tcp(5432))
	w.create(s)
	w.programmed(s)
	own := "StreamIngress moves-a/s"

	t.Log("both doors are open, and held, for five seconds")
	edit(w, s, of("moves-kernel"))
	w.forwards("moves-kernel", TCP, 5432, p.answers)
	w.programmed(s)
	opened := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionProgrammed).LastTransitionTime
	p.leads(TCP, 5432, "closed")
	if open := time.Since(opened.Time); open < 5*time.Second {
		t.Errorf("the former door is closed %v after the new one was opened", open)
	}
	w.moved(s, "moves-kernel")
	p.heldBy("moves", TCP, 5432, "")
	p.heldBy("moves-kernel", TCP, 5432, own)

	t.Log("to another number, and back before anything was opened")
	edit(w, s, func(s *v1beta1.StreamIngress) { of("moves")(s); tcp(5433)(s) })
	p.leads(TCP, 5433, p.upstream+":80")
	edit(w, s, func(s *v1beta1.StreamIngress) { of("moves-kernel")(s); tcp(5432)(s) })
	p.leads(TCP, 5433, "closed")
	p.heldBy("moves", TCP, 5433, "")
	w.moved(s, "moves-kernel")
	w.forwards("moves-kernel", TCP, 5432, p.answers)

	t.Log("to a class that has no address: the door stays open, and is held")
	nowhere := kernelClass("moves-nowhere", "moves-no-pool")
	w.create(nowhere)
	w.classHas(nowhere, v1beta1.ConditionProgrammed, "False NoAddress")
	edit(w, s, of("moves-nowhere"))
	w.has(s, v1beta1.ConditionProgrammed, "False NoAddress")
	w.saysStaysOpen(s, "TCP/5432 of class moves-kernel")
	p.heldBy("moves-nowhere", TCP, 5432, own)
	mustContain(t, w.refusal(w.try(p.stream("rival", of("moves-kernel"), tcp(5432)))).Error(), "held by "+own)

	t.Log("and from there on to the next")
	edit(w, s, of("moves"))
	w.moved(s, "moves")
	p.leads(TCP, 5432, p.upstream+":80")
	w.forwards("moves-kernel", TCP, 5432, "closed")
	p.heldBy("moves-nowhere", TCP, 5432, "")
	p.heldBy("moves-kernel", TCP, 5432, "")

	t.Log("a stream that is being deleted, and kept by its owner, keeps one door")
	edit(w, s, func(s *v1beta1.StreamIngress) { of("moves-kernel")(s); finalizer("example.com/mine")(s) })
	w.forwards("moves-kernel", TCP, 5432, p.answers)
	must(w, w.Client.Delete(t.Context(), s))
	p.leads(TCP, 5432, "closed")
	p.heldBy("moves", TCP, 5432, "")
	w.forwards("moves-kernel", TCP, 5432, p.answers)
	edit(w, s, func(s *v1beta1.StreamIngress) { s.Finalizers = nil })
	w.forwards("moves-kernel", TCP, 5432, "closed")
	p.leads(TCP, 5432, "closed")
	p.heldBy("moves", TCP, 5432, "")
	p.heldBy("moves-kernel", TCP, 5432, "")
}

// TestMovesAmidFailures moves many streams from a class with a proxy to one without, and some of them back, while leaders die and leave.
// At no version was a stream that had been open without a door, or with more than two, or with one that it had no claim on.
func TestMovesAmidFailures(t *testing.T) {
	t.Parallel()
	const streams = 60
	h := start(t, raceOptions())
	w := newFixture(t, h)
	p := w.newClassPair("movers", "198.18.72.1")
	all := make([]*v1beta1.StreamIngress, streams)
	for i := range all {
		all[i] = p.stream(fmt.Sprintf("mover-%d", i), tcp(int32(20000+i)))
		if i%5 == 4 {
			auto(UDP)(all[i])
		}
		if i%5 == 3 {
			auto(TCP)(all[i])
		}
	}
	w.create(service("movers-a/web-udp", port("http", 80, UDP)))
	for i, s := range all {
		if i%5 == 4 {
			to("web-udp", 80)(s)
		}
		w.create(s)
	}
	w.programmed(all...)
	c := doorHistory(t, h, p)

	t.Log("the leader dies while they move")
	for i, s := range all {
		edit(w, s, of(p.kernel.Name))
		if i == streams/2 {
			must(w, leader(w, h.Replicas...).Kill())
			_, err := h.StartReplica(t.Context())
			must(w, err)
		}
	}
	for _, s := range all {
		w.moved(s, p.kernel.Name)
	}

	t.Log("half of them go back while the next leader leaves, some change their mind")
	alive := others(h.Replicas, h.Replicas[0])
	for i, s := range all[:streams/2] {
		edit(w, s, of(p.class.Name))
		if i%3 == 0 {
			edit(w, s, of(p.kernel.Name))
		}
		if i == streams/4 {
			running := slices.DeleteFunc(slices.Clone(alive), hasEnded)
			leaves := leader(w, running...)
			must(w, leaves.Retire(t.Context()))
			_, err := h.StartReplica(t.Context())
			must(w, err)
		}
	}
	for i, s := range all {
		want := p.kernel.Name
		if i < streams/2 && i%3 != 0 {
			want = p.class.Name
		}
		w.moved(s, want)
	}
	p.isExact()
	w.eventually("the doors without a proxy to be exact", p.kernelExactly)
	c.mustHold(w)
}

func hasEnded(r *harness.Replica) bool {
	select {
	case <-r.Ended():
		return true
	default:
		return false
	}
}

// kernelExactly compares the Services and the claims of the class without a proxy with its streams.
func (p *classPair) kernelExactly() error {
	var streams v1beta1.StreamIngressList
	var services corev1.ServiceList
	var claims v1beta1.EdgeClaimList
	for list, in := range map[client.ObjectList]string{&streams: "", &services: p.kernel.Name, &claims: ""} {
		if err := p.Client.List(p.t.Context(), list, client.InNamespace(in)); err != nil {
			return err
		}
	}
	got, want := map[string]string{}, map[string]string{}
	for i := range streams.Items {
		if s := &streams.Items[i]; s.Spec.ClassName == p.kernel.Name {
			at := claim.Stream(p.kernel.Name, s.ProtocolOrDefault(), s.Status.Listen)
			want["Service "+v1beta1.StreamServiceName(at.Class(), at.Protocol(), at.Port())] = "open"
			want["claim "+at.Name()] = claim.StreamHolder(s.Namespace, s.Name).String()
		}
	}
	for i := range services.Items {
		got["Service "+services.Items[i].Name] = "closed"
		if len(services.Items[i].Status.LoadBalancer.Ingress) > 0 {
			got["Service "+services.Items[i].Name] = "open"
		}
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Spec.Scope == claim.StreamScope(p.kernel.Name) {
			got["claim "+c.Name] = c.Spec.HeldBy
		}
	}
	return same("class "+p.kernel.Name, got, want)
}

// doorHistory starts a history of what the streams of two classes have open.
func doorHistory(t *testing.T, h *harness.Harness, p *classPair) *history {
	t.Helper()
	return newHistory(t, h, func() moment {
		return &doorMoment{
			pair: p, streams: map[types.NamespacedName]*v1beta1.StreamIngress{}, holders: map[claim.Coordinate]claim.Holder{},
			entries: map[claim.Coordinate]bool{}, ports: map[claim.Coordinate]bool{}, forwarded: map[claim.Coordinate]bool{},
			had: map[types.NamespacedName]bool{},
		}
	}, &v1beta1.StreamIngressList{}, &v1beta1.EdgeClaimList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{})
}

// doorMoment is what is open at one version.
type doorMoment struct {
	pair    *classPair
	streams map[types.NamespacedName]*v1beta1.StreamIngress
	holders map[claim.Coordinate]claim.Holder
	// entries and ports are those of the proxy: it is open where both are. forwarded are the doors of the kernel.
	entries, ports, forwarded map[claim.Coordinate]bool
	// had are the streams that have been open.
	had map[types.NamespacedName]bool
}

func (m *doorMoment) apply(e happening) []types.NamespacedName {
	switch stored := e.stored.(type) {
	case *v1beta1.StreamIngress:
		key := client.ObjectKeyFromObject(stored)
		if m.streams[key] = stored; e.gone {
			delete(m.streams, key)
		}
		return []types.NamespacedName{key}
	case *v1beta1.EdgeClaim:
		at, err := claim.Of(stored)
		if err != nil || !at.IsStream() {
			return nil
		}
		concerned := []types.NamespacedName{claim.HolderOf(stored).Key(), m.holders[at].Key()}
		if m.holders[at] = claim.HolderOf(stored); e.gone {
			delete(m.holders, at)
		}
		return concerned
	case *corev1.ConfigMap:
		for _, protocol := range []v1beta1.Protocol{TCP, UDP} {
			if ref := m.pair.class.ConfigMap(protocol); ref.Namespace == stored.Namespace && ref.Name == stored.Name {
				replace(m.entries, protocol, m.entriesOf(stored, protocol))
			}
		}
	case *corev1.Service:
		m.applyService(stored, e.gone)
	}
	return m.everybody()
}

func (m *doorMoment) entriesOf(cm *corev1.ConfigMap, protocol v1beta1.Protocol) (entries []claim.Coordinate) {
	for key := range cm.Data {
		var port int32
		if _, err := fmt.Sscan(key, &port); err == nil {
			entries = append(entries, claim.Stream(m.pair.class.Name, protocol, port))
		}
	}
	return entries
}

// replace replaces the points of a protocol.
func replace(points map[claim.Coordinate]bool, protocol v1beta1.Protocol, by []claim.Coordinate) {
	for at := range points {
		if at.Protocol() == protocol {
			delete(points, at)
		}
	}
	for _, at := range by {
		points[at] = true
	}
}

func (m *doorMoment) applyService(svc *corev1.Service, gone bool) {
	if svc.Namespace == m.pair.kernel.Name && len(svc.Spec.Ports) == 1 {
		p := svc.Spec.Ports[0]
		m.forwarded[claim.Stream(m.pair.kernel.Name, v1beta1.Protocol(p.Protocol), p.Port)] = !gone && len(svc.Status.LoadBalancer.Ingress) > 0
	}
	if svc.Namespace != m.pair.namespace || svc.Name != "proxy" {
		return
	}
	for _, protocol := range []v1beta1.Protocol{TCP, UDP} {
		var open []claim.Coordinate
		for _, p := range svc.Spec.Ports {
			if v1beta1.Protocol(p.Protocol) == protocol {
				open = append(open, claim.Stream(m.pair.class.Name, protocol, p.Port))
			}
		}
		replace(m.ports, protocol, open)
	}
}

func (m *doorMoment) everybody() (all []types.NamespacedName) {
	for key := range m.streams {
		all = append(all, key)
	}
	return all
}

// check says whether a stream that was open still is, at two doors at most, and holds each of them.
func (m *doorMoment) check(key types.NamespacedName) error {
	if m.streams[key] == nil {
		return nil
	}
	holder, open := claim.StreamHolder(key.Namespace, key.Name), 0
	for at, by := range m.holders {
		if by == holder && (m.forwarded[at] || m.entries[at] && m.ports[at]) {
			open++
		}
	}
	if m.had[key] = m.had[key] || open > 0; m.had[key] && open == 0 || open > 2 {
		return fmt.Errorf("%s is open at %d doors that it holds", key, open)
	}
	return nil
}

// around tells of the stream and its claims.
func (m *doorMoment) around(events []happening, i int, key types.NamespacedName) string {
	const enough = 12
	var lines []string
	for _, e := range events[:i+1] {
		switch o := e.stored.(type) {
		case *v1beta1.StreamIngress:
			if client.ObjectKeyFromObject(o) == key {
				lines = append(lines, fmt.Sprintf("  %d stream: class %s, status %s %d %v %s", e.version, o.Spec.ClassName, o.Status.ClassName,
					o.Status.Listen, o.Status.Previous, condition(o.Status.Conditions, v1beta1.ConditionProgrammed)))
			}
		case *v1beta1.EdgeClaim:
			if claim.HolderOf(o).Key() == key {
				lines = append(lines, fmt.Sprintf("  %d claim %s, gone: %v", e.version, o.Name, e.gone))
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}
