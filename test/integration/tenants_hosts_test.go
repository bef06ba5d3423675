package integration

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What a tenant with thousands of hosts costs others.

// manyHosts is an Ingress, by its namespace/name, for all of h0, h1 and so on of a domain.
func manyHosts(key string, hosts int, domain string) *networkingv1.Ingress {
	ing := ingressFor(key, "")
	ing.Spec.Rules = nil
	for i := range hosts {
		ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{Host: fmt.Sprintf("h%d.%s", i, domain)})
	}
	return ing
}

// TestAnIngressWithTooManyHosts has an Ingress serve more hosts than the ledger enters, and fewer again: what it serves is nobody
// else's all the time.
func TestAnIngressWithTooManyHosts(t *testing.T) {
	t.Parallel()
	const many, most, domain = 3 * exposure.MostEntries, exposure.MostEntries, "hosts.example.com"
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("hosts"), namespace("hosts-beside"))
	site := manyHosts("hosts/site", many, domain)
	hosts := func(n int) { w.eventuallyHeld("Ingress hosts/site", n) }
	refused := func(host int) {
		t.Helper()
		what := asking("hosts-beside/web", fmt.Sprintf("host=h%d.%s, path=/x, path=/", host, domain))
		w.everyReplica(fmt.Sprintf("host %d to be refused", host), func() error {
			err := w.Client.Create(t.Context(), what.DeepCopy(), client.DryRunAll)
			if err == nil {
				return fmt.Errorf("admitted")
			}
			mustContain(t, err.Error(), "is held by Ingress hosts/site")
			return nil
		})
	}
	w.create(site)
	refused(0)
	refused(many - 1)
	hosts(0)

	t.Log("past admission nobody gets it either")
	restore := w.withoutWebhooks()
	unasked := asking("hosts-beside/unasked", "host=h7."+domain)
	w.create(unasked)
	restore()
	w.hasEvent(unasked, "is held by Ingress hosts/site")
	if got := w.pathHolder("h7."+domain, "/"); got != "" {
		t.Errorf("%s has the host", got)
	}

	t.Log("with fewer it has claims, and with many none again")
	grow := func(n int) {
		editIngress(w, site, func(ing *networkingv1.Ingress) { ing.Spec.Rules = manyHosts("", n, domain).Spec.Rules })
	}
	grow(most)
	hosts(most)
	refused(most - 1)
	grow(many)
	hosts(0)
	refused(0)
	refused(most)

	w.delete(site, unasked)
	web := asking("hosts-beside/web", "host=h1."+domain)
	w.eventually("a host to be had of an Ingress that is gone", func() error { return w.try(web) })
}

// eventuallyHeld waits until a holder has so many claims.
func (w *fixture) eventuallyHeld(holder string, n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s to hold %d points", holder, n), func() error { return is(len(w.claimsHeldBy(holder)), n) })
}

// TestEntriesWaitForNoNeighbor has one tenant create many Ingresses at once, and another one a single one: that has its claim long
// before theirs all have.
func TestEntriesWaitForNoNeighbor(t *testing.T) {
	const ingresses, paths = 32, 64
	w := shared(t)
	w.create(namespace("enters"), namespace("enters-too"))
	all := newHistory(t, w.Harness, nil, &networkingv1.IngressList{}, &v1beta1.EdgeClaimList{})
	w.createSideBySide(ingresses, func(i int) client.Object {
		return manyPaths(fmt.Sprintf("enters/i%d", i), paths, fmt.Sprintf("i%d.enters.example.com", i))
	})
	neighbor := foreignIngress("enters-too/site", "too.enters.example.com", "/")
	w.create(neighbor)
	var stored, entered bool
	var before, meanwhile int
	w.eventually("the neighbor's Ingress to be entered", func() error {
		stored, entered, before, meanwhile = false, false, 0, 0
		for _, e := range all.sorted() {
			c, isClaim := e.stored.(*v1beta1.EdgeClaim)
			switch {
			case entered:
			case e.stored.GetUID() == neighbor.UID:
				stored = true
			case isClaim && c.Name == claim.HTTP("too.enters.example.com", "/").Name():
				entered = true
			case isClaim && c.Spec.Holder.Namespace == "enters" && stored:
				meanwhile++
			case isClaim && c.Spec.Holder.Namespace == "enters":
				before++
			}
		}
		return is(fmt.Sprint(stored, entered), "true true")
	})
	t.Logf("of %d paths, %d were entered before the neighbor's Ingress was stored, and %d more before it was entered", ingresses*paths, before, meanwhile)
	if meanwhile > ingresses*paths/2 {
		t.Errorf("it was entered after %d paths of another tenant", meanwhile)
	}
}
