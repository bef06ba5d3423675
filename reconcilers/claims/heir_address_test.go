package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestHeirAsksByName looks whether a Service that was promised an address, as it is stored, asks for it by name: a change of it that would
// have asked may never have been stored.
func TestHeirAsksByName(t *testing.T) {
	const address = "192.0.2.7"
	service := func(asks string) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "heir", UID: "h", ResourceVersion: "7"}}
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
		svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
		if asks != "" {
			svc.Annotations = map[string]string{v1beta1.AnnotationAddresses: asks}
		}
		return svc
	}
	plain, goes := service(address), service(address)
	plain.Spec.Type = corev1.ServiceTypeClusterIP
	goes.DeletionTimestamp, goes.Finalizers = &metav1.Time{Time: accesstest.Noon}, []string{"a/b"}
	for name, tc := range map[string]struct {
		svc  *corev1.Service
		pool string
		want bool
	}{
		"it asks for it":                    {service(address), "192.0.2.0/28", true},
		"it asks for any":                   {service(""), "192.0.2.0/28", false},
		"it asks for another":               {service("192.0.2.8"), "192.0.2.0/28", false},
		"what it asks for is illegible":     {service("seven"), "192.0.2.0/28", false},
		"no pool gives it":                  {service(address), "198.51.100.0/28", false},
		"it is no load balancer":            {plain, "192.0.2.0/28", false},
		"it is being deleted":               {goes, "192.0.2.0/28", false},
		"it is not stored, or not any more": {nil, "192.0.2.0/28", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := claim.New(accesstest.AddressAt(address), claim.Claimant{Holder: claim.ServiceHolder("shop", "giver"), UID: "g"})
			c.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: claim.ServiceHolder("shop", "heir").Spec("h"), Renewed: metav1.NewMicroTime(accesstest.Noon)}
			pool := accesstest.PoolOf("pool", tc.pool)
			objects := []client.Object{c, pool, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
			if tc.svc != nil {
				objects = append(objects, tc.svc)
			}
			stored := accesstest.Cluster(t, objects...).Build()
			b, informers := accesstest.On(t, stored, stored)
			pools, err := informers.FakeInformerFor(t.Context(), &v1beta1.AddressPool{})
			if err != nil {
				t.Fatal(err)
			}
			pools.Add(pool)
			r := &claimReconciler{Access: b}
			as := claim.AsHeirs(c)
			s, err := r.readHolder(t.Context(), r.Live, claim.HolderOf(as), []*v1beta1.EdgeClaim{as})
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.asks(t.Context(), as)
			if err != nil || got.Wants != tc.want || got.Exists != (tc.svc != nil) || got.Exists && (got.UID != "h" || got.Generation == 0) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
