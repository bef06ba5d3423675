package streams

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestOutsideWritesToNothingThatItHasNotSeen: the owner of the namespace has put something of their own in the place of
// what the cache still shows, and changes the stream.
func TestOutsideWritesToNothingThatItHasNotSeen(t *testing.T) {
	before, now := accesstest.Postgres(to("192.0.2.7", 5432)), accesstest.Postgres(to("192.0.2.8", 5433))
	otherFamily := accesstest.Postgres(to("2001:db8::7", 5432))
	ours := func(obj client.Object) client.Object {
		obj.SetUID("ours")
		obj.SetResourceVersion("7")
		return obj
	}
	theirs := func(obj client.Object) client.Object {
		obj.SetUID("theirs")
		obj.SetResourceVersion("8")
		obj.SetOwnerReferences(nil)
		return obj
	}
	for name, tc := range map[string]struct {
		seen, stored []client.Object
		si           *v1beta1.StreamIngress
	}{
		"a Service": {
			[]client.Object{ours(serviceOf(t, before, true))}, []client.Object{theirs(serviceOf(t, before, true))}, now,
		},
		"an EndpointSlice": {
			[]client.Object{serviceOf(t, now, true), ours(sliceOf(t, before))},
			[]client.Object{serviceOf(t, now, true), theirs(sliceOf(t, before))}, now,
		},
		"an EndpointSlice that is to go": {
			[]client.Object{serviceOf(t, otherFamily, true), ours(sliceOf(t, before))},
			[]client.Object{serviceOf(t, otherFamily, true), theirs(sliceOf(t, before))}, otherFamily,
		},
		"what a former stream has left": {
			[]client.Object{ours(serviceOf(t, accesstest.Postgres(to("192.0.2.9", 5432), func(s *v1beta1.StreamIngress) { s.UID = "former" }), true))},
			[]client.Object{theirs(serviceOf(t, before, true))}, now,
		},
	} {
		t.Run(name, func(t *testing.T) {
			stored := accesstest.Cluster(t, append(tc.stored, tc.si)...).WithInterceptorFuncs(interceptor.Funcs{Delete: deleteThat}).Build()
			b, _ := baseOn(t, accesstest.Cluster(t, append(tc.seen, tc.si)...).Build(), stored)
			r := &streamReconciler{base: b}
			problems, err := r.outside(t.Context(), tc.si)
			if !apierrors.IsConflict(err) || len(problems) > 0 {
				t.Errorf("got %v, %v", problems, err)
			}
			kept := tc.stored[len(tc.stored)-1]
			got := kept.DeepCopyObject().(client.Object)
			if err := stored.Get(t.Context(), client.ObjectKeyFromObject(kept), got); err != nil {
				t.Fatal(err)
			}
			if got.GetResourceVersion() != kept.GetResourceVersion() {
				t.Errorf("what is not ours was changed: %v", got)
			}
			_, err = r.resolve(t.Context(), tc.si, &verdict{class: allowsOutside()})
			result, err := watch.Later(err)
			if err != nil || result.RequeueAfter != watch.CacheLag {
				t.Errorf("got %v, %v", result, err)
			}
		})
	}
}

// deleteThat minds the UID and the version of what is to be deleted, as the API server does and the fake does not.
func deleteThat(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
	current := obj.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), current); err != nil {
		return err
	}
	if p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; p != nil && (*p.UID != current.GetUID() ||
		p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion()) {
		return apierrors.NewConflict(corev1.Resource("objects"), obj.GetName(), errors.New("the UID or the version is another"))
	}
	return c.Delete(ctx, obj, opts...)
}

func allowsOutside() *v1beta1.StreamIngressClass {
	return &v1beta1.StreamIngressClass{Spec: v1beta1.StreamIngressClassSpec{OutsideUpstreams: v1beta1.OutsideAllowed}}
}
