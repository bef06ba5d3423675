package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func TestViewReadsWhatIsThereAndNilElse(t *testing.T) {
	ctx := t.Context()
	v := viewOf(t,
		&v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}},
		&v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "internal"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "data"}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}},
		&v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "postgres"}},
		claimOn("public", v1beta1.TCP, 80, claim.StreamHolder("shop", "postgres")),
	)
	for name, read := range map[string]func(suffix string) (client.Object, error){
		"Class": func(s string) (client.Object, error) { o, err := v.Class(ctx, "public"+s); return orNil(o), err },
		"Service": func(s string) (client.Object, error) {
			o, err := v.Service(ctx, types.NamespacedName{Namespace: "shop", Name: "db" + s})
			return orNil(o), err
		},
		"Stream": func(s string) (client.Object, error) {
			o, err := v.Streams.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "postgres" + s})
			return orNil(o), err
		},
		"Claim": func(s string) (client.Object, error) {
			o, err := v.Claim(ctx, "stream.public.tcp.80"+s)
			return orNil(o), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := read(""); err != nil || got == nil {
				t.Errorf("of what is there: %v, %v", got, err)
			}
			if got, err := read("1"); err != nil || got != nil {
				t.Errorf("of what is not: %v, %v", got, err)
			}
		})
	}
	classes, err := v.Classes(ctx)
	var names []string
	for _, c := range classes {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"internal", "public"}, names); err != nil || diff != "" {
		t.Error("Classes:", err, diff)
	}
	got, err := v.NamespaceLabels(ctx, "shop")
	if diff := cmp.Diff(labels.Set{"team": "data"}, got); err != nil || diff != "" {
		t.Error("NamespaceLabels:", err, diff)
	}
	if got, err := v.NamespaceLabels(ctx, "nosuch"); err != nil || got != nil {
		t.Errorf("NamespaceLabels of none: %v, %v", got, err)
	}
}

// orNil is obj without a type when it is nil.
func orNil[T any, P interface {
	*T
	client.Object
}](obj P) client.Object {
	if obj == nil {
		return nil
	}
	return obj
}

// TestIsOutside asks about the Service sti-postgres of namespace shop.
func TestIsOutside(t *testing.T) {
	stream := func(namespace, name string, isService bool) *v1beta1.StreamIngress {
		s := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		s.Spec.IsService = &isService
		return s
	}
	slice := func(name, manager string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelManagedBy: manager},
		}}
	}
	for name, tc := range map[string]struct {
		there client.Object
		want  bool
	}{
		"nothing is there":                  {stream("shop", "other", true), false},
		"a stream leads out by it":          {stream("shop", "postgres", false), true},
		"a stream of its name leads inside": {stream("shop", "postgres", true), false},
		"a stream of another name":          {stream("shop", "other", false), false},
		"a stream of another namespace":     {stream("data", "postgres", false), false},
		"the stream has left a slice":       {slice("sti-postgres", EndpointSliceManager), true},
		"a slice of Kubernetes' own":        {slice("sti-postgres", "endpointslice-controller.k8s.io"), false},
		"another stream's slice":            {slice("sti-other", EndpointSliceManager), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := viewOf(t, tc.there).Streams.IsOutside(t.Context(), types.NamespacedName{Namespace: "shop", Name: "sti-postgres"})
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestHeldAndClaims(t *testing.T) {
	me, ctx := claim.StreamHolder("shop", "postgres"), t.Context()
	sameText := claim.Holder{Group: "x.example", Kind: "StreamIngress", Namespace: "shop", Name: "postgres"}
	v := viewOf(t,
		claimOn("public", v1beta1.TCP, 443, me), claimOn("public", v1beta1.TCP, 80, me), claimOn("internal", v1beta1.UDP, 53, me),
		claimOn("public", v1beta1.TCP, 81, sameText), claimOn("public", v1beta1.TCP, 82, claim.StreamHolder("shop", "redis")),
	)
	tcp := func(port int32) claim.Coordinate { return claim.Stream("public", v1beta1.TCP, port) }
	got, err := v.Claims.Held(ctx, me)
	want := []claim.Coordinate{claim.Stream("internal", v1beta1.UDP, 53), tcp(80), tcp(443)}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b claim.Coordinate) bool { return a == b })); err != nil || diff != "" {
		t.Error("Held:", err, diff)
	}
	claims, err := v.Claims.OfClass(ctx, "public")
	if err != nil || len(claims) != 4 || claims[tcp(82)].Spec.HeldBy != "StreamIngress shop/redis" {
		t.Errorf("Claims: %v, %v", claims, err)
	}
	if claims, err := v.Claims.OfClass(ctx, "nosuch"); err != nil || len(claims) != 0 {
		t.Errorf("Claims of none: %v, %v", claims, err)
	}
}

func TestSyncedWaitsForEverything(t *testing.T) {
	warm := false
	v := viewOf(t)
	v.warm = func() bool { return warm }
	if v.Synced() {
		t.Error("synced before the cache is")
	}
	if warm = true; v.Synced() != v.Occupancy.Synced() {
		t.Error("it does not ask whether the claims are known")
	}
}
