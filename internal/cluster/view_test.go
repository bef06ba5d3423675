package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

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
			o, err := v.Stream(ctx, types.NamespacedName{Namespace: "shop", Name: "postgres" + s})
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

func TestGranted(t *testing.T) {
	from := gatewayv1.ReferenceGrantFrom{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: "shop"}
	all, db := gatewayv1.ReferenceGrantTo{Kind: "Service"}, gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName("db"))}
	for name, tc := range map[string]struct {
		namespace string
		from      gatewayv1.ReferenceGrantFrom
		to        gatewayv1.ReferenceGrantTo
		want      bool
	}{
		"to the Service":               {"data", from, db, true},
		"to every Service":             {"data", from, all, true},
		"to another Service":           {"data", from, gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName("web"))}, false},
		"to Secrets":                   {"data", from, gatewayv1.ReferenceGrantTo{Kind: "Secret"}, false},
		"to a Service of another kind": {"data", from, gatewayv1.ReferenceGrantTo{Group: "serving.example", Kind: "Service"}, false},
		"in another namespace":         {"web", from, db, false},
		"from another namespace":       {"data", gatewayv1.ReferenceGrantFrom{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: "web"}, db, false},
		"from another kind":            {"data", gatewayv1.ReferenceGrantFrom{Group: "gateway.networking.k8s.io", Kind: "TCPRoute", Namespace: "shop"}, db, false},
		"from another group":           {"data", gatewayv1.ReferenceGrantFrom{Group: "x.example", Kind: "StreamIngress", Namespace: "shop"}, db, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(t, &gatewayv1beta1.ReferenceGrant{
				ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "grant"},
				Spec:       gatewayv1beta1.ReferenceGrantSpec{From: []gatewayv1.ReferenceGrantFrom{tc.from}, To: []gatewayv1.ReferenceGrantTo{tc.to}},
			})
			got, err := v.Granted(t.Context(), "shop", types.NamespacedName{Namespace: "data", Name: "db"})
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestGrantedWhenGrantsCannotBeRead(t *testing.T) {
	away := errors.New("away")
	for name, tc := range map[string]struct {
		fails error
		want  string
	}{
		"the Gateway API is not installed": {&meta.NoKindMatchError{}, ""},
		"the API server is away":           {away, "listing ReferenceGrants of namespace data: away"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t).WithInterceptorFuncs(interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return tc.fails
				},
			}).Build()
			got, err := (&View{Reader: c}).Granted(t.Context(), "shop", types.NamespacedName{Namespace: "data", Name: "db"})
			if got || err == nil != (tc.want == "") || err != nil && (err.Error() != tc.want || !errors.Is(err, away)) {
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
	got, err := v.Held(ctx, me)
	want := []claim.Coordinate{claim.Stream("internal", v1beta1.UDP, 53), tcp(80), tcp(443)}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b claim.Coordinate) bool { return a == b })); err != nil || diff != "" {
		t.Error("Held:", err, diff)
	}
	claims, err := v.Claims(ctx, "public")
	if err != nil || len(claims) != 4 || claims[tcp(82)].Spec.HeldBy != "StreamIngress shop/redis" {
		t.Errorf("Claims: %v, %v", claims, err)
	}
	if claims, err := v.Claims(ctx, "nosuch"); err != nil || len(claims) != 0 {
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
