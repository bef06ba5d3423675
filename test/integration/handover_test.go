package integration

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// handsOverTo has an object say to whom it hands over what it holds, nobody for "".
func handsOverTo[T client.Object](heir string) func(T) {
	return func(obj T) {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1beta1.AnnotationHandOverTo] = heir
		if heir == "" {
			delete(annotations, v1beta1.AnnotationHandOverTo)
		}
		obj.SetAnnotations(annotations)
	}
}

// TestHandOver has a stream hand its port over to one of another namespace: no rival gets in between, and no version of the ConfigMap or of
// the Service is without the port.
func TestHandOver(t *testing.T) {
	w := shared(t)
	e := w.newEdge("hands", allow(5000, 5999, ""))
	w.create(namespace("hands-a"), namespace("hands-b"), namespace("hands-c"))
	giver := sti("hands-a/old", of("hands"), tcp(5432), to("db", 5432))
	heir := sti("hands-b/new", of("hands"), tcp(5432), to("db", 5432))
	rival := sti("hands-c/rival", of("hands"), tcp(5432), to("db", 5432))
	w.create(giver)
	w.programmed(giver)
	e.leads(TCP, 5432, "hands-a/db:5432")
	history := entriesOf(w, e, TCP, 5432)

	t.Log("nobody takes it who is not named, and the refusal says how to get it")
	told := w.refusal(w.try(heir.DeepCopy())).Error()
	mustContain(t, told, "held by StreamIngress hands-a/old", v1beta1.AnnotationHandOverTo+": hands-b/new")
	err := tryEdit(w, giver, handsOverTo[*v1beta1.StreamIngress]("new"))
	mustContain(t, w.refusal(err).Error(), `hand-over-to]`, "must be namespace/name")
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress]("hands-b/new"))
	mustContain(t, w.refusal(w.try(rival.DeepCopy())).Error(), "held by StreamIngress hands-a/old")
	if err := w.Client.Create(t.Context(), heir.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a dry run of who is named: %v", err)
	}
	e.heldBy("hands", TCP, 5432, "StreamIngress hands-a/old")

	t.Log("who is named has it")
	w.create(heir)
	w.programmed(heir)
	e.heldBy("hands", TCP, 5432, "StreamIngress hands-b/new")
	e.leads(TCP, 5432, "hands-b/db:5432")
	w.has(giver, v1beta1.ConditionAccepted, "False HandedOver")
	history.mustHold(w)
	w.tellsHandedOver(giver, heir)

	t.Log("who has given does not ask again, free as the port may be, until it no longer says that it gives")
	w.delete(heir)
	e.heldBy("hands", TCP, 5432, "")
	e.leads(TCP, 5432, "closed")
	edit(w, giver, func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Port.IntVal = 5433 })
	w.has(giver, v1beta1.ConditionAccepted, "False HandedOver")
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress](""))
	w.programmed(giver)
	e.leads(TCP, 5432, "hands-a/db:5433")

	t.Log("and back, to one that asks for it already, whoever is named or asks first")
	heir = sti("hands-b/new", of("hands"), tcp(5432), to("db", 5432))
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress]("hands-b/new"))
	w.create(heir)
	w.programmed(heir)
	w.has(giver, v1beta1.ConditionAccepted, "False HandedOver")
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress](""))
	w.has(giver, v1beta1.ConditionAccepted, "False PortConflict")
	edit(w, heir, handsOverTo[*v1beta1.StreamIngress]("hands-a/old"))
	w.programmed(giver)
	e.leads(TCP, 5432, "hands-a/db:5433")
	w.has(heir, v1beta1.ConditionAccepted, "False HandedOver")
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress]("hands-b/new"))
	edit(w, heir, handsOverTo[*v1beta1.StreamIngress](""))
	w.programmed(heir)
	e.leads(TCP, 5432, "hands-b/db:5432")
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress](""))
	edit(w, heir, handsOverTo[*v1beta1.StreamIngress]("hands-a/old"))
	w.programmed(giver)
	w.delete(heir)

	t.Log("in one namespace, and who has given goes at once")
	brother := sti("hands-a/brother", of("hands"), tcp(5432), to("other", 1))
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress]("hands-a/brother"))
	w.create(brother)
	w.delete(giver)
	w.programmed(brother)
	e.leads(TCP, 5432, "hands-a/other:1")
	e.heldBy("hands", TCP, 5432, "StreamIngress hands-a/brother")

	t.Log("to a stream that has another port, by an edit")
	mover := sti("hands-c/mover", of("hands"), tcp(5000), to("db", 5432))
	w.create(mover)
	w.programmed(mover)
	edit(w, brother, handsOverTo[*v1beta1.StreamIngress]("hands-c/mover"))
	edit(w, mover, tcp(5432))
	w.programmed(mover)
	e.leads(TCP, 5432, "hands-c/db:5432")
	e.leads(TCP, 5000, "closed")
	e.heldBy("hands", TCP, 5000, "")
	w.has(brother, v1beta1.ConditionAccepted, "False HandedOver")

	t.Log("who has given asks for no other port, either, until it no longer says that it gives")
	mustContain(t, w.refusal(tryEdit(w, brother, tcp(5001))).Error(), "hand-over-to]", "was handed over to StreamIngress hands-c/mover")
	edit(w, brother, handsOverTo[*v1beta1.StreamIngress](""))
	w.has(brother, v1beta1.ConditionAccepted, "False PortConflict")
	edit(w, brother, tcp(5001))
	w.programmed(brother)

	t.Log("to a stream that was assigned its port, and asks for that one again later")
	edit(w, e.class, autoAssign(5100, 5199))
	drawn := sti("hands-b/drawn", of("hands"), auto(TCP), to("db", 1))
	w.eventually("a port to be assigned", func() error { return w.try(drawn) })
	w.programmed(drawn)
	edit(w, mover, handsOverTo[*v1beta1.StreamIngress]("hands-b/drawn"))
	edit(w, drawn, tcp(5432))
	w.programmed(drawn)
	e.leads(TCP, 5432, "hands-b/db:1")
	e.heldBy("hands", TCP, 5432, "StreamIngress hands-b/drawn")
	w.has(mover, v1beta1.ConditionAccepted, "False HandedOver")
}

// TestHandOverToNobody has the one who is named be refused by a quota after it was promised the port: nothing has happened.
func TestHandOverToNobody(t *testing.T) {
	w := shared(t)
	e := w.newEdge("unheired", autoAssign(20000, 20999))
	w.create(namespace("unheired-a"), namespace("unheired-b"))
	w.without("unheired-b", "count/streamingresses.nginx-stream.jeffthecoder.xyz", func() error {
		w.setsQuota("unheired-b")
		probe := sti("unheired-b/probe", of("unheired"), udp(1))
		defer e.delete(probe)
		return e.try(probe)
	})
	giver := sti("unheired-a/old", of("unheired"), tcp(5432), to("db", 5432))
	heir := sti("unheired-b/new", of("unheired"), tcp(5432), to("db", 5432))
	w.create(giver)
	w.programmed(giver)
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress]("unheired-b/new"))
	c := &v1beta1.EdgeClaim{}
	c.Name = claim.Stream("unheired", TCP, 5432).Name()
	w.eventually("the port to be promised to who is named", func() error {
		if err := w.try(heir.DeepCopy()); !apierrors.IsForbidden(err) {
			return fmt.Errorf("not refused by the quota: %w", err)
		}
		w.get(c)
		if c.Spec.Heir == nil || c.Spec.Heir.Name != "new" { // or the grace is over already
			return fmt.Errorf("the heir is %v", c.Spec.Heir)
		}
		return nil
	})
	e.heldBy("unheired", TCP, 5432, "StreamIngress unheired-a/old")

	t.Log("withdrawn, it is not theirs, whatever they ask for then")
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress](""))
	w.delete(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "unheired-b", Name: "none"}})
	drawn := sti("unheired-b/new", of("unheired"), auto(TCP), to("db", 5432))
	w.eventually("one of that name to be stored", func() error { return w.try(drawn) })
	w.programmed(drawn)
	w.eventually("the heir to be forgotten", func() error {
		w.get(c)
		if c.Spec.Heir != nil {
			return fmt.Errorf("it is %v", c.Spec.Heir)
		}
		return nil
	})
	e.heldBy("unheired", TCP, 5432, "StreamIngress unheired-a/old")
	w.programmed(giver)
	e.leads(TCP, 5432, "unheired-a/db:5432")

	t.Log("named once more, they have it")
	edit(w, giver, handsOverTo[*v1beta1.StreamIngress]("unheired-b/new"))
	edit(w, drawn, tcp(5432))
	e.heldBy("unheired", TCP, 5432, "StreamIngress unheired-b/new")
	e.leads(TCP, 5432, "unheired-b/db:5432")
}

// setsQuota has the quota of a namespace be in force, as there is no controller that does it.
func (w *fixture) setsQuota(namespace string) {
	quota := &corev1.ResourceQuota{}
	quota.Namespace, quota.Name = namespace, "none"
	w.get(quota)
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, quota.Spec.Hard
	must(w, w.Client.Status().Update(w.t.Context(), quota))
}

// tellsHandedOver waits until both sides of a hand-over have an event that says so.
func (w *fixture) tellsHandedOver(giver, heir client.Object) {
	w.t.Helper()
	for obj, reason := range map[client.Object]string{giver: v1beta1.ReasonHandedOver, heir: v1beta1.ReasonTookOver} {
		w.eventually(fmt.Sprintf("%s to be told %s", client.ObjectKeyFromObject(obj), reason), func() error {
			var list eventsv1.EventList
			must(w, w.Client.List(w.t.Context(), &list, client.InNamespace(obj.GetNamespace())))
			if slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
				return e.Regarding.Name == obj.GetName() && e.Regarding.Kind == "StreamIngress" && e.Reason == reason
			}) {
				return nil
			}
			return fmt.Errorf("none of %d events", len(list.Items))
		})
	}
}

// doorEntries is the history of an entry in a ConfigMap and of its port on the Service.
type doorEntries struct {
	edge     *edge
	protocol v1beta1.Protocol
	port     int32
	// always is the entry that there has to be, any if it is empty.
	always string
	entry  string
	isOpen bool
}

// entriesOf starts a history of a port that is open: it must be in every version of the ConfigMap and of the Service.
func entriesOf(w *fixture, e *edge, protocol v1beta1.Protocol, port int32) *history {
	return newHistory(w.t, w.Harness, func() moment { return &doorEntries{edge: e, protocol: protocol, port: port} },
		&corev1.ConfigMapList{}, &corev1.ServiceList{})
}

func (m *doorEntries) apply(e happening) []types.NamespacedName {
	key := client.ObjectKeyFromObject(e.stored)
	switch stored := e.stored.(type) {
	case *corev1.ConfigMap:
		if ref := m.edge.class.ConfigMap(m.protocol); key == (types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}) {
			m.entry = stored.Data[fmt.Sprint(m.port)]
			return m.everybody()
		}
	case *corev1.Service:
		if ref := m.edge.class.Spec.Service; key == (types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}) {
			m.isOpen = false
			for _, p := range stored.Spec.Ports {
				m.isOpen = m.isOpen || p.Port == m.port && p.Protocol == corev1.Protocol(m.protocol)
			}
			return m.everybody()
		}
	}
	return nil
}

func (m *doorEntries) everybody() []types.NamespacedName {
	return []types.NamespacedName{{Name: "door"}}
}

func (m *doorEntries) check(types.NamespacedName) error {
	if m.entry == "" || !m.isOpen || m.always != "" && m.entry != m.always {
		return fmt.Errorf("%s/%d has the entry %q, and is open: %v", m.protocol, m.port, m.entry, m.isOpen)
	}
	return nil
}

func (m *doorEntries) around([]happening, int, types.NamespacedName) string { return "" }
