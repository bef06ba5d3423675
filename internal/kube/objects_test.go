package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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

func TestFronts(t *testing.T) {
	named := &v1beta1.StreamIngressClass{}
	named.Name, named.Spec.Service = "public", &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"}
	onHosts := &v1beta1.StreamIngressClass{}
	onHosts.Name = "hosts"
	fronts, err := viewOf(t, named, onHosts).Fronts(t.Context())
	if err != nil || len(fronts) != 1 || fronts[0].String() != "edge/proxy" {
		t.Errorf("got %v, %v", fronts, err)
	}
}
