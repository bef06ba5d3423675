package integration

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// Services that lead out of the cluster, as upstreams of a class whose streams may not, and what is said of those of another
// namespace.

// inside sends the traffic to a Service of the cluster, after outside.
func inside(service string) streamOption {
	return func(s *v1beta1.StreamIngress) {
		s.Spec.IsService = new(true)
		to(service, 5432)(s)
	}
}

// alias makes a Service one for a DNS name.
func alias(s *corev1.Service) {
	s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "db.example.com", "", nil
}

// notLedOut waits until the only port of a class without leave is closed, and its stream told why.
func (e *edge) notLedOut(s *v1beta1.StreamIngress) {
	e.t.Helper()
	e.leads(TCP, 1, "closed")
	e.has(s, v1beta1.ConditionResolvedRefs, "False RefNotPermitted")
	e.heldBy(e.class.Name, TCP, 1, "StreamIngress "+s.Namespace+"/"+s.Name)
}

// TestNoClassLeadsOutsideByAnothersLeave has a class with leave to lead outside, and one without. A stream of the latter leads to the
// Service that Portcullis makes for a stream of the former, whichever of them is first and in whatever way it leads outside.
func TestNoClassLeadsOutsideByAnothersLeave(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	out, in := w.newEdge("out"), w.newEdge("in", insideOnly)
	w.create(namespace("leave"))

	t.Log("the stream that leads to the Service is first")
	by := sti("leave/by", of("in"), tcp(1), to("sti-out", 5432))
	w.create(by)
	in.leads(TCP, 1, "leave/sti-out:5432")
	s := sti("leave/out", of("out"), tcp(1), outside("10.0.0.7", 5432))
	w.create(s)
	out.reaches(s, "TCP 10.0.0.7:5432")
	in.notLedOut(by)

	t.Log("it counts where the Service leads, and not how often that changes")
	edit(w, s, inside("web"))
	in.leads(TCP, 1, "leave/sti-out:5432")
	for _, host := range []string{"db.example.com", "10.0.0.8", "db.example.com"} {
		edit(w, s, outside(host, 5432))
		out.reaches(s, "TCP "+host+":5432")
		in.notLedOut(by)
	}

	t.Log("the stream that leads outside is first, by a name and so without an EndpointSlice")
	w.delete(by)
	in.leads(TCP, 1, "closed")
	by = sti("leave/by", of("in"), tcp(1), to("sti-out", 5432))
	mustContain(t, w.refusal(w.try(by)).Error(), "Service leave/sti-out leads out of the cluster, as another StreamIngress asks for it")
	edit(w, s, inside("web"))
	w.eventually("leave to lead there", func() error { return w.try(by) })
	in.leads(TCP, 1, "leave/sti-out:5432")
}

// TestAliasesLeadOutside has a tenant make a Service of its own one for a DNS name, also while nobody looks.
func TestAliasesLeadOutside(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: shortLease}))
	in := w.newEdge("in", insideOnly)
	db := service("leave/db", port("", 5432))
	w.create(namespace("leave"), db)
	by := sti("leave/by", of("in"), tcp(1), to("db", 5432))
	w.create(by)
	in.leads(TCP, 1, "leave/db:5432")
	plain := func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeClusterIP, "" }

	edit(w, db, alias)
	in.notLedOut(by)
	w.eventually("a refusal", func() error {
		err := w.Client.Create(t.Context(), sti("leave/new", of("in"), tcp(2), to("db", 5432)), client.DryRunAll)
		if err == nil {
			return errors.New("there is none")
		}
		mustContain(t, w.refusal(err).Error(), "Service leave/db leads out of the cluster, as its type is ExternalName")
		return nil
	})
	edit(w, db, plain)
	in.leads(TCP, 1, "leave/db:5432")

	t.Log("while no replica looks")
	must(w, w.Replicas[0].Kill())
	edit(w, db, alias)
	_, err := w.StartReplica(t.Context())
	must(w, err)
	in.notLedOut(by)
}

// TestRefusalsTellNothingOfOtherNamespaces asks, from a namespace without consent, for upstreams in one that has Services and streams
// of all kinds: it is told the same of each of them, and of none that is there.
func TestRefusalsTellNothingOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	out := w.newEdge("out")
	w.newEdge("in", insideOnly)
	w.create(namespace("asking"), namespace("asked"), service("asked/web", port("", 80)))
	elsewhere := service("asked/elsewhere", port("", 80))
	alias(elsewhere)
	s := sti("asked/db", of("out"), tcp(1), outside("10.0.0.7", 80))
	w.create(elsewhere, s, grant("asked/web", "asking", "web"))
	out.reaches(s, "TCP 10.0.0.7:80")
	k := w.warned()
	answer := func(from, class, service string) string {
		err := k.Create(t.Context(), sti(from, of(class), tcp(2), to("asked/"+service, 80)), client.DryRunAll)
		if err == nil {
			return k.said()
		}
		return strings.ReplaceAll(err.Error(), service, "x")
	}
	w.eventually("all to be known to who is of that namespace", func() error {
		for _, service := range []string{"sti-db", "elsewhere"} {
			if err := saysAll(answer("asked/s", "in", service), "leads out of the cluster"); err != nil {
				return err
			}
		}
		return is(answer("asking/s", "in", "web"), "")
	})
	for _, class := range []string{"in", "out"} {
		want := answer("asking/s", class, "nothing")
		mustContain(t, want, "has not consented")
		for _, service := range []string{"sti-db", "sti-other", "elsewhere"} {
			if got := answer("asking/s", class, service); got != want {
				t.Errorf("of %s it is told %s, want %s", service, got, want)
			}
		}
	}

	t.Log("nor is a stream whose consent is withdrawn told, when it moves to another port")
	by := sti("asking/by", of("in"), tcp(2), to("asked/web", 80))
	w.create(by)
	w.delete(grant("asked/web", "asking", "web"), service("asked/web"))
	w.has(by, v1beta1.ConditionResolvedRefs, "False RefNotPermitted")
	before := by.DeepCopy()
	tcp(3)(by)
	k.said()
	must(w, k.Patch(t.Context(), by, client.MergeFrom(before)))
	if told := k.said(); told != "" {
		t.Errorf("it is told %s", told)
	}
}
