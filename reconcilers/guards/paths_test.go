package guards

import (
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestTellsOfEachLossByItself has an Ingress serve what it has handed over, and what another one has besides: each is told once, when it
// comes to be so, and a loss that turns out to be handed over is told as such.
func TestTellsOfEachLossByItself(t *testing.T) {
	told := events.NewFakeRecorder(10)
	r := &pathReconciler{Access: access.Access{Events: told}, losers: newLosers(guard.Ingress)}
	ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "i"}}
	loss := func(path string, given bool) exposure.PathLoss {
		at := claim.HTTP("a.test", path)
		held := claim.New(at, claim.Claimant{Holder: claim.IngressHolder("blog", "web")})
		return exposure.PathLoss{At: at, Where: field.NewPath("spec"), Held: held, Given: given}
	}
	for _, step := range []struct {
		what string
		lost []exposure.PathLoss
		want []string
	}{
		{"a loss", []exposure.PathLoss{loss("/a", false)}, []string{"Warning HostConflict spec: a.test/a"}},
		{"the same", []exposure.PathLoss{loss("/a", false)}, nil},
		{"it was handed over", []exposure.PathLoss{loss("/a", true)}, []string{"Normal HandedOver spec: a.test/a"}},
		{
			"another one besides", []exposure.PathLoss{loss("/a", true), loss("/b", false)},
			[]string{"Warning HostConflict spec: a.test/b", "Normal HandedOver spec: a.test/a"},
		},
		{"none", nil, nil},
		{"again", []exposure.PathLoss{loss("/a", true)}, []string{"Normal HandedOver spec: a.test/a"}},
	} {
		r.tell(ing, step.lost)
		for _, want := range step.want {
			if len(told.Events) == 0 {
				t.Fatalf("%s: not told %q", step.what, want)
			}
			if got := <-told.Events; !strings.HasPrefix(got, want) {
				t.Errorf("%s: told %q, want %q", step.what, got, want)
			}
		}
		if len(told.Events) > 0 {
			t.Errorf("%s: told %q, too", step.what, <-told.Events)
		}
	}
}

// TestHeirsAreLookedAtOnceTheyAreKnown finds who is named by others, brothers, too.
func TestHeirsAreLookedAtOnceTheyAreKnown(t *testing.T) {
	named := func(name, heir string) *networkingv1.Ingress {
		ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		if heir != "" {
			metav1.SetMetaDataAnnotation(&ing.ObjectMeta, v1beta1.AnnotationHandOverTo, heir)
		}
		return ing
	}
	c := accesstest.Cluster(t, named("a", "blog/new"), named("b", "shop/d"), named("c", ""), named("d", "nobody")).Build()
	r := &pathReconciler{Access: accesstest.With(t, c)}
	var got []string
	for _, req := range r.heirs(t.Context()) {
		got = append(got, req.String())
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"blog/new", "shop/d"}) {
		t.Errorf("looks at %v", got)
	}
}
