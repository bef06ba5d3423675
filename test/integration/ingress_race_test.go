package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"jeffthecoder.xyz/portcullis/test/annotations"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestRaceForOneHost lets 16 Services ask for one host and path at once, 200 times, through two replicas: every other
// time as new Services, and else by an annotation on Services that are there.
func TestRaceForOneHost(t *testing.T) {
	t.Parallel()
	const rounds, racers = 200, 16
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("race"))
	idle := make([]*corev1.Service, racers)
	for i := range idle {
		idle[i] = service(fmt.Sprintf("race/idle-%d", i), port("http", 80))
		w.create(idle[i])
	}
	begin := time.Now()
	for round := range rounds {
		host := fmt.Sprintf("race-%d.example.com", round)
		value := "host=" + host + ", path=/race"
		results := make([]error, racers)
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() {
				if round%2 == 0 {
					results[i] = w.Client.Create(t.Context(), asking(fmt.Sprintf("race/new-%d", i), value))
				} else {
					results[i] = tryEdit(w, service(idle[i].Namespace+"/"+idle[i].Name), ask(value))
				}
			})
		}
		all.Wait()
		name := map[bool]string{true: "new", false: "idle"}[round%2 == 0]
		winner := -1
		for i, err := range results {
			switch {
			case err != nil:
				// A cache may show the Ingress of who has it, and not the claim yet.
				isRefusedSaying(t, err, "path /race on host "+host+" is held ", fmt.Sprintf(" race/%s-", name))
			case winner >= 0:
				t.Fatalf("round %d: %s-%d and %s-%d were both admitted", round, name, winner, name, i)
			default:
				winner = i
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody was admitted", round)
		}
		svc := service(fmt.Sprintf("race/%s-%d", name, winner))
		if got, want := w.pathHolder(host, "/race"), "Service race/"+svc.Name; got != want {
			t.Fatalf("round %d: %s was admitted, and %s holds the host", round, want, got)
		}
		w.serves(svc, fmt.Sprintf("Prefix %s/race -> %s:80", host, svc.Name))
		if round%2 == 0 {
			w.delete(svc)
		} else {
			edit(w, svc, askNothing)
		}
	}
	t.Logf("%d rounds of %d Services: one admitted each, in %s", rounds, racers, time.Since(begin).Round(time.Second))
	w.eventually("no Ingress to be left", func() error {
		var list networkingv1.IngressList
		if err := w.Client.List(t.Context(), &list); err != nil {
			return err
		}
		return is(len(list.Items), 0)
	})
}

// TestWebhookAbsent makes and changes Services of all kinds while nobody answers for Portcullis.
func TestWebhookAbsent(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: shortLease}))
	w.create(namespace("absent"))
	good, broken := asking("absent/good", "host=good.example.com"), asking("absent/broken-later", "host=kept.example.com")
	w.create(good, broken)
	w.serves(good, "Prefix good.example.com/ -> good:80")
	w.serves(broken, "Prefix kept.example.com/ -> broken-later:80")
	if err := w.Replicas[0].Kill(); err != nil {
		t.Fatal(err)
	}

	refused, err := annotations.Refused()
	if err != nil {
		t.Fatal(err)
	}
	var malformed []*corev1.Service
	for i, c := range refused {
		svc := ofCase(c, fmt.Sprintf("absent/malformed-%d", i))
		w.create(svc)
		malformed = append(malformed, svc)
	}
	headless := service("absent/headless")
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	headless.Spec.Selector = map[string]string{"a": "b"}
	external := service("absent/external")
	external.Spec.Type, external.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	balanced := service("absent/balanced", port("http", 80))
	balanced.Spec.Type = corev1.ServiceTypeLoadBalancer
	late := asking("absent/late", "host=late.example.com")
	w.create(headless, external, balanced, late,
		asking("absent/first", "host=same.example.com"), asking("absent/second", "host=same.example.com"),
		asking("absent/greedy", "host=good.example.com"), asking("absent/issuer", "host=issuer.example.com, issuer=letsencrypt"))
	edit(w, broken, ask("host=Broken"))
	edit(w, good, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8080 })
	w.delete(balanced)

	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, svc := range malformed {
		first, _, _ := strings.Cut(refused[i].Says, "\n")
		w.hasEvent(svc, "Warning ", first[:min(len(first), 120)])
	}
	w.hasEvent(broken, "Warning InvalidAnnotation", "lower case")
	w.hasEvent(service("absent/greedy"), "Warning HostConflict", "held by Service absent/good since")
	w.hasEvent(service("absent/issuer"), "Warning CertManagerMissing", "cert-manager, which is not installed")
	w.serves(good, "Prefix good.example.com/ -> good:8080")
	w.serves(late, "Prefix late.example.com/ -> late:80")
	w.serves(broken, "Prefix kept.example.com/ -> broken-later:80")
	w.eventually("one of two to be served", func() error {
		first, second := w.ingressOf(service("absent/first")) != nil, w.ingressOf(service("absent/second")) != nil
		return is(first != second, true)
	})
	for i, svc := range malformed {
		if ing := w.ingressOf(svc); ing != nil {
			t.Errorf("%q has an Ingress: %s", refused[i].Value, annotations.Describe(ing.Spec))
		}
		if events := w.eventsOf(svc); len(events) != 1 {
			t.Errorf("%q was reported by %d events: %q", refused[i].Value, len(events), events)
		}
	}
	// Mended, all is told and done; broken in another way, that is told too.
	edit(w, malformed[0], ask("host=mended.example.com"))
	w.serves(malformed[0], "Prefix mended.example.com/ -> malformed-0:80")
	w.hasEvent(malformed[0], "Normal Exposed")
	loser := service("absent/first")
	if w.ingressOf(loser) != nil {
		loser = service("absent/second")
	}
	w.delete(service("absent/" + map[string]string{"first": "second", "second": "first"}[loser.Name]))
	w.serves(loser, fmt.Sprintf("Prefix same.example.com/ -> %s:80", loser.Name))
}
