package integration

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// applies creates or changes an object, and waits until what comes after is decided with it. It returns the fields that it is refused for.
func (w *fixture) applies(u *unstructured.Unstructured) (fields []string, err error) {
	w.t.Helper()
	ctx := w.t.Context()
	c := client.WithFieldValidation(w.Client, metav1.FieldValidationStrict)
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(u.GroupVersionKind())
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(u), stored); err == nil {
		u.SetUID(stored.GetUID())
		u.SetResourceVersion(stored.GetResourceVersion())
		err = c.Update(ctx, u)
		if err == nil {
			w.isSeen(ctx, u)
		}
		return refusedFields(err), err
	} else if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		w.t.Fatal(err)
	}
	if err = c.Create(ctx, u); err == nil {
		w.isSeen(ctx, u)
	}
	return refusedFields(err), err
}

// unknownFields are the fields in an error of strict decoding.
var unknownFields = regexp.MustCompile(`unknown field "([^"]*)"`)

// refusedFields are the fields in an error of the API, one that is empty for none.
func refusedFields(err error) (fields []string) {
	if err == nil {
		return nil
	}
	if meta.IsNoMatchError(err) {
		return []string{"kind"}
	}
	for _, found := range unknownFields.FindAllStringSubmatch(err.Error(), -1) {
		fields = append(fields, found[1])
	}
	var status apierrors.APIStatus
	if len(fields) == 0 && errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			fields = append(fields, strings.TrimPrefix(cause.Field, "<nil>"))
		}
	}
	if len(fields) == 0 {
		fields = []string{""}
	}
	return fields
}

// isSeen waits until the replica has seen an object, and has done for it what later decisions depend on.
func (w *fixture) isSeen(ctx context.Context, u *unstructured.Unstructured) {
	w.t.Helper()
	switch u.GetKind() {
	case "StreamIngress", "StreamIngressClass", "AddressPool", "HostPolicy":
		w.eventually(u.GetKind()+" "+u.GetName()+" to be looked at", func() error { return w.observed(ctx, u) })
	case "Service":
		w.eventually("Service "+u.GetName()+" to be known", func() error { return w.isServed(ctx, u) })
	}
	switch u.GetKind() {
	case "StreamIngress", "Service", "Ingress", "ListenerSet", "TCPRoute", "HTTPRoute":
		w.eventually(u.GetKind()+" "+u.GetName()+" to be known", func() error { return w.isKnown(ctx, u) })
	}
}

// observed says whether the conditions of an object are about what is stored.
func (w *fixture) observed(ctx context.Context, u *unstructured.Unstructured) error {
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(u.GroupVersionKind())
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(u), now); err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(now.Object, "status", "conditions")
	if err != nil || len(conditions) == 0 {
		return errors.Join(err, errors.New("it has no conditions"))
	}
	for _, c := range conditions {
		of, _ := c.(map[string]any)["observedGeneration"].(int64)
		if of != now.GetGeneration() {
			return fmt.Errorf("a condition is about generation %d, not %d", of, now.GetGeneration())
		}
	}
	if u.GetKind() != "StreamIngress" {
		return nil
	}
	claims := &v1beta1.EdgeClaimList{}
	by := claim.StreamHolder(u.GetNamespace(), u.GetName()).String()
	if err := w.Client.List(ctx, claims, client.MatchingFields{"spec.heldBy": by}); err != nil {
		return err
	}
	return is(len(claims.Items), 1) // and what it had before is released
}

// isServed says whether a load balancer has its addresses, or is told why not.
func (w *fixture) isServed(ctx context.Context, u *unstructured.Unstructured) error {
	svc := &corev1.Service{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(u), svc); err != nil {
		return err
	}
	class := svc.Spec.LoadBalancerClass
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || class == nil || *class != v1beta1.LoadBalancerClass ||
		len(svc.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}
	events := &corev1.EventList{}
	if err := w.Client.List(ctx, events, client.InNamespace(svc.Namespace)); err != nil {
		return err
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.InvolvedObject.UID == svc.UID && e.Type == corev1.EventTypeWarning {
			return nil
		}
	}
	return errors.New("it has no address, and nobody says why")
}

// isKnown says whether the replica has an object in its cache: only then it refuses another of the name, before the API server does.
func (w *fixture) isKnown(ctx context.Context, u *unstructured.Unstructured) error {
	again := u.DeepCopy()
	again.SetUID("")
	again.SetResourceVersion("")
	unstructured.RemoveNestedField(again.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(again.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(again.Object, "spec", "clusterIP")
	unstructured.RemoveNestedField(again.Object, "spec", "clusterIPs")
	unstructured.RemoveNestedField(again.Object, "status")
	err := w.Client.Create(ctx, again, client.DryRunAll)
	if apierrors.IsAlreadyExists(err) && !strings.Contains(err.Error(), "admission webhook") && w.isJudged(u) {
		return err
	}
	return nil
}

// isJudged says whether a webhook is asked about an object.
func (w *fixture) isJudged(u *unstructured.Unstructured) bool {
	if u.GetKind() != "Service" {
		return u.GetKind() != "HTTPRoute"
	}
	_, isExposed := u.GetAnnotations()[v1beta1.AnnotationHTTP]
	class, _, _ := unstructured.NestedString(u.Object, "spec", "loadBalancerClass")
	ips, _, _ := unstructured.NestedSlice(u.Object, "spec", "externalIPs")
	return isExposed || class == v1beta1.LoadBalancerClass || len(ips) > 0
}
