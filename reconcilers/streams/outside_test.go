package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

func to(host string, port int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Spec.IsService, s.Spec.Upstream = new(false), v1beta1.StreamUpstream{Host: host, Port: intstr.FromInt32(port)}
	}
}

// asStored is what the API server makes of an apply configuration, but for defaults.
func asStored[T any](t *testing.T, apply any) *T {
	t.Helper()
	obj := new(T)
	text, err := json.Marshal(apply)
	if err == nil {
		err = json.Unmarshal(text, obj)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func serviceOf(t *testing.T, si *v1beta1.StreamIngress, isAddress bool) *corev1.Service {
	return asStored[corev1.Service](t, outsideService(si, isAddress))
}

func sliceOf(t *testing.T, si *v1beta1.StreamIngress) *discoveryv1.EndpointSlice {
	return asStored[discoveryv1.EndpointSlice](t, outsideSlice(si, discoveryv1.AddressTypeIPv4))
}

// TestWhatIsAppliedIsRecognized guards against writing the same again and again, and against leaving wrong what
// somebody else has changed.
func TestWhatIsAppliedIsRecognized(t *testing.T) {
	byName, byAddress := accesstest.Postgres(to("db.example.com", 5432)), accesstest.Postgres(to("192.0.2.7", 5432))
	if !isAsOutside(byName, serviceOf(t, byName, false), false) {
		t.Error("the Service of a DNS name is not recognized")
	}
	if !isAsOutside(byAddress, serviceOf(t, byAddress, true), true) {
		t.Error("the Service of an address is not recognized")
	}
	if !isSliceOf(byAddress, sliceOf(t, byAddress)) {
		t.Error("the EndpointSlice is not recognized")
	}
	if isAsOutside(byName, nil, false) || isSliceOf(byAddress, nil) {
		t.Error("what is missing is recognized")
	}
	for name, change := range map[string]func(*corev1.Service){
		"no port":          func(s *corev1.Service) { s.Spec.Ports = nil },
		"a second port":    func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 1}) },
		"another port":     func(s *corev1.Service) { s.Spec.Ports[0].Port = 1 },
		"another target":   func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(1) },
		"a target by name": func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("sql") },
		"another protocol": func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
		"another type":     func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
		"a selector":       func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "evil"} },
		"another host":     func(s *corev1.Service) { s.Spec.ExternalName = "evil.example.com"; s.Spec.IPFamilyPolicy = nil },
		"another family": func(s *corev1.Service) {
			s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
			s.Spec.ExternalName = ""
		},
	} {
		t.Run("a Service with "+name, func(t *testing.T) {
			ofName, ofAddress := serviceOf(t, byName, false), serviceOf(t, byAddress, true)
			change(ofName)
			change(ofAddress)
			if isAsOutside(byName, ofName, false) && name != "another family" {
				t.Error("it passes for the Service of a DNS name")
			}
			if isAsOutside(byAddress, ofAddress, true) {
				t.Error("it passes for the Service of an address")
			}
		})
	}
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"no endpoint": func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
		"a second endpoint": func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"192.0.2.8"}})
		},
		"a second address": func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Addresses = append(s.Endpoints[0].Addresses, "192.0.2.8")
		},
		"another address":  func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "192.0.2.8" },
		"no port":          func(s *discoveryv1.EndpointSlice) { s.Ports = nil },
		"no port number":   func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil },
		"another port":     func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(1)) },
		"no protocol":      func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = nil },
		"another protocol": func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = new(corev1.ProtocolUDP) },
		"another Service":  func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" },
	} {
		t.Run("an EndpointSlice with "+name, func(t *testing.T) {
			slice := sliceOf(t, byAddress)
			change(slice)
			if isSliceOf(byAddress, slice) {
				t.Error("it passes")
			}
		})
	}
}

// recorded is a cluster that writes down its writes, and may refuse some.
type recorded struct {
	base
	writes []string
	refuse error
}

func record(t *testing.T, objects ...client.Object) *recorded {
	r := &recorded{}
	write := func(verb string, obj any) error {
		kind := fmt.Sprintf("%T", obj)
		for _, known := range []string{"EndpointSlice", "Service", "ConfigMap"} {
			if slices.Contains([]string{"*v1." + known, "*v1." + known + "ApplyConfiguration"}, kind) {
				kind = known
			}
		}
		r.writes = append(r.writes, verb+" "+kind)
		return r.refuse
	}
	c := accesstest.Cluster(t, objects...).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := write("apply", obj); err != nil {
				return err
			}
			return c.Apply(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := write("patch", obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := write("delete", obj); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
	r.base = baseWith(t, c)
	return r
}

// TestOutside changes the upstream of one stream again and again. Each change is looked at twice: the second look finds
// nothing to write.
func TestOutside(t *testing.T) {
	cluster := record(t)
	r := &streamReconciler{base: cluster.base}
	byHand := func(t *testing.T, change func(*corev1.Service)) {
		svc := &corev1.Service{}
		if err := cluster.Live.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "sti-postgres"}, svc); err != nil {
			t.Fatal(err)
		}
		change(svc)
		if err := cluster.Writer.Update(t.Context(), svc); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name   string
		before func(*testing.T)
		si     *v1beta1.StreamIngress
		want   []string
	}{
		{"inside", nil, accesstest.Postgres(), nil},
		{"a DNS name", nil, accesstest.Postgres(to("db.example.com", 5432)), []string{"apply Service"}},
		{"another DNS name", nil, accesstest.Postgres(to("db2.example.com", 5432)), []string{"patch Service"}},
		{"another port", nil, accesstest.Postgres(to("db2.example.com", 5433)), []string{"patch Service"}},
		{"an address", nil, accesstest.Postgres(to("192.0.2.7", 5432)), []string{"patch Service", "apply EndpointSlice"}},
		{"another address", nil, accesstest.Postgres(to("192.0.2.8", 5432)), []string{"apply EndpointSlice"}},
		{"an address of the other family", nil, accesstest.Postgres(to("2001:db8::7", 5432)), []string{"delete EndpointSlice", "apply EndpointSlice"}},
		{"a selector by hand", func(t *testing.T) {
			byHand(t, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "evil"} })
		}, accesstest.Postgres(to("2001:db8::7", 5432)), []string{"patch Service"}},
		{"a port by hand", func(t *testing.T) {
			byHand(t, func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 1}) })
		}, accesstest.Postgres(to("2001:db8::7", 5432)), []string{"patch Service"}},
		{"a DNS name again", nil, accesstest.Postgres(to("db.example.com", 5432)), []string{"patch Service", "delete EndpointSlice"}},
		{"an address again", nil, accesstest.Postgres(to("192.0.2.7", 5432)), []string{"patch Service", "apply EndpointSlice"}},
		{"inside again", nil, accesstest.Postgres(), []string{"delete EndpointSlice", "delete Service"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			if step.before != nil {
				step.before(t)
			}
			for look, want := range [][]string{step.want, nil} {
				cluster.writes = nil
				problems, err := r.outside(t.Context(), step.si)
				if err != nil || len(problems) > 0 {
					t.Fatal(problems, err)
				}
				if diff := cmp.Diff(want, cluster.writes); diff != "" {
					t.Errorf("writes of look %d (-want +got):\n%s", look+1, diff)
				}
			}
		})
	}
}

func TestOutsideTakesNothingFromOthers(t *testing.T) {
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sti-postgres"}}
	slice := sliceOf(t, accesstest.Postgres(to("192.0.2.7", 5432)))
	slice.OwnerReferences[0].Name = "a-stream-whose-service-is-called-the-same"
	slice.OwnerReferences[0].UID = "another"
	c := record(t, theirs, slice)
	r := &streamReconciler{base: c.base}
	problems, err := r.outside(t.Context(), accesstest.Postgres(to("db.example.com", 5432)))
	if err != nil || len(problems) != 1 || problems[0].Reason != v1beta1.ReasonBackendNameTaken {
		t.Fatal(problems, err)
	}
	want := `spec.upstream.host: Invalid value: "db.example.com": the upstream needs a Service shop/sti-postgres of its own, ` +
		`and one of that name exists that belongs to somebody else; rename the StreamIngress or delete that Service`
	if got := problems[0].Err.Error(); got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
	if problems, err := r.outside(t.Context(), accesstest.Postgres()); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if len(c.writes) > 0 {
		t.Errorf("it writes %v", c.writes)
	}
}

// TestOutsideReplacesWhatAFormerStreamHasLeft has the Service and the EndpointSlice of a stream of the same name, which
// is gone, before the garbage collector has seen to them.
func TestOutsideReplacesWhatAFormerStreamHasLeft(t *testing.T) {
	former := accesstest.Postgres(to("192.0.2.9", 5432))
	former.UID = "former"
	svc, slice := serviceOf(t, former, true), sliceOf(t, former)
	c := record(t, svc, slice)
	problems, err := (&streamReconciler{base: c.base}).outside(t.Context(), accesstest.Postgres(to("192.0.2.7", 5432)))
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	want := []string{"delete Service", "delete EndpointSlice", "apply Service", "apply EndpointSlice"}
	if diff := cmp.Diff(want, c.writes); diff != "" {
		t.Error(diff)
	}
}

func TestOutsideWhenTheAPIServerRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		reason string
	}{
		"it refuses":          {apierrors.NewForbidden(corev1.Resource("services"), "sti-postgres", fmt.Errorf("quota")), v1beta1.ReasonBackendRefused},
		"somebody was faster": {apierrors.NewConflict(corev1.Resource("services"), "sti-postgres", nil), v1beta1.ReasonBackendNameTaken},
		"it is away":          {apierrors.NewServiceUnavailable("away"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := record(t)
			c.refuse = tc.err
			problems, err := (&streamReconciler{base: c.base}).outside(t.Context(), accesstest.Postgres(to("192.0.2.7", 5432)))
			if tc.reason == "" {
				if err == nil || len(problems) > 0 {
					t.Errorf("got %v, %v", problems, err)
				}
				return
			}
			if err != nil || len(problems) != 1 || problems[0].Reason != tc.reason {
				t.Errorf("got %v, %v", problems, err)
			}
		})
	}
}

// TestNothingOutsideWithoutADoor has streams that are refused lead outside: nothing is written for them, and what they had goes, but while
// they have a door in another class, or the proxy may not have been told yet who has their port instead.
func TestNothingOutsideWithoutADoor(t *testing.T) {
	const former = "former"
	moves := func(s *v1beta1.StreamIngress) {
		s.Spec.ClassName, s.Status.ClassName, s.Status.Listen = "next", former, 5432
	}
	door := claim.New(claim.Stream(former, v1beta1.TCP, 5432), claim.Claimant{Holder: claim.StreamHolder("shop", "postgres")})
	hadService := serviceOf(t, accesstest.Postgres(to("192.0.2.7", 5432)), true)
	for name, tc := range map[string]struct {
		reason string
		change func(*v1beta1.StreamIngress)
		stored []client.Object
		want   bool
	}{
		"it has a port":                          {"", nil, nil, true},
		"it is refused":                          {v1beta1.ReasonPortConflict, nil, nil, false},
		"it is refused now":                      {v1beta1.ReasonPortConflict, nil, []client.Object{hadService}, false},
		"it is refused where it goes":            {v1beta1.ReasonPortConflict, moves, []client.Object{door}, true},
		"it says that it comes from a class":     {v1beta1.ReasonPortConflict, moves, nil, false},
		"it has handed over":                     {v1beta1.ReasonHandedOver, nil, []client.Object{hadService}, true},
		"it has handed over, and has not had it": {v1beta1.ReasonHandedOver, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			si := accesstest.Postgres(to("192.0.2.7", 5432))
			if tc.change != nil {
				tc.change(si)
			}
			v := &verdict{class: allowsOutside()}
			if tc.reason != "" {
				v.refusal = refusal.One(tc.reason, field.Invalid(field.NewPath("spec", "listen"), 5432, ""))
			}
			var stored []client.Object
			for _, obj := range append(tc.stored, si) {
				stored = append(stored, obj.DeepCopyObject().(client.Object))
			}
			c := accesstest.Cluster(t, stored...).Build()
			r := &streamReconciler{base: baseWith(t, c)}
			if problems, err := r.resolve(t.Context(), si, v); err != nil || len(problems) > 0 {
				t.Fatalf("got %v, %v", problems, err)
			}
			err := c.Get(t.Context(), outsideServiceOf(si), &corev1.Service{})
			if client.IgnoreNotFound(err) != nil || (err == nil) != tc.want {
				t.Errorf("got %v, want a Service: %t", err, tc.want)
			}
		})
	}
}
