package integration

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestNoSelfConflict: what is stored is never refused because of its own claim, or of rules that came later.
func TestNoSelfConflict(t *testing.T) {
	e := shared(t).newEdge("self", autoAssign(20000, 20009))
	e.create(namespace("self"))
	const manifest = `{apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1, kind: StreamIngress, metadata: {name: s, namespace: self},
spec: {className: self, listen: 5432, upstream: {service: db, port: 5432}}}`
	const automatic = `{apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1, kind: StreamIngress, metadata: {name: auto, namespace: self},
spec: {className: self, upstream: {service: db, port: 5432}}}`
	everything := func() {
		t.Helper()
		for _, m := range []string{manifest, automatic} {
			for range 2 {
				e.mustKubectl(m, "apply", "-f", "-")
				e.mustKubectl(m, "apply", "--server-side", "--force-conflicts", "-f", "-")
			}
			e.mustKubectl(m, "replace", "-f", "-")
		}
		e.mustKubectl("", "label", "sti", "-n", "self", "--all", "--overwrite", "team=a")
		e.mustKubectl("", "annotate", "sti", "-n", "self", "--all", "--overwrite", "note=b")
		e.mustKubectl("", "patch", "sti", "-n", "self", "s", "--type=merge", "-p", `{"spec":{"upstream":{"port":5433}}}`)
		e.mustKubectl("", "patch", "sti", "-n", "self", "s", "--subresource=status", "--type=merge", "-p", `{"status":{"listen":1}}`)
	}
	everything()
	s, a := sti("self/s"), sti("self/auto")
	e.programmed(s, a)
	drawn := a.Status.Listen

	t.Log("the rules get tighter")
	edit(e.fixture, e.class, func(c *v1beta1.StreamIngressClass) {
		reserved(1, 6000)(c)
		allow(7000, 7001, "team=none")(c)
		c.Spec.AutoAssign = nil
	})
	e.eventually("the rules to be seen", func() error {
		err := e.Client.Create(t.Context(), sti("self/new", of("self"), tcp(6001)), client.DryRunAll)
		return is(err != nil && strings.Contains(err.Error(), "does not give TCP/6001"), true)
	})
	everything()
	e.eventually("the status to be set right", func() error {
		e.get(s, a)
		return is([2]int32{s.Status.Listen, a.Status.Listen}, [2]int32{5432, drawn})
	})
	e.programmed(s, a)
	e.leads(TCP, 5432, "self/db:5433")
	e.heldBy("self", TCP, 5432, "StreamIngress self/s")
	e.heldBy("self", TCP, drawn, "StreamIngress self/auto")

	t.Log("a move is judged by the rules of today")
	// A replica that still knows the old rules would let the stream move.
	e.eventually("the move to be refused", func() error {
		return says(dryEdit(e.fixture, s, tcp(5433)), "reserves this port for itself")
	})
	mustContain(t, e.refusal(tryEdit(e.fixture, s, tcp(5433))).Error(), "reserves this port for itself")
	edit(e.fixture, s, func(s *v1beta1.StreamIngress) { s.Labels = map[string]string{"after": "refusal"} })
	e.leads(TCP, 5432, "self/db:5433")
}

// TestDeletionIsNeverRefused: neither a finalizer nor rules that have changed keep a stream.
func TestDeletionIsNeverRefused(t *testing.T) {
	e := shared(t).newEdge("delete")
	s := sti("delete/s", of("delete"), tcp(5432), finalizer("example.com/hold"))
	e.create(namespace("delete"), s)
	e.programmed(s)
	edit(e.fixture, e.class, reserved(1, 65535))
	e.delete(s)

	t.Log("while somebody's finalizer holds it, it keeps its port")
	edit(e.fixture, s, func(s *v1beta1.StreamIngress) { s.Labels = map[string]string{"a": "b"} })
	edit(e.fixture, s, to("other", 81))
	mustContain(t, e.refusal(e.try(sti("delete/s2", of("delete"), tcp(5432)))).Error(), "5432")
	if got := e.holder("delete", TCP, 5432); got != "StreamIngress delete/s" {
		t.Errorf("the port is held by %q", got)
	}
	edit(e.fixture, s, func(s *v1beta1.StreamIngress) { s.Finalizers = nil })
	e.heldBy("delete", TCP, 5432, "")
	e.leads(TCP, 5432, "closed")
}
