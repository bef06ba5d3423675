package integration

import (
	"strings"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// claimOn is the claim on a port, to delete it.
func claimOn(class string, protocol v1beta1.Protocol, port int32) *v1beta1.EdgeClaim {
	c := &v1beta1.EdgeClaim{}
	c.Name = claim.Stream(class, protocol, port).Name()
	return c
}

func TestClaimsDeletedByHandComeBack(t *testing.T) {
	e := shared(t).newEdge("byhand", autoAssign(20000, 20009))
	s, a := sti("byhand/s", of("byhand"), tcp(1000)), sti("byhand/a", of("byhand"), auto(TCP))
	e.create(namespace("byhand"), s, a)
	e.programmed(s, a)
	drawn := a.Status.Listen
	for range 3 {
		e.delete(claimOn("byhand", TCP, 1000), claimOn("byhand", TCP, drawn), claimOn("byhand", TCP, 443))
		e.heldBy("byhand", TCP, 1000, "StreamIngress byhand/s")
		e.heldBy("byhand", TCP, drawn, "StreamIngress byhand/a")
		e.heldBy("byhand", TCP, 443, "Service edge-byhand/proxy")
	}
	e.leads(TCP, 1000, "byhand/web:80")
	e.leads(TCP, drawn, "byhand/web:80")
	e.programmed(s, a)
	if a.Status.Listen != drawn {
		t.Errorf("the drawn port moved from %d to %d", drawn, a.Status.Listen)
	}

	t.Log("a claim that is given away by hand comes back, one that is made by hand goes")
	given := claimOn("byhand", TCP, 1000)
	edit(e.fixture, given, func(c *v1beta1.EdgeClaim) {
		c.Spec.Holder.Name, c.Spec.HeldBy = "nobody", "StreamIngress byhand/nobody"
	})
	e.heldBy("byhand", TCP, 1000, "StreamIngress byhand/s")
	made := claim.New(claim.Stream("byhand", TCP, 1001), claim.Claimant{Holder: claim.StreamHolder("byhand", "nobody")})
	e.create(made)
	e.heldBy("byhand", TCP, 1001, "")
	e.leads(TCP, 1000, "byhand/web:80")
}

// TestNamesOfClasses: a class may be called whatever an object may be called, up to the length of a label.
func TestNamesOfClasses(t *testing.T) {
	w := shared(t)
	w.create(namespace("names"))
	for i, name := range []string{"a.b", "x.tcp.80", "1", strings.Repeat("a", 63)} {
		ns := "edge-names-" + string(rune('a'+i))
		e := &edge{fixture: w, namespace: ns, class: streamClass(name, ns)}
		w.create(namespace(ns), e.proxy(), e.class)
		w.classHas(e.class, v1beta1.ConditionAccepted, "True Accepted")
		s := sti("names/s"+string(rune('a'+i)), of(name), tcp(90))
		w.create(s)
		w.programmed(s)
		e.leads(TCP, 90, "names/web:80")
		w.delete(s)
		w.heldBy(name, TCP, 90, "")
	}
}

func TestPortIsFreeOnceItsHolderIsGone(t *testing.T) {
	t.Parallel()
	// With a grace that never ends here, a port is free only because its holder was seen to go.
	w := newFixture(t, start(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=1h"}}))
	e := w.newEdge("free")
	e.create(namespace("free-a"), namespace("free-b"))
	var slowest time.Duration
	for range 10 {
		s := sti("free-a/s", of("free"), tcp(1000))
		e.create(s)
		e.delete(s)
		begin := time.Now()
		next := sti("free-b/s", of("free"), tcp(1000))
		e.eventually("the port to be free", func() error { return e.try(next) })
		slowest = max(slowest, time.Since(begin))
		e.delete(next)
		e.heldBy("free", TCP, 1000, "")
	}
	t.Logf("free at the latest %s after the deletion", slowest.Round(time.Millisecond))
}
