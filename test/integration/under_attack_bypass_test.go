package integration

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// nobody is a stream that Portcullis refuses.
func nobody() *v1beta1.StreamIngress { return sti("default/probe", of("there-is-no-such-class")) }

// unguard takes the webhooks away and returns what puts them back.
func (w *fixture) unguard() (guard func()) {
	w.t.Helper()
	webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	webhooks.Name = "portcullis"
	w.get(webhooks)
	w.delete(webhooks.DeepCopy())
	w.eventually("the API server to ask nobody", func() error {
		return w.Client.Create(w.t.Context(), nobody(), client.DryRunAll)
	})
	return func() {
		w.t.Helper()
		webhooks.ResourceVersion, webhooks.UID = "", ""
		w.create(webhooks)
	}
}

// guarded waits until the API server asks Portcullis.
func (w *fixture) guarded() {
	w.t.Helper()
	w.eventually("the API server to ask Portcullis", func() error {
		if err := w.Client.Create(w.t.Context(), nobody(), client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("a stream of an unknown class gets: %w", err)
		}
		return nil
	})
}

// TestUnguarded writes two hundred streams that want 50 ports, ten of which have a holder already, past the webhooks:
// once while Portcullis runs, and once while it does not.
func TestUnguarded(t *testing.T) {
	t.Parallel()
	const ports, incumbents, each = 50, 10, 4
	o := raceOptions()
	o.Replicas, o.Flags = 1, append(o.Flags, "--leader-elect=false")
	h := start(t, o)
	for _, name := range []string{"running", "down"} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, h)
			e := w.newEdge(name)
			for i := range each {
				w.create(namespace(fmt.Sprintf("%s-%d", name, i)))
			}
			var first []client.Object
			for i := range incumbents {
				// The incumbents' names are the last ones, and they are the oldest.
				first = append(first, sti(fmt.Sprintf("%s-%d/z-incumbent-%d", name, each-1, i), of(name), tcp(int32(7000+i))))
			}
			w.create(first...)
			e.isExact()

			guard := w.unguard()
			if name == "down" {
				must(w, h.Replicas[len(h.Replicas)-1].Kill())
			}
			for i := range ports * each {
				w.create(sti(fmt.Sprintf("%s-%d/past-%d", name, i%each, i), of(name), tcp(int32(7000+i/each))))
			}
			guard()
			if name == "down" {
				_, err := h.StartReplica(t.Context())
				must(w, err)
			}
			w.guarded()
			e.isExact()
			for _, s := range first {
				w.has(s.(*v1beta1.StreamIngress), v1beta1.ConditionAccepted, "True Accepted")
			}
			if got := e.claims(); got != ports {
				t.Errorf("%d ports are held, want %d", got, ports)
			}

			// Of those that wait for a port, one gets it when its holder goes.
			w.delete(first...)
			w.eventually("the incumbents' ports to have new holders", func() error { return is(len(e.accepted()), ports) })
			e.isExact()
		})
	}
}

// accepted are the accepted streams of the class.
func (e *edge) accepted() (keys []string) {
	e.t.Helper()
	for key, s := range e.streams() {
		if condition(s.Status.Conditions, v1beta1.ConditionAccepted) == "True Accepted" {
			keys = append(keys, key)
		}
	}
	return keys
}
