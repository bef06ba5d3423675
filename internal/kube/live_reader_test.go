package kube

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestFreshSeesWhatTheCacheDoesNotYet has everything that a stream can need, but the stream, created a moment ago.
func TestFreshSeesWhatTheCacheDoesNotYet(t *testing.T) {
	ctx, service := t.Context(), types.NamespacedName{Namespace: "data", Name: "db"}
	consent := grantIn("data", "shop", "*")
	stored := []client.Object{
		&v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public", Annotations: map[string]string{v1beta1.AnnotationDefaultClass: "true"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "data"}}},
		consent,
	}
	for name, tc := range map[string]struct {
		cached, live []client.Object
		consents     []*gatewayv1beta1.ReferenceGrant
		want         bool
	}{
		"in the cache":         {stored, nil, []*gatewayv1beta1.ReferenceGrant{consent}, true},
		"not in the cache yet": {nil, stored, nil, true},
		"nowhere":              {nil, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			book, _ := consentsBy(t, tc.consents...)
			f := LiveReader{&View{
				objects:  &objects{Reader: clientOf(t, tc.cached...).Build(), live: clientOf(t, tc.live...).Build()},
				Consents: book, grants: newGrantLooks(),
			}}
			class, err := f.Class(ctx, "public")
			if err != nil || (class != nil) != tc.want {
				t.Errorf("Class: %v, %v", class, err)
			}
			classes, err := f.Classes(ctx)
			if err != nil || (len(classes) == 1) != tc.want {
				t.Errorf("Classes: %v, %v", classes, err)
			}
			labels, err := f.NamespaceLabels(ctx, "shop")
			if err != nil || (labels["team"] == "data") != tc.want {
				t.Errorf("NamespaceLabels: %v, %v", labels, err)
			}
			granted, err := f.Granted(ctx, "shop", service)
			if err != nil || granted != tc.want {
				t.Errorf("Granted: %v, %v", granted, err)
			}
		})
	}
}

func TestFreshAsksTheAPIServerOnlyWhenItMust(t *testing.T) {
	away := errors.New("away")
	live := clientOf(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return away
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away },
	}).Build()
	book, _ := consentsBy(t)
	f := LiveReader{&View{objects: &objects{Reader: clientOf(t,
		&v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public", Annotations: map[string]string{v1beta1.AnnotationDefaultClass: "true"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
	).Build(), live: live}, Consents: book, grants: newGrantLooks()}}
	if _, err := f.Class(t.Context(), "public"); err != nil {
		t.Error("Class:", err)
	}
	if _, err := f.Classes(t.Context()); err != nil {
		t.Error("Classes:", err)
	}
	if _, err := f.NamespaceLabels(t.Context(), "shop"); err != nil {
		t.Error("NamespaceLabels:", err)
	}
	for what, err := range map[string]error{
		"Class":           second(f.Class(t.Context(), "nosuch")),
		"NamespaceLabels": second(f.NamespaceLabels(t.Context(), "nosuch")),
		"Granted":         second(f.Granted(t.Context(), "shop", types.NamespacedName{Namespace: "data", Name: "db"})),
	} {
		if !errors.Is(err, away) {
			t.Errorf("%s hides an error: %v", what, err)
		}
	}
}

// TestFreshLooksForNoNameThatNothingCanHave: the client refuses to ask for some of them, and users may write any.
func TestFreshLooksForNoNameThatNothingCanHave(t *testing.T) {
	live := clientOf(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("invalid resource name")
		},
	}).Build()
	v := viewOf(t)
	v.live = live
	f := LiveReader{v}
	for _, name := range []string{"a/b", "..", ".", "50%", "Public", "a b", "-"} {
		if class, err := f.Class(t.Context(), name); class != nil || err != nil {
			t.Errorf("Class %q: %v, %v", name, class, err)
		}
		if labels, err := f.NamespaceLabels(t.Context(), name); labels != nil || err != nil {
			t.Errorf("NamespaceLabels %q: %v, %v", name, labels, err)
		}
		if pool, err := f.AddressPool(t.Context(), name); pool != nil || err != nil {
			t.Errorf("AddressPool %q: %v, %v", name, pool, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
