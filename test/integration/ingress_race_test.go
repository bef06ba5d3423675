package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/annotations"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestRaceForOneHost lets 16 Services ask for one host and path at once, 200 times, through two replicas: every other
// time as new Services, and else by an annotation on Services that are there.
func TestRaceForOneHost(t *testing.T) {
	t.Parallel()
	const rounds, racers = 200, 16
	w := inWorld(t, start(t, harness.Options{Replicas: 2}))
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
				isRefusedSaying(t, err, "path /race on host "+host+" is held ", fmt.Sprintf("Service race/%s-", name))
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
	w := inWorld(t, start(t, harness.Options{Replicas: 1}))
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

// TestThousandExposedServices creates a thousand Services, 32 at a time, and counts what is written for them.
func TestThousandExposedServices(t *testing.T) {
	t.Parallel()
	const services, parallel = 1000, 32
	w := inWorld(t, start(t, harness.Options{ControlPlane: controlplane.Options{Audit: true}, Replicas: 2}))
	w.create(namespace("thousand"))
	numbers := make(chan int)
	var all sync.WaitGroup
	begin := time.Now()
	for range parallel {
		all.Go(func() {
			for n := range numbers {
				svc := asking(fmt.Sprintf("thousand/s-%d", n), fmt.Sprintf("host=s-%d.example.com", n))
				if err := w.Client.Create(t.Context(), svc); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range services {
		numbers <- n
	}
	close(numbers)
	all.Wait()
	created := time.Since(begin)
	w.eventually("every Ingress", func() error {
		var list networkingv1.IngressList
		if err := w.Client.List(t.Context(), &list, client.InNamespace("thousand")); err != nil {
			return err
		}
		return is(len(list.Items), services)
	})
	t.Logf("%d Services created in %s, all Ingresses there after %s",
		services, created.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	for n := range services {
		svc := service(fmt.Sprintf("thousand/s-%d", n))
		ing := w.ingressOf(svc)
		if got, want := annotations.Describe(ing.Spec), fmt.Sprintf("Prefix s-%d.example.com/ -> s-%d:80", n, n); got != want {
			t.Errorf("%s serves %s", svc.Name, got)
		}
	}
	w.settles(5 * time.Second)
	writes := ourWrites(w)
	t.Logf("writes by resource and outcome: %v", writes)
	if got := writes["ingresses.networking.k8s.io create 201"]; got > services*11/10 {
		t.Errorf("%d Ingresses were written for %d Services", got, services)
	}
	if got := writes["edgeclaims.nginx-stream.jeffthecoder.xyz create 201"]; got > services*11/10 {
		t.Errorf("%d claims were written for %d Services", got, services)
	}
	total := 0
	for _, n := range writes {
		total += n
	}
	t.Logf("%.3f writes for each Service: one Ingress, one claim", float64(total)/services)
	if total > services*21/10 {
		t.Errorf("%d writes for %d Services", total, services)
	}
	// Steady state: nothing is written, not after a restart either.
	if err := w.Replicas[0].Terminate(); err != nil {
		t.Fatal(err)
	}
	if err := w.Replicas[1].Terminate(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.awaitLooked(2, services)
	time.Sleep(5 * time.Second)
	again := ourWrites(w)
	for what, n := range again {
		if n != writes[what] {
			t.Errorf("steady state is not silent: %s from %d to %d", what, writes[what], n)
		}
	}
}

// awaitLooked waits until a replica that leads has looked at a number of exposed Services.
func (w *world) awaitLooked(replica, services int) {
	w.t.Helper()
	w.eventually("a leader that has looked at every Service", func() error {
		ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
		defer cancel()
		body, err := controlplane.Get(ctx, http.DefaultClient, w.Replicas[replica].Metrics+"/metrics")
		if err != nil {
			return err
		}
		return is(strings.Contains(string(body), fmt.Sprintf("portcullis_ingresses{class=\"\",state=\"served\"} %d\n", services)), true)
	})
}

// ourWrites counts what the replicas have asked the API server to change, by resource, verb and outcome. What keeps the
// replicas themselves running does not count.
func ourWrites(w *world) map[string]int {
	w.t.Helper()
	all, err := w.Writes()
	if err != nil {
		w.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, write := range all {
		own := []string{"leases.coordination.k8s.io", "secrets", "validatingwebhookconfigurations.admissionregistration.k8s.io"}
		if strings.HasPrefix(write.Resource, "events") && write.Namespace == "portcullis-system" {
			continue // leader election
		}
		if write.User == harness.User && !slices.Contains(own, write.Resource) {
			counts[fmt.Sprintf("%s %s %d", write.Resource, write.Verb, write.Code)]++
		}
	}
	return counts
}
