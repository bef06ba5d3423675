package integration

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What goes on living behind a finalizer of its owner.

// mine is a finalizer that nobody but the owner of an object takes off.
const mine = "tenant.example.com/mine"

// TestAStreamThatIsBeingDeleted keeps its port, and gets no other.
func TestAStreamThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	e := w.newEdge("deleted", autoAssign(20000, 20009))
	w.newEdge("deleted-other")
	w.create(namespace("deleted"), namespace("beside"))
	kept, moved := sti("deleted/kept", of("deleted"), tcp(5432), finalizer(mine)), sti("deleted/moved", of("deleted"), tcp(5433), finalizer(mine))
	w.create(kept, moved, sti("beside/held", of("deleted"), tcp(6000)))
	w.programmed(kept, moved, sti("beside/held"))
	w.delete(kept, moved)

	t.Log("it is judged as any other, and gets nothing new: neither what is free nor what is not")
	for _, change := range []streamOption{tcp(5434), tcp(6000), tcp(443), udp(5432), auto(UDP), of("deleted-other")} {
		mustContain(t, w.refusal(tryEdit(w, kept, change)).Error(), "the object is being deleted")
	}
	w.eventually("what it has to be known", func() error { return tryEdit(w, kept, auto(TCP)) })
	w.toldOf(sti("beside/kept", of("deleted"), tcp(5432)), "held by StreamIngress deleted/kept")

	t.Log("past admission it gets nothing either")
	restore := w.withoutWebhooks()
	edit(w, moved, tcp(5435))
	e.leads(TCP, 5433, "closed") // what it has turned from, so that it has been looked at
	restore()
	next := sti("beside/next", of("deleted"), tcp(5435))
	w.create(next)
	w.programmed(next)
	e.leads(TCP, 5435, "beside/web:80")

	t.Log("what it had is free when it is gone")
	e.leads(TCP, 5432, "deleted/web:80")
	w.heldBy("deleted", TCP, 5432, "StreamIngress deleted/kept")
	for _, s := range []*v1beta1.StreamIngress{kept, moved} {
		edit(w, s, func(s *v1beta1.StreamIngress) { s.Finalizers = nil })
	}
	w.heldBy("deleted", TCP, 5432, "")
	e.leads(TCP, 5432, "closed")
	w.heldBy("deleted", TCP, 5435, "StreamIngress beside/next")
}

// TestAClassThatIsBeingDeleted serves its streams until it is gone, and nobody else gets what stands on its proxy.
func TestAClassThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, auditOptions(3*time.Second)))
	e := w.newEdge("deleted", func(c *v1beta1.StreamIngressClass) { c.Finalizers = []string{mine} })
	w.create(namespace("deleted"))
	s := sti("deleted/s", of("deleted"), tcp(5432))
	w.create(s)
	w.programmed(s)
	w.delete(e.class)

	t.Log("what stands there stands, and more comes and goes")
	late := sti("deleted/late", of("deleted"), tcp(5433))
	w.create(late)
	w.programmed(late)
	w.delete(late)
	e.leads(TCP, 5433, "closed")
	e.leads(TCP, 5432, "deleted/web:80")
	w.toldOf(sti("deleted/https", of("deleted"), tcp(443)), "held by Service edge-deleted/proxy")
	mustContain(t, w.refusal(w.try(streamClass("next", e.namespace))).Error(), "held by StreamIngressClass deleted")

	t.Log("it is the second reader's to see as well")
	allow := w.forbid("create", "edgeclaims")
	edit(w, configMap(e.namespace+"/tcp-services", nil), func(cm *corev1.ConfigMap) { cm.Data["9000"] = manual })
	w.disagree(0, 1)
	w.told("StreamIngressClass", "deleted", v1beta1.ReasonPointWithoutClaim, "TCP/9000", "ConfigMap edge-deleted/tcp-services")
	allow()
	w.disagree(0, 0)

	t.Log("when it is gone its ports are closed")
	edit(w, e.class, func(c *v1beta1.StreamIngressClass) { c.Finalizers = nil })
	e.leads(TCP, 5432, "closed")
	w.has(s, v1beta1.ConditionAccepted, "False ClassNotFound")
	w.admitted(streamClass("next", e.namespace))
}

// TestFinalizersComeOffWhileNoReplicaRuns: what is deleted goes when its owner lets it, whoever is there to be asked.
func TestFinalizersComeOffWhileNoReplicaRuns(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: append([]string{"--claim-grace=" + grace.String()}, shortLease...)}))
	e := w.newEdge("off")
	w.create(namespace("off"))
	unused := addressPool("off-unused", []string{"198.51.100.2/32"}, forAll, onRequest)
	w.unguarded(addressPool("off", []string{"198.51.100.1/32"}, forAll, onRequest), unused)
	door := balancer("off/door", inPool("off"))
	exposed := asking("off/exposed", "host=exposed.off.example.com")
	site := foreignIngress("off/site", "site.off.example.com", "/")
	s := sti("off/s", of("off"), tcp(5432))
	w.admitted(door)
	w.create(exposed, site, s)
	w.balances(door, "198.51.100.1 VIP TCP/80")
	w.serves(exposed, "Prefix exposed.off.example.com/ -> exposed:80")
	w.pathHeldBy("site.off.example.com", "/", "Ingress off/site")
	w.programmed(s)
	all := []client.Object{door, exposed, site, s, unused, e.class}
	for _, object := range all {
		edit(w, object, func(o client.Object) { o.SetFinalizers([]string{mine}) })
	}
	w.delete(all...)

	must(w, w.Replicas[0].Kill())
	for _, object := range all {
		edit(w, object, func(o client.Object) { o.SetFinalizers(nil) })
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s is not gone: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}

	t.Log("what they had is free when a replica is there to release it")
	_, err := w.StartReplica(t.Context())
	must(w, err)
	w.pointHeldBy("addr.198-51-100-1", "")
	w.pathHeldBy("exposed.off.example.com", "/", "")
	w.pathHeldBy("site.off.example.com", "/", "")
	w.heldBy("off", TCP, 5432, "")
	e.leads(TCP, 5432, "closed")
}
