package kube

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestClassFor says for which class somebody has a path, where standard is the default class.
func TestClassFor(t *testing.T) {
	standard := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
		Name: "standard", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"},
	}}
	served := func(class string) client.Object {
		ing := serving("web", "a.io", 1, 0)
		if class != "" {
			ing.Spec.IngressClassName = &class
		}
		return ing
	}
	asking := func(value string) client.Object {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		if value != "-" {
			svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: value}
		}
		return svc
	}
	ingress, service := claim.IngressHolder("shop", "web"), claim.ServiceHolder("shop", "web")
	for name, tc := range map[string]struct {
		holder  claim.Holder
		objects []client.Object
		class   string
		known   bool
	}{
		"an Ingress":                             {ingress, []client.Object{served("public")}, "public", true},
		"an Ingress of no class":                 {ingress, []client.Object{served("")}, "", true},
		"an Ingress that is gone":                {ingress, nil, "", false},
		"a Service that names one":               {service, []client.Object{asking("class=public")}, "public", true},
		"a Service that names one, served yet":   {service, []client.Object{asking("class=public"), served("internal")}, "public", true},
		"a Service that names none":              {service, []client.Object{asking("")}, "standard", true},
		"a Service that names none, with one":    {service, []client.Object{asking(""), served("public")}, "public", true},
		"a Service that can't be read":           {service, []client.Object{asking("class=A")}, "", false},
		"a Service that can't be read, with one": {service, []client.Object{asking("class=A"), served("public")}, "public", true},
		"a Service that asks no longer":          {service, []client.Object{asking("-")}, "", false},
		"a Service that is gone, served yet":     {service, []client.Object{served("public")}, "public", true},
		"a Service that is gone":                 {service, nil, "", false},
	} {
		objects := append(slices.Clone(tc.objects), standard)
		v := exposingOf(t, objects, objects)
		if class, known, err := v.Ingresses.ClassFor(t.Context(), tc.holder); err != nil || class != tc.class || known != tc.known {
			t.Errorf("%s: %q %v %v, want %q %v", name, class, known, err, tc.class, tc.known)
		}
		v.Ingresses.replicas = &replicas{are: classless, namespace: "portcullis-system", live: v.live, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), looked: time.Unix(1000, 0), found: true}
		if _, known, err := v.Ingresses.ClassFor(t.Context(), tc.holder); known || err != nil {
			t.Errorf("%s, beside older replicas, is known", name)
		}
	}
}

// brokenList fails while it is broken.
type brokenList struct {
	client.Reader
	lists  int
	broken bool
}

func (r *brokenList) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.lists++
	if r.broken {
		return errors.New("away")
	}
	options = slices.DeleteFunc(options, func(o client.ListOption) bool {
		_, is := o.(client.MatchingFieldsSelector) // of which the fake knows no unequal ones
		return is
	})
	return r.Reader.List(ctx, list, options...)
}

// TestOlderReplicas looks for Pods of an older version, not more often than every second.
func TestOlderReplicas(t *testing.T) {
	pod := func(namespace string, labels map[string]string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "replica", UID: types.UID(namespace), Labels: labels}}
	}
	of := func(more ...string) map[string]string {
		labels := map[string]string{"app.kubernetes.io/name": "portcullis", "app.kubernetes.io/component": "manager"}
		for _, label := range more {
			labels[label] = "2"
		}
		return labels
	}
	for name, tc := range map[string]struct {
		pod  client.Object
		want bool
	}{
		"none":                      {pod("portcullis-system", nil), false},
		"one of this version":       {pod("portcullis-system", of(v1beta1.LabelLedger)), false},
		"one of an older version":   {pod("portcullis-system", of()), true},
		"one that a tenant labeled": {pod("shop", of()), false},
	} {
		clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
		live := &brokenList{Reader: clientOf(t, tc.pod).Build()}
		r := &replicas{are: classless, live: live, namespace: "portcullis-system", clock: clock}
		for range 2 {
			if got, err := r.run(t.Context()); got != tc.want || err != nil || live.lists != 1 {
				t.Errorf("%s: %v, %v after %d looks, want %v", name, got, err, live.lists, tc.want)
			}
		}
		live.broken = true
		for i, wait := range []time.Duration{time.Second, replicasTrusted} {
			clock.SetTime(clock.Now().Add(wait))
			for range 2 {
				if got, err := r.run(t.Context()); got != (tc.want || i == 1) || (err != nil) != (i == 1) || live.lists != 2+i {
					t.Errorf("%s: when nobody can tell, it is %v, %v after %d looks", name, got, err, live.lists)
				}
			}
		}
	}
	if got, err := (&replicas{}).run(t.Context()); got || err != nil {
		t.Errorf("there are some where none can be: %v, %v", got, err)
	}
}
