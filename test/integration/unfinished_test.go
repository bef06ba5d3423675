package integration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestCreationThatFailsHalfWay: a quota refuses what Portcullis has said yes to. It is judged after all webhooks.
func TestCreationThatFailsHalfWay(t *testing.T) {
	t.Parallel()
	// It must not end before a refusal has told of it, on a busy machine too.
	const grace = 40 * time.Second
	w := newFixture(t, start(t, harness.Options{
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
	e.toldOf(rival, "spec.listen: Duplicate value", "held for StreamIngress halfway/s, which is not stored", "it is free again in at most ", "s, try again then", "nearby: 998, 999, 1001")
	e.eventually("the grace to end", func() error { return e.try(rival) })
	waited := time.Since(begin)
	t.Logf("free %s after the promise, with a grace of %s", waited.Round(time.Millisecond), grace)
	if waited < grace {
		t.Errorf("a promise of %s was kept for %s only", grace, waited)
	}
	e.leads(TCP, 1000, "halfway-b/web:80")
	e.heldBy("halfway", TCP, 20000, "")
	e.eventually("the one port of the range to be seen as free", func() error {
		return e.try(sti("halfway-b/drawn", of("halfway"), auto(TCP)))
	})
}
