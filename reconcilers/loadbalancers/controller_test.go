package loadbalancers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// balancerAt is the Service shop/web, which Portcullis has served at an address.
func balancerAt(ip string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "w", ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: "portcullis", Operation: metav1.ManagedFieldsOperationApply, Subresource: "status", APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`),
	}}}}
	svc.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new(v1beta1.LoadBalancerClass),
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}},
	}
	svc.Status.LoadBalancer.Ingress = loadbalancer.Served([]netip.Addr{netip.MustParseAddr(ip)}, corev1.LoadBalancerIPModeVIP,
		[]loadbalancer.Port{{Protocol: corev1.ProtocolTCP, Number: 80}})
	return svc
}

// onAddress is a claim of shop/web.
func onAddress(ip string) *v1beta1.EdgeClaim {
	return claim.New(claim.Address(netip.MustParseAddr(ip)), claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: "w"})
}

// balancers is a reconciler whose cache does not show all that is stored, with a pool of some addresses, and those in
// alsoSeen.
func balancers(t *testing.T, stored, alsoSeen []client.Object) *loadBalancerReconciler {
	t.Helper()
	return balancersOn(t, accesstest.Cluster(t, stored...).WithReturnManagedFields().Build(), alsoSeen)
}

// balancersOn is the same on a client of what is stored.
func balancersOn(t *testing.T, stored client.Client, alsoSeen []client.Object) *loadBalancerReconciler {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	seen := append([]client.Object{namespace, accesstest.PoolOf("pool", "192.0.2.0/28")}, alsoSeen...)
	cached := accesstest.Cluster(t, seen...).WithReturnManagedFields()
	if err := kube.AddLoadBalancerIndexes(t.Context(), accesstest.Indexer{ClientBuilder: cached}, kube.LoadBalancerOptions{}); err != nil {
		t.Fatal(err)
	}
	b, informers := accesstest.On(t, cached.Build(), stored)
	pools, err := informers.FakeInformerFor(t.Context(), &v1beta1.AddressPool{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range seen {
		if pool, is := o.(*v1beta1.AddressPool); is {
			pools.Add(pool)
		}
	}
	b.Events = events.NewFakeRecorder(10)
	return &loadBalancerReconciler{
		Access: b, reported: report.NewReportedState(), services: &kube.KeyMutex[types.NamespacedName]{},
		waiting: newWaiting(), looked: newLooked(), bridges: newBridges(DefaultHandOverWait),
	}
}

// mustBeServedAt fails if the status of a Service does not list exactly some addresses.
func mustBeServedAt(t *testing.T, r *loadBalancerReconciler, svc *corev1.Service, want string) {
	t.Helper()
	now := &corev1.Service{}
	if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(svc), now); err != nil {
		t.Fatal(err)
	}
	if listed := texts(loadbalancer.Listed(now.Status.LoadBalancer.Ingress)); listed != want {
		t.Errorf("it is served at %q, want %q", listed, want)
	}
}

// TestLaggingClaimsMoveNoAddress looks at a Service that is served at an address while the cache shows no claim on it. The
// Service stays where it is, whether the API server has the claim, or nobody holds it and the claim is made anew.
func TestLaggingClaimsMoveNoAddress(t *testing.T) {
	const served = "192.0.2.7"
	svc := balancerAt(served)
	for name, tc := range map[string]struct {
		ledger, seen []client.Object
		want         string
		claims       []string
	}{
		"the cache lags":               {[]client.Object{onAddress(served)}, nil, served, []string{"addr.192-0-2-7"}},
		"the cache shows another only": {[]client.Object{onAddress(served), onAddress("192.0.2.3")}, []client.Object{onAddress("192.0.2.3")}, served, []string{"addr.192-0-2-3", "addr.192-0-2-7"}},
		"the cache shows it":           {[]client.Object{onAddress(served)}, []client.Object{onAddress(served)}, served, []string{"addr.192-0-2-7"}},
		"nobody holds it":              {nil, nil, served, []string{"addr.192-0-2-7"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := balancers(t, append(tc.ledger, svc.DeepCopy()), append(tc.seen, svc.DeepCopy()))
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}); err != nil {
				t.Fatal(err)
			}
			mustBeServedAt(t, r, svc, tc.want)
			var claims v1beta1.EdgeClaimList
			if err := r.Live.List(t.Context(), &claims); err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := range claims.Items {
				names = append(names, claims.Items[i].Name)
			}
			slices.Sort(names)
			if !slices.Equal(names, tc.claims) {
				t.Errorf("the ledger has %s", strings.Join(names, ", "))
			}
		})
	}
}

// sharedAddress is one that a pool shares port by port, or that of a node.
var sharedAddress = netip.MustParseAddr("198.51.100.7")

// sharedPort is a way to have a port of an address that is shared.
type sharedPort struct {
	// seen is what gives it.
	seen []client.Object
	port func(number int32) claim.Coordinate
}

// sharedPorts are the ways to have a port of an address, by their names.
func sharedPorts(address netip.Addr) map[string]sharedPort {
	sharing := accesstest.PoolOf("sharing", "198.51.100.0/28")
	sharing.Spec.Sharing = v1beta1.SharingPorts
	nodes := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Spec: v1beta1.AddressPoolSpec{Source: v1beta1.SourceNodeIP}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.String()}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	return map[string]sharedPort{
		"of an address": {[]client.Object{sharing}, func(number int32) claim.Coordinate { return claim.AddressPort(address, "TCP", number) }},
		"of the nodes":  {[]client.Object{nodes, node}, func(number int32) claim.Coordinate { return claim.NodePort("TCP", number) }},
	}
}

// TestReleasedPortIsNotListed has a Service, which is served on a port of an address, ask for another port of it, whose
// claim was released and is still in the cache.
func TestReleasedPortIsNotListed(t *testing.T) {
	for name, tc := range sharedPorts(sharedAddress) {
		t.Run(name, func(t *testing.T) {
			svc := balancerAt(sharedAddress.String())
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 443})
			by := claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name)}
			held, released := claim.New(tc.port(80), by), claim.New(tc.port(443), by)
			r := balancers(t, []client.Object{svc.DeepCopy(), held.DeepCopy()}, append(tc.seen, svc.DeepCopy(), held.DeepCopy(), released))
			if result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}); err != nil || result.RequeueAfter != watch.CacheLag {
				t.Errorf("it is looked at again after %s: %v", result.RequeueAfter, err)
			}
			now := &corev1.Service{}
			if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(svc), now); err != nil {
				t.Fatal(err)
			}
			if loadbalancer.ListsPort(now.Status.LoadBalancer.Ingress, tc.port(443)) {
				t.Errorf("it is served at a port that it does not hold: %v", now.Status.LoadBalancer.Ingress)
			}
		})
	}
}

// TestLaggingClaimsTakeNoPortAway has a Service that waits for what it can't have change its port where it is: the new port is claimed, and
// the cache does not show that yet. It is served on that port, and stays where it is.
func TestLaggingClaimsTakeNoPortAway(t *testing.T) {
	for name, tc := range sharedPorts(sharedAddress) {
		t.Run(name, func(t *testing.T) {
			svc := balancerAt(sharedAddress.String())
			svc.Annotations = map[string]string{v1beta1.AnnotationAddressPool: "full"}
			svc.Spec.Ports[0].Port = 443
			by := claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID}
			had, has := claim.New(tc.port(80), by), claim.New(tc.port(443), by)
			r := balancers(t, []client.Object{svc.DeepCopy(), had.DeepCopy(), has}, append(tc.seen, svc.DeepCopy(), had.DeepCopy()))
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}); err != nil {
				t.Fatal(err)
			}
			mustBeServedAt(t, r, svc, sharedAddress.String())
			now := &corev1.Service{}
			if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(svc), now); err != nil {
				t.Fatal(err)
			}
			if !loadbalancer.ListsPort(now.Status.LoadBalancer.Ingress, tc.port(443)) {
				t.Errorf("it is not served at its port: %v", now.Status.LoadBalancer.Ingress)
			}
		})
	}
}
