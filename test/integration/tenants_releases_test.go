package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// A tenant that deletes thousands of points at once, and others that wait for one each.

const (
	// clearedIngresses is how many Ingresses a tenant deletes at once, clearedPaths how many paths each has.
	clearedIngresses, clearedPaths = 32, 64
	// slowly is how long a release of that tenant's takes: long enough for others to come while most of it is still to be done.
	slowly = 50 * time.Millisecond
)

// fill has a tenant hold many paths, whose releases are slow from then on.
func (w *fixture) fill(tenant string) {
	w.t.Helper()
	for i := range clearedIngresses {
		w.create(manyPaths(fmt.Sprintf("%s/i%d", tenant, i), clearedPaths, fmt.Sprintf("i%d.%s.example.com", i, tenant)))
	}
	w.eventually("the paths to be held", func() error { return is(w.claimsOf(tenant), clearedIngresses*clearedPaths) })
	w.interpose("slow-"+tenant, `{
		"rules": [{"apiGroups": ["`+v1beta1.GroupName+`"], "apiVersions": ["*"], "resources": ["edgeclaims"], "operations": ["DELETE"]}],
		"matchConditions": [{"name": "tenant", "expression": "oldObject.spec.heldBy.startsWith('Ingress `+tenant+`/')"}]
	}`, http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(slowly)
		letPass(out, &review)
	}))
}

// clear has the tenant delete all that it holds.
func (w *fixture) clear(tenant string) {
	w.t.Helper()
	must(w, w.Client.DeleteAllOf(w.t.Context(), &networkingv1.Ingress{}, client.InNamespace(tenant)))
}

// freedBefore waits until the claims of some names are gone, and counts those of the tenant that went before from did, and from
// then on until the last of them was gone.
func (c *history) freedBefore(w *fixture, tenant string, from client.Object, claims ...string) (before, meanwhile int) {
	w.t.Helper()
	w.eventually("the others to be free", func() error {
		before, meanwhile = 0, 0
		begun, waiting := from == nil, slices.Clone(claims)
		for _, e := range c.sorted() {
			held, isClaim := e.stored.(*v1beta1.EdgeClaim)
			switch {
			case !e.gone || len(waiting) == 0:
			case !begun && e.stored.GetUID() == from.GetUID():
				begun = true
			case isClaim && slices.Contains(waiting, held.Name):
				waiting = slices.DeleteFunc(waiting, func(name string) bool { return name == held.Name })
			case isClaim && held.Spec.Holder.Namespace == tenant && begun:
				meanwhile++
			case isClaim && held.Spec.Holder.Namespace == tenant:
				before++
			}
		}
		return is(len(waiting), 0)
	})
	return before, meanwhile
}

// TestReleasesWaitForNoNeighbor has one tenant delete many Ingresses with many paths at once, and another one a stream: its
// port is free long before the paths are.
func TestReleasesWaitForNoNeighbor(t *testing.T) {
	const chances = 5
	w := shared(t)
	w.create(namespace("waits"))
	w.newEdge("waits", hostNetwork)
	for chance := range chances {
		tenant := fmt.Sprintf("clears-%d", chance)
		stream := sti("waits/s", of("waits"), tcp(6000))
		w.create(namespace(tenant), stream)
		w.programmed(stream)
		w.fill(tenant)
		all := newHistory(t, w.Harness, nil, &v1beta1.StreamIngressList{}, &v1beta1.EdgeClaimList{})
		w.clear(tenant)
		w.delete(stream)
		before, meanwhile := all.freedBefore(w, tenant, stream, claim.Stream("waits", TCP, 6000).Name())
		t.Logf("of %d paths, %d were free before the stream was deleted, and %d more before its port was",
			clearedIngresses*clearedPaths, before, meanwhile)
		if before > clearedIngresses*clearedPaths/4 {
			t.Log("the stream was deleted too late to tell")
			continue
		}
		if meanwhile > clearedIngresses*clearedPaths/2 {
			t.Errorf("the port was free after %d paths of another tenant", meanwhile)
		}
		return
	}
	t.Errorf("in %d attempts the stream was deleted too late to tell", chances)
}

// TestLeftoversWaitForNoNeighbor has a tenant delete many paths, and others one each, while nobody leads. Who leads next finds
// the claims of all of them at the same time.
func TestLeftoversWaitForNoNeighbor(t *testing.T) {
	t.Parallel()
	const others = 8
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--leader-elect=false"}}))
	w.create(namespace("clears"))
	w.fill("clears")
	var ingresses []client.Object
	var claims []string
	for i := range others {
		host := fmt.Sprintf("waits-%d.example.com", i)
		ingresses = append(ingresses, foreignIngress(fmt.Sprintf("waits-%d/site", i), host, "/"))
		claims = append(claims, claim.HTTP(host, "/").Name())
		w.create(namespace(fmt.Sprintf("waits-%d", i)), ingresses[i])
		w.pointHeldBy(claims[i], fmt.Sprintf("Ingress waits-%d/site", i))
	}
	all := newHistory(t, w.Harness, nil, &v1beta1.EdgeClaimList{})
	must(w, w.Replicas[0].Kill())
	w.clear("clears")
	w.delete(ingresses...)
	_, err := w.StartReplica(t.Context())
	must(w, err)
	_, meanwhile := all.freedBefore(w, "clears", nil, claims...)
	t.Logf("of %d paths, %d were free before those of %d others", clearedIngresses*clearedPaths, meanwhile, others)
	if meanwhile > clearedIngresses*clearedPaths/2 {
		t.Errorf("the others were free after %d paths of one tenant", meanwhile)
	}
}
