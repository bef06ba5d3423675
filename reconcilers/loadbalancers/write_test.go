package loadbalancers

import (
	"context"
	"net/http"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// servedAt are entries of a status, for TCP/80.
func servedAt(addresses ...string) (ingress []corev1.LoadBalancerIngress) {
	for _, ip := range addresses {
		ingress = append(ingress, balancerAt(ip).Status.LoadBalancer.Ingress...)
	}
	return ingress
}

// patching writes to the client of a reconciler as an API server does, which answers to a JSON patch with a test that fails
// that it is invalid. beforePatch is called before each patch.
func patching(r *loadBalancerReconciler, beforePatch func()) {
	r.Writer = interceptor.NewClient(r.Writer.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
	) error {
		beforePatch()
		err := c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		if _, answered := err.(apierrors.APIStatus); err == nil || answered {
			return err
		}
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}})
}

// TestLateStatusAddsNothing decides on the status of a Service that lists two addresses, and writes it when the Service has
// changed. Whatever that has become, the address that goes is not listed, and nothing is that was not.
func TestLateStatusAddsNothing(t *testing.T) {
	const stays, goes, others = "10.0.0.1", "10.0.0.2", "203.0.113.9"
	lists := func(addresses ...string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Status.LoadBalancer.Ingress = servedAt(addresses...) }
	}
	annotated := func(svc *corev1.Service) { svc.Annotations = map[string]string{"n": "1"} }
	for name, tc := range map[string]struct {
		change []func(*corev1.Service)
		next   []string
		want   []string
	}{
		"nothing has changed":                  {nil, []string{stays}, []string{stays}},
		"nothing has changed, and all goes":    {nil, nil, nil},
		"nothing has changed, and one comes":   {nil, []string{stays, goes, others}, []string{stays, goes, others}},
		"an annotation":                        {[]func(*corev1.Service){annotated}, []string{stays}, []string{stays}},
		"an annotation, and all goes":          {[]func(*corev1.Service){annotated}, nil, nil},
		"an annotation, and another comes":     {[]func(*corev1.Service){annotated}, []string{stays, others}, []string{stays}},
		"it lists nothing by now":              {[]func(*corev1.Service){lists()}, []string{stays}, nil},
		"it lists another's address":           {[]func(*corev1.Service){lists(others)}, []string{stays}, []string{others}},
		"it lists another's, and all goes":     {[]func(*corev1.Service){lists(others)}, nil, []string{others}},
		"it lists another's beside what goes":  {[]func(*corev1.Service){lists(goes, others, goes)}, []string{stays}, []string{others}},
		"it lists what goes in another place":  {[]func(*corev1.Service){lists(others, goes, stays)}, []string{stays}, []string{others, stays}},
		"it lists what goes no longer":         {[]func(*corev1.Service){lists(stays)}, []string{stays}, []string{stays}},
		"it lists nothing, and then what goes": {[]func(*corev1.Service){lists(), lists(goes)}, []string{stays}, nil},
		"it lists what goes elsewhere at each patch": {
			[]func(*corev1.Service){annotated, lists(goes, others), lists(others, goes), lists(stays)}, []string{stays}, []string{stays},
		},
	} {
		t.Run(name, func(t *testing.T) {
			svc := balancerAt(stays)
			lists(stays, goes)(svc)
			r := balancers(t, []client.Object{svc.DeepCopy()}, nil)
			stored, key := r.Writer, client.ObjectKeyFromObject(svc)
			mustGet := func() *corev1.Service {
				now := &corev1.Service{}
				if err := r.Live.Get(t.Context(), key, now); err != nil {
					t.Fatal(err)
				}
				return now
			}
			change := func() {
				if len(tc.change) == 0 {
					return
				}
				now := mustGet()
				tc.change[0](now)
				tc.change = tc.change[1:]
				if err := stored.Status().Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
				now.ResourceVersion = ""
				if err := stored.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			svc = mustGet()
			change()
			patching(r, change)
			if err := r.writeIngress(t.Context(), svc, servedAt(tc.next...)); err != nil {
				t.Fatal(err)
			}
			var want []netip.Addr
			for _, ip := range tc.want {
				want = append(want, netip.MustParseAddr(ip))
			}
			if listed := texts(loadbalancer.Listed(mustGet().Status.LoadBalancer.Ingress)); listed != texts(want) {
				t.Errorf("it lists %q, want %q", listed, texts(want))
			}
		})
	}
}

// TestLateStatusOfAnother writes the status of a Service that is gone, or is another of its name.
func TestLateStatusOfAnother(t *testing.T) {
	svc := balancerAt("10.0.0.1")
	another := svc.DeepCopy()
	another.UID = "another"
	for name, stored := range map[string][]client.Object{"gone": nil, "another": {another}} {
		t.Run(name, func(t *testing.T) {
			r := balancers(t, stored, nil)
			patching(r, func() {})
			if err := r.writeIngress(t.Context(), svc, nil); err != nil {
				t.Error(err)
			}
			if stored != nil {
				mustBeServedAt(t, r, svc, "10.0.0.1")
			}
		})
	}
}

// TestStatusThatMovesAway has an address be in another place each time that it is about to be taken out: that is tried again
// later.
func TestStatusThatMovesAway(t *testing.T) {
	svc := balancerAt("10.0.0.1")
	r := balancers(t, []client.Object{svc.DeepCopy()}, nil)
	stored, places := r.Writer, []string{"203.0.113.1", "10.0.0.1"}
	patching(r, func() {
		now := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
		if err := stored.Get(t.Context(), client.ObjectKeyFromObject(svc), now); err != nil {
			t.Fatal(err)
		}
		places[0], places[1] = places[1], places[0]
		now.Status.LoadBalancer.Ingress = servedAt(places...)
		if err := stored.Status().Update(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	})
	if err := r.writeIngress(t.Context(), svc, nil); !apierrors.IsConflict(err) {
		t.Errorf("want a conflict, got %v", err)
	}
}
