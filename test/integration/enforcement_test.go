package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// enforces has a class refuse, or only warn.
func enforces(by v1beta1.Enforcement) classOption {
	return func(c *v1beta1.StreamIngressClass) { c.Spec.Enforcement = by }
}

// alwaysLeads starts a history of a port that leads somewhere: it must do so in every version of the ConfigMap and of the Service.
func (e *edge) alwaysLeads(protocol v1beta1.Protocol, port int32, entry string) *history {
	e.leads(protocol, port, entry)
	return newHistory(e.t, e.Harness, func() moment { return &doorEntries{edge: e, protocol: protocol, port: port, always: entry} },
		&corev1.ConfigMapList{}, &corev1.ServiceList{})
}

// admittedWithAWarning is how many streams were admitted with a warning for a reason.
func (w *fixture) admittedWithAWarning(operation, reason string) float64 {
	return w.metric(fmt.Sprintf(
		`portcullis_admission_decisions_total{decision="warned",kind="StreamIngress",operation=%q,reason=%q}`, operation, reason))
}

// says fails the test unless the condition of a stream is as wanted, and says some words.
func (w *fixture) says(s *v1beta1.StreamIngress, kind, want string, words ...string) {
	w.t.Helper()
	w.has(s, kind, want)
	mustContain(w.t, meta.FindStatusCondition(s.Status.Conditions, kind).Message, words...)
}

// TestEnforcementWarn has a class only warn: what it would refuse is stored and has no port, whoever has one keeps it, and when they go,
// who has asked has it.
func TestEnforcementWarn(t *testing.T) {
	w := shared(t)
	e := w.newEdge("lenient", enforces(v1beta1.EnforcementWarn), reserved(22, 22))
	w.create(namespace("lenient-a"), namespace("lenient-b"), service("lenient-a/web", port("http", 80)), service("lenient-b/web", port("http", 80)))
	holder := sti("lenient-a/db", of("lenient"), tcp(5432))
	w.create(holder)
	w.programmed(holder)
	history := e.alwaysLeads(TCP, 5432, "lenient-a/web:80")
	const own = "StreamIngress lenient-a/db"

	t.Log("the second is admitted with a warning, and without the port")
	k, counted := w.warned(), w.admittedWithAWarning("create", "PortConflict")
	loser := sti("lenient-b/db", of("lenient"), tcp(5432))
	must(w, k.Create(t.Context(), loser.DeepCopy(), client.DryRunAll))
	mustContain(t, k.said(), "admitted, and not opened", "held by "+own)
	must(w, k.Create(t.Context(), loser))
	mustContain(t, k.said(), `admitted, and not opened, as class "lenient" only warns (enforcement: Warn): spec.listen: Duplicate value: "TCP/5432": held by `+own)
	w.says(loser, v1beta1.ConditionAccepted, "False PortConflict", `spec.listen: Duplicate value: "TCP/5432": held by `+own)
	w.has(loser, v1beta1.ConditionProgrammed, "False NotAccepted")
	e.heldBy("lenient", TCP, 5432, own)
	if got := w.admittedWithAWarning("create", "PortConflict") - counted; got < 2 { // the tests beside this one are warned, too
		t.Errorf("%v warnings were counted, want 2", got)
	}

	t.Log("and so is one that asks for what nobody gets, and one that may not lead where it does")
	reserved := sti("lenient-b/ssh", of("lenient"), tcp(22))
	abroad := sti("lenient-b/abroad", of("lenient"), tcp(7000), to("lenient-a/web", 80))
	must(w, errors.Join(k.Create(t.Context(), reserved), k.Create(t.Context(), abroad)))
	mustContain(t, k.said(), "reserves this port", "has not consented")
	w.says(reserved, v1beta1.ConditionAccepted, "False PortReserved", "reserves this port")
	w.says(abroad, v1beta1.ConditionResolvedRefs, "False RefNotPermitted", "has not consented")
	w.has(abroad, v1beta1.ConditionProgrammed, "False UnresolvedRefs")
	e.leads(TCP, 7000, "closed")
	e.heldBy("lenient", TCP, 22, "")

	t.Log("one without a port has nothing outside, until it has one")
	beyond := sti("lenient-b/beyond", of("lenient"), tcp(5432), outside("192.0.2.10", 5432))
	must(w, k.Create(t.Context(), beyond))
	w.has(beyond, v1beta1.ConditionAccepted, "False PortConflict")
	e.reaches(beyond, "nothing")
	must(w, editBy(t.Context(), k, beyond, tcp(5433)))
	e.reaches(beyond, "TCP 192.0.2.10:5432")
	must(w, editBy(t.Context(), k, beyond, tcp(5432)))
	e.reaches(beyond, "nothing")
	w.delete(beyond)

	t.Log("one that has a port and asks for a held one is warned, and keeps nothing")
	changed := sti("lenient-b/changed", of("lenient"), tcp(6000))
	w.create(changed)
	w.programmed(changed)
	must(w, editBy(t.Context(), k, changed, tcp(5432)))
	mustContain(t, k.said(), "held by "+own, "TCP/6000, which the stream has had, is closed")
	w.has(changed, v1beta1.ConditionAccepted, "False PortConflict")
	e.leads(TCP, 6000, "closed")
	e.heldBy("lenient", TCP, 6000, "")
	must(w, editBy(t.Context(), k, changed, tcp(6000)))
	w.programmed(changed)

	t.Log("what is about no port is refused as ever")
	mustContain(t, w.refusal(w.try(sti("lenient-b/heir", of("lenient"), tcp(1), handsOverTo[*v1beta1.StreamIngress]("what")))).Error(),
		"must be namespace/name")
	mustContain(t, w.refusal(w.try(sti("lenient-b/none", of("lenient-none"), tcp(1)))).Error(), "spec.className: Not found")

	t.Log("a class that denies again leaves who was admitted, and who waits can be edited")
	edit(w, e.class, func(c *v1beta1.StreamIngressClass) { enforces(v1beta1.EnforcementDeny)(c) })
	another := sti("lenient-b/another", of("lenient"), tcp(5432))
	w.eventually("the class to deny, whichever replica is asked", func() error {
		for range 20 {
			err := w.Client.Create(t.Context(), another.DeepCopy(), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "held by "+own) {
				return fmt.Errorf("it was not refused, but: %w", err)
			}
		}
		return nil
	})
	edit(w, loser, func(s *v1beta1.StreamIngress) { s.Labels = map[string]string{"team": "b"} })
	edit(w, loser, to("web", "http"))
	w.has(loser, v1beta1.ConditionAccepted, "False PortConflict")
	edit(w, e.class, func(c *v1beta1.StreamIngressClass) { enforces(v1beta1.EnforcementWarn)(c) })
	w.eventually("the class to warn", func() error { return w.try(another) })
	w.has(another, v1beta1.ConditionAccepted, "False PortConflict")

	t.Log("when the holder goes, who waits has it")
	e.heldBy("lenient", TCP, 5432, own)
	history.mustHold(w)
	w.delete(another, holder)
	w.programmed(loser)
	e.leads(TCP, 5432, "lenient-b/web:80")
	e.heldBy("lenient", TCP, 5432, "StreamIngress lenient-b/db")
}

// TestEnforcementWarnMoves moves a stream to a class that only warns, where somebody has the port: the door that it had stays open until
// the other goes.
func TestEnforcementWarnMoves(t *testing.T) {
	w := shared(t)
	from, next := w.newEdge("lenient-from"), w.newEdge("lenient-to", enforces(v1beta1.EnforcementWarn))
	w.create(namespace("lenient-movers"), service("lenient-movers/web", port("http", 80)))
	mover := sti("lenient-movers/s", of("lenient-from"), tcp(5432))
	rival := sti("lenient-movers/rival", of("lenient-to"), tcp(5432))
	w.create(mover, rival)
	w.programmed(mover, rival)
	history := from.alwaysLeads(TCP, 5432, "lenient-movers/web:80")
	k := w.warned()
	must(w, editBy(t.Context(), k, mover, of("lenient-to")))
	mustContain(t, k.said(), `class "lenient-to" only warns`, "held by StreamIngress lenient-movers/rival")
	w.has(mover, v1beta1.ConditionAccepted, "False PortConflict")
	w.saysStaysOpen(mover, "TCP/5432 of class lenient-from")
	from.heldBy("lenient-from", TCP, 5432, "StreamIngress lenient-movers/s")
	next.heldBy("lenient-to", TCP, 5432, "StreamIngress lenient-movers/rival")
	history.mustHold(w)
	w.delete(rival)
	w.moved(mover, "lenient-to")
	from.leads(TCP, 5432, "closed")
}

// TestEnforcementWarnCreators has many create a stream with the same port at the same time: all are admitted, and one has it.
func TestEnforcementWarnCreators(t *testing.T) {
	const creators = 50
	w := shared(t)
	e := w.newEdge("lenient-race", enforces(v1beta1.EnforcementWarn))
	w.create(namespace("lenient-racers"), service("lenient-racers/web", port("http", 80)))
	streams, errs := make([]*v1beta1.StreamIngress, creators), make([]error, creators)
	var all sync.WaitGroup
	for i := range streams {
		streams[i] = sti(fmt.Sprintf("lenient-racers/s-%d", i), of("lenient-race"), tcp(5432))
		all.Go(func() { errs[i] = w.Client.Create(t.Context(), streams[i]) })
	}
	all.Wait()
	must(w, errors.Join(errs...))
	var open []string
	w.eventually("one to have the port, and all others to be told so", func() error {
		open = nil
		for _, s := range streams {
			w.get(s)
			c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionAccepted)
			switch {
			case isProgrammed(s):
				open = append(open, "StreamIngress lenient-racers/"+s.Name)
			case c == nil || c.Reason != v1beta1.ReasonPortConflict:
				return fmt.Errorf("%s has %v", s.Name, s.Status.Conditions)
			}
		}
		return is(len(open), 1)
	})
	e.heldBy("lenient-race", TCP, 5432, open[0])
	e.leads(TCP, 5432, "lenient-racers/web:80")
	i := slices.IndexFunc(streams, isProgrammed)

	t.Log("when it goes, one of the others has it")
	w.delete(streams[i])
	streams = slices.Delete(streams, i, i+1)
	w.eventually("another to have the port", func() error {
		holder := w.holder("lenient-race", TCP, 5432)
		if holder == "" || holder == open[0] {
			return fmt.Errorf("held by %q", holder)
		}
		return nil
	})
	e.leads(TCP, 5432, "lenient-racers/web:80")
}
