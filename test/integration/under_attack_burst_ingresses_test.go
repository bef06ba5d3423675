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

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/annotations"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestThousandExposedServices creates a thousand Services, 32 at a time, and counts what is written for them.
func TestThousandExposedServices(t *testing.T) {
	t.Parallel()
	const services, parallel = 1000, 32
	w := newFixture(t, start(t, harness.Options{ControlPlane: controlplane.Options{Audit: true}, Replicas: 2}))
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
func (w *fixture) awaitLooked(replica, services int) {
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
func ourWrites(w *fixture) map[string]int {
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
