package integration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
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
	edit(e.world, given, func(c *v1beta1.EdgeClaim) {
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
		e := &edge{world: w, namespace: ns, class: streamClass(name, ns)}
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
	e := shared(t).newEdge("free")
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
	if slowest > grace-time.Second {
		t.Errorf("the port was free after %s, which is not because its holder was seen to go", slowest)
	}
}

// TestCreationThatFailsHalfWay: a quota refuses what Portcullis has said yes to. It is judged after all webhooks.
func TestCreationThatFailsHalfWay(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{
		ControlPlane: controlplane.Options{Controllers: true}, Replicas: 1, Flags: []string{"--claim-grace=" + grace.String()},
	}))
	must(w, w.StartControllers(t.Context()))
	e := w.newEdge("halfway", autoAssign(20000, 20000))
	e.create(namespace("halfway"), namespace("halfway-b"))
	quota := &corev1.ResourceQuota{}
	quota.Namespace, quota.Name = "halfway", "none"
	quota.Spec.Hard = corev1.ResourceList{"count/streamingresses.nginx-stream.jeffthecoder.xyz": resource.MustParse("0")}
	e.create(quota)
	begin := time.Now()
	e.eventually("the quota to be in force", func() error {
		begin = time.Now()
		err := e.try(sti("halfway/s", of("halfway"), tcp(1000)))
		if err == nil {
			e.delete(sti("halfway/s"))
			e.heldBy("halfway", TCP, 1000, "")
			return is("created", "refused")
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
			return err
		}
		return nil
	})
	if err := e.try(sti("halfway/drawn", of("halfway"), auto(TCP))); !apierrors.IsForbidden(err) {
		t.Errorf("want a quota's refusal, got %v", err)
	}

	t.Log("a refusal says how long the port is still kept")
	rival := sti("halfway-b/s", of("halfway"), tcp(1000))
	mustContain(t, e.refusal(e.try(rival.DeepCopy())).Error(), "spec.listen: Duplicate value", "held for StreamIngress halfway/s, which is not stored", "it is free again in at most ", "s, try again then", "nearby: 998, 999, 1001")
	e.eventually("the grace to end", func() error { return e.try(rival) })
	waited := time.Since(begin)
	t.Logf("free %s after the promise, with a grace of %s", waited.Round(time.Millisecond), grace)
	if waited < grace {
		t.Errorf("a promise of %s was kept for %s only", grace, waited)
	}
	e.leads(TCP, 1000, "halfway-b/web:80")
	e.heldBy("halfway", TCP, 20000, "")
	e.create(sti("halfway-b/drawn", of("halfway"), auto(TCP)))
}
