package integration

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestGrantsWakeOnlyWhomTheyConcern has a tenant write ReferenceGrants, time and again, that change nothing for the streams which
// lead to its Services: no stream and no class is looked at for that. One that does is noticed, by its streams alone.
func TestGrantsWakeOnlyWhomTheyConcern(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	e, other := w.newEdge("grants", hostNetwork), w.newEdge("other", hostNetwork)
	w.create(namespace("asking"), namespace("asked"), service("asked/db", port("", 80)), grant("asked/yes", "asking"))
	const streams, touches = 20, 100
	for i := range streams {
		w.create(sti(fmt.Sprintf("asking/stream-%d", i), of("grants"), tcp(int32(1000+i)), to("asked/db", 80)))
	}
	lone := sti("asking/lone", of("other"), tcp(1), to("asked/lone", 80))
	w.create(service("asked/lone", port("", 80)), lone)
	for i := range streams {
		w.programmed(sti(fmt.Sprintf("asking/stream-%d", i)))
	}
	w.programmed(lone)
	w.createSideBySide(300, func(i int) client.Object { return grant(fmt.Sprintf("asked/grant-%d", i), "elsewhere", "db") })

	w.idle(w.looks)
	before := w.looks()
	for i := range touches {
		edit(w, grant("asked/yes", "asking"), func(g *gatewayv1beta1.ReferenceGrant) {
			metav1.SetMetaDataAnnotation(&g.ObjectMeta, "example.com/touched", fmt.Sprint(i))
		})
		edit(w, grant("asked/grant-0", ""), func(g *gatewayv1beta1.ReferenceGrant) {
			g.Spec = grant("asked/grant-0", []string{"elsewhere", "asking"}[i%2], fmt.Sprintf("db-%d", i)).Spec
		})
		same := grant("asked/same", "asking", "db")
		w.create(same)
		w.delete(same)
	}
	// What comes after them is seen after them: without the consent to all, that to one Service is not enough for the other.
	w.create(grant("asked/db", "asking", "db"))
	w.delete(grant("asked/yes", "asking"))
	other.leads(TCP, 1, "closed")
	w.has(lone, v1beta1.ConditionResolvedRefs, "False RefNotPermitted")
	// That one concerns all streams of its namespace, once, and their class.
	n := w.looks() - before
	t.Logf("%d touches, %v looks", 4*touches, n)
	if n > 3*streams {
		t.Errorf("%d touches of grants that change nothing have streams and classes looked at %v times", touches, n)
	}
	for i := range streams {
		e.leads(TCP, int32(1000+i), "asked/db:80")
	}

	t.Log("and what is withdrawn from all is noticed by all")
	w.delete(grant("asked/db", "asking"))
	for i := range streams {
		e.leads(TCP, int32(1000+i), "closed")
	}
}
