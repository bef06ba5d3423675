package ingresses

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// reconcilerOn is a reconciler whose cache shows what is in seen while there is stored what is in stored.
func reconcilerOn(t *testing.T, seen, stored client.Client) *ingressReconciler {
	t.Helper()
	b, _ := accesstest.On(t, seen, stored)
	b.Events = events.NewFakeRecorder(20)
	return &ingressReconciler{Access: b, reported: report.NewReportedState(), handing: newHanding()}
}

// madeFor is the Ingress of a Service, with the whole of a host.
func madeFor(svc *corev1.Service, host string) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name, UID: "i"},
		Spec:       networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: host}}},
	}
	exposure.Mark(ing, svc)
	return ing
}

func heldBy(at claim.Coordinate, svc *corev1.Service) *v1beta1.EdgeClaim {
	return claim.New(at, claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID})
}

// TestGiverKeepsWhatNobodyElseHas has a Service that hands over be left with nothing of what it asks for: its Ingress goes with what others
// have only, and none that has changed since it was looked at.
func TestGiverKeepsWhatNobodyElseHas(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	svc, rival := annotated(key, "host=theirs.test", "blog/new"), annotated(types.NamespacedName{Namespace: "late", Name: "x"}, "host=theirs.test", "")
	theirs := heldBy(claim.HTTP("theirs.test", "/"), rival)
	for name, tc := range map[string]struct {
		serves  string
		more    []client.Object
		changed bool
		stays   bool
	}{
		"it serves what another has":              {serves: "theirs.test"},
		"the same, and has changed":               {serves: "theirs.test", changed: true, stays: true},
		"it serves what it has":                   {serves: "own.test", more: []client.Object{heldBy(claim.HTTP("own.test", "/"), svc)}, stays: true},
		"it serves what nobody has":               {serves: "own.test", stays: true},
		"it serves other things that others have": {serves: "own.test", more: []client.Object{heldBy(claim.HTTP("own.test", "/"), rival)}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]client.Object{svc, rival, theirs, madeFor(svc, tc.serves)}, tc.more...)
			seen, stored := accesstest.Cluster(t, copied(objects)...).Build(), accesstest.Cluster(t, copied(objects)...).Build()
			if tc.changed {
				now := &networkingv1.Ingress{}
				if err := stored.Get(t.Context(), key, now); err != nil {
					t.Fatal(err)
				}
				now.Labels = map[string]string{"a": "b"}
				if err := stored.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			r := reconcilerOn(t, seen, stored)
			_, err := r.removeGiven(t.Context(), svc)
			if (err != nil) != tc.changed {
				t.Errorf("got %v", err)
			}
			err = stored.Get(t.Context(), key, &networkingv1.Ingress{})
			if (err == nil) != tc.stays {
				t.Errorf("the Ingress: %v", err)
			}
		})
	}
}

// TestAdmittedIsNotWithheld has a giver be just admitted with the last of many points, of which the cache does not know yet.
func TestAdmittedIsNotWithheld(t *testing.T) {
	svc := annotated(types.NamespacedName{Namespace: "shop", Name: "web"}, "host=a.test", "blog/new")
	var withheld []claim.Coordinate
	for i := range 64 {
		withheld = append(withheld, claim.HTTP(fmt.Sprintf("h%d.test", i), "/"))
	}
	last := withheld[len(withheld)-1]
	rival := annotated(types.NamespacedName{Namespace: "late", Name: "x"}, "host=h1.test", "")
	for name, tc := range map[string]struct {
		stored []client.Object
		want   error
	}{
		"nobody has any":          {},
		"it has the last one":     {[]client.Object{heldBy(last, svc)}, write.ErrStale},
		"another has the last":    {[]client.Object{heldBy(last, rival)}, nil},
		"its Ingress has had one": {[]client.Object{claim.New(last, claim.Claimant{Holder: claim.IngressHolder("shop", "web")})}, write.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			r := reconcilerOn(t, accesstest.Cluster(t).Build(), accesstest.Cluster(t, tc.stored...).Build())
			if err := r.confirmWithheld(t.Context(), svc, withheld); !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestTriesAgainSoonWhatItTookOver has the API server refuse the Ingress of a Service while another one serves what it asks for.
func TestTriesAgainSoonWhatItTookOver(t *testing.T) {
	svc, giver := annotated(types.NamespacedName{Namespace: "blog", Name: "new"}, "", ""), annotated(types.NamespacedName{Namespace: "shop", Name: "web"}, "", "")
	foreign := madeFor(giver, "a.test")
	foreign.OwnerReferences, foreign.Annotations = nil, nil
	refused := refusal.Problems{{Reason: v1beta1.ReasonIngressRefused, Err: field.Invalid(exposure.AnnotationPath(), "", "no")}}
	for name, tc := range map[string]struct {
		serving  *networkingv1.Ingress
		problems refusal.Problems
		want     time.Duration
	}{
		"of a Service, which had it":    {madeFor(giver, "a.test"), refused, heirRetry},
		"of a Service, and another one": {madeFor(giver, "b.test"), refused, watch.RefusedRetry},
		"that somebody writes":          {foreign, refused, watch.RefusedRetry},
		"its own":                       {madeFor(svc, "a.test"), refused, watch.RefusedRetry},
		"it is refused by Portcullis":   {madeFor(giver, "a.test"), refusal.Problems{{Reason: v1beta1.ReasonHostConflict}}, watch.RefusedRetry},
	} {
		t.Run(name, func(t *testing.T) {
			stored := accesstest.Cluster(t, tc.serving)
			if err := kube.AddExposureIndexes(t.Context(), accesstest.Indexer{ClientBuilder: stored}, kube.Exposing{MaxHTTPPoints: 4}); err != nil {
				t.Fatal(err)
			}
			built := stored.Build()
			r := reconcilerOn(t, built, built)
			r.heirPatience = heirPatience
			w := wish{Exposure: exposure.Exposure{Hosts: []string{"a.test"}, Paths: []exposure.Path{{Type: networkingv1.PathTypePrefix, Value: "/"}}}}
			if got, err := r.whenRefused(t.Context(), svc, tc.problems, w); err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func copied(objects []client.Object) []client.Object {
	copies := make([]client.Object, 0, len(objects))
	for _, obj := range objects {
		copies = append(copies, obj.DeepCopyObject().(client.Object))
	}
	return copies
}
