package streams

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestConsentsWakeWhoCountsOnThem has three streams, of two namespaces and to two Services of a third.
func TestConsentsWakeWhoCountsOnThem(t *testing.T) {
	stream := func(namespace, name, service, class string) *v1beta1.StreamIngress {
		return accesstest.Postgres(accesstest.OfClass(class), func(s *v1beta1.StreamIngress) {
			s.Namespace, s.Name, s.Spec.Upstream.Namespace, s.Spec.Upstream.Service = namespace, name, "data", service
		})
	}
	seen := accesstest.Cluster(t,
		stream("shop", "db", "db", "public"), stream("shop", "cache", "cache", "internal"), stream("game", "db", "db", "games"),
	).Build()
	for name, tc := range map[string]struct {
		services         []string
		streams, classes []string
	}{
		"for one Service":         {[]string{"db"}, []string{"db"}, []string{"public"}},
		"for all Services":        {nil, []string{"cache", "db"}, []string{"internal", "public"}},
		"for one that nobody has": {[]string{"web"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b, informers := baseOn(t, seen, seen)
			woken := [2]workqueue.TypedRateLimitingInterface[reconcile.Request]{}
			for i, s := range []*consents{
				{b, (&streamReconciler{base: b}).themselves}, {b, (&classReconciler{base: b}).classesServing},
			} {
				woken[i] = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
				if err := s.Start(t.Context(), woken[i]); err != nil {
					t.Fatal(err)
				}
				if err := s.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			grant := &gatewayv1beta1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "grant"}}
			grant.Spec.From = []gatewayv1.ReferenceGrantFrom{{Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: "shop"}}
			for _, service := range tc.services {
				grant.Spec.To = append(grant.Spec.To, gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName(service))})
			}
			if tc.services == nil {
				grant.Spec.To = []gatewayv1.ReferenceGrantTo{{Kind: "Service"}}
			}
			events, err := informers.FakeInformerFor(t.Context(), grant)
			if err != nil {
				t.Fatal(err)
			}
			events.Add(grant)
			for i, want := range [][]string{tc.streams, tc.classes} {
				var got []string
				for woken[i].Len() > 0 {
					req, _ := woken[i].Get()
					got = append(got, req.Name)
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}
