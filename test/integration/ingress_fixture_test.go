package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/annotations"
)

// asking is a Service with port http 80 that asks for an Ingress, by its namespace/name.
func asking(key, value string) *corev1.Service {
	svc := service(key, port("http", 80))
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHTTP, value)
	return svc
}

// ask sets the annotation.
func ask(value string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHTTP, value)
	}
}

// askNothing takes the annotation away.
func askNothing(svc *corev1.Service) { delete(svc.Annotations, v1beta1.AnnotationHTTP) }

// ingressOf reads the Ingress of a Service's name, nil when there is none.
func (w *fixture) ingressOf(svc client.Object) *networkingv1.Ingress {
	w.t.Helper()
	ing := &networkingv1.Ingress{}
	err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(svc), ing)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatalf("reading the Ingress %s: %v", client.ObjectKeyFromObject(svc), err)
	}
	return ing
}

// serves waits until the Ingress of a Service is as wanted, in the words of annotations.Describe; with "" until there is
// none.
func (w *fixture) serves(svc client.Object, want string) *networkingv1.Ingress {
	w.t.Helper()
	var ing *networkingv1.Ingress
	w.eventually(fmt.Sprintf("the Ingress of %s", client.ObjectKeyFromObject(svc)), func() error {
		got := ""
		if ing = w.ingressOf(svc); ing != nil {
			got = annotations.Describe(ing.Spec)
		}
		return is(got, want)
	})
	return ing
}

// pathHolder is who holds a path on a host, in one line; empty when nobody does.
func (w *fixture) pathHolder(host, path string) string {
	w.t.Helper()
	return w.pointHolder(claim.HTTP(host, path).Name())
}

// pathHeldBy waits until a path is held as wanted; with "" until nobody holds it.
func (w *fixture) pathHeldBy(host, path, want string) {
	w.t.Helper()
	w.pointHeldBy(claim.HTTP(host, path).Name(), want)
}

// eventsOf are the events of a Service that Portcullis emitted, each "Type Reason note".
func (w *fixture) eventsOf(svc *corev1.Service) []string {
	w.t.Helper()
	var list eventsv1.EventList
	if err := w.Client.List(w.t.Context(), &list, client.InNamespace(svc.Namespace)); err != nil {
		w.t.Fatalf("listing events: %v", err)
	}
	var texts []string
	for i := range list.Items {
		if e := &list.Items[i]; e.ReportingController == "portcullis" && e.Regarding.Kind == "Service" && e.Regarding.Name == svc.Name {
			texts = append(texts, e.Type+" "+e.Reason+" "+e.Note)
		}
	}
	return texts
}

// hasEvent waits for an event of a Service that has all the texts.
func (w *fixture) hasEvent(svc *corev1.Service, texts ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("an event of %s with %q", svc.Name, texts), func() error {
		events := w.eventsOf(svc)
		if slices.ContainsFunc(events, func(event string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(event, text) })
		}) {
			return nil
		}
		return fmt.Errorf("there are %q", events)
	})
}

// isRefusedSaying fails the test unless an error is a refusal of the annotation with all the texts.
func isRefusedSaying(t *testing.T, err error, texts ...string) {
	t.Helper()
	status := &apierrors.StatusError{}
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Errorf("want an Invalid refusal, got %v", err)
		return
	}
	said := ""
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field != "metadata.annotations[ingress/http]" {
			t.Errorf("a cause is about %s: %s", cause.Field, cause.Message)
		}
		said += cause.Message + "\n"
	}
	mustContain(t, said, texts...)
}
