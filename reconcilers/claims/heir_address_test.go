package claims

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
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

// TestHeirHasAllOrNothing has a Service, stored, ask for two ports of an address, one of which was promised to it: it inherits that if it can
// have the other one, too. Else it is waited for within the grace, and then forgotten.
func TestHeirHasAllOrNothing(t *testing.T) {
	const address = "192.0.2.7"
	port := func(n int32, by string) *v1beta1.EdgeClaim {
		return claim.New(claim.AddressPort(accesstest.AddressAt(address).Address(), "TCP", n), claim.Claimant{Holder: claim.ServiceHolder("shop", by), UID: types.UID(by)})
	}
	promised := func(uid types.UID) *v1beta1.EdgeClaim {
		c := port(443, "giver")
		c.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: claim.ServiceHolder("shop", "heir").Spec(uid), Renewed: metav1.NewMicroTime(accesstest.Noon)}
		return c
	}
	for name, tc := range map[string]struct {
		also  *v1beta1.EdgeClaim
		after time.Duration
		// want is who holds the port then, and waits says that the heir is remembered.
		want  string
		waits bool
	}{
		"nobody has the other":                  {want: "heir"},
		"it has the other":                      {also: port(443, "heir"), want: "heir"},
		"it was promised the other":             {also: promised("heir"), want: "heir"},
		"another object of its name was":        {also: promised("older"), want: "giver", waits: true},
		"nobody knows which, and it is no more": {also: promised(""), want: "giver", waits: true},
		"another has it":                        {also: port(443, "other"), want: "giver", waits: true},
		"another has it, and the grace is over": {also: port(443, "other"), after: time.Hour, want: "giver"},
	} {
		t.Run(name, func(t *testing.T) {
			heir := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "heir", UID: "heir", ResourceVersion: "7",
				Annotations: map[string]string{v1beta1.AnnotationAddresses: address}}}
			heir.Spec.Type, heir.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
			heir.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
			heir.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}, {Protocol: corev1.ProtocolTCP, Port: 443}}
			c := port(80, "giver")
			c.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: claim.ServiceHolder("shop", "heir").Spec("heir"), Renewed: metav1.NewMicroTime(accesstest.Noon)}
			pool := accesstest.PoolOf("pool", address)
			pool.Spec.Sharing = v1beta1.SharingPorts
			giver := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "giver", UID: "giver"}} // and names nobody any longer
			objects := []client.Object{c, pool, heir, giver, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
			if tc.also != nil {
				objects = append(objects, tc.also.DeepCopy())
			}
			cached := accesstest.Cluster(t, objects...)
			if err := kube.AddLoadBalancerIndexes(t.Context(), accesstest.Indexer{ClientBuilder: cached}, kube.LoadBalancerOptions{}); err != nil {
				t.Fatal(err)
			}
			stored := cached.Build()
			b, informers := accesstest.On(t, stored, stored)
			pools, err := informers.FakeInformerFor(t.Context(), &v1beta1.AddressPool{})
			if err != nil {
				t.Fatal(err)
			}
			pools.Add(pool)
			b.Ledger.Clock = clocktesting.NewFakePassiveClock(accesstest.Noon.Add(tc.after))
			r := newClaimReconciler(b, claimTestOptions())
			again, err := r.inherit(t.Context(), claimRequest{Holder: claim.ServiceHolder("shop", "heir")})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				t.Fatal(err)
			}
			if c.Spec.Holder.Name != tc.want || (c.Spec.Heir != nil) != tc.waits || (again == bridgePoll) != tc.waits {
				t.Errorf("it is held by %s, its heir is %v, and it is looked at again after %s", c.Spec.HeldBy, c.Spec.Heir, again)
			}
		})
	}
}
