package loadbalancers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// lookAt reconciles a Service, and returns the events that it is told.
func lookAt(t *testing.T, r *loadBalancerReconciler, svc *corev1.Service) (told []string) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case event := <-r.Events.(*events.FakeRecorder).Events:
			told = append(told, event)
		default:
			return told
		}
	}
}

// ledgerOf are the claims that are stored, by name and holder.
func ledgerOf(t *testing.T, r *loadBalancerReconciler) string {
	t.Helper()
	var claims v1beta1.EdgeClaimList
	if err := r.Live.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	var held []string
	for i := range claims.Items {
		held = append(held, claims.Items[i].Name+" "+claims.Items[i].Spec.HeldBy)
	}
	slices.Sort(held)
	return strings.Join(held, ", ")
}

// asksFor has a Service ask for addresses.
func asksFor(addresses string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Annotations = map[string]string{v1beta1.AnnotationAddresses: addresses} }
}

// copies are objects as one store has them.
func copies(objects ...client.Object) (all []client.Object) {
	for _, o := range objects {
		all = append(all, o.DeepCopyObject().(client.Object))
	}
	return all
}

// TestEntering looks at the Service shop/web, which has nothing but what its status lists. One pool has 192.0.2.0/28, and another has
// 203.0.113.0/28 and gives each namespace one address.
func TestEntering(t *testing.T) {
	limited := accesstest.PoolOf("limited", "203.0.113.0/28")
	limited.Spec.MaxPerNamespace, limited.Spec.AutoAssign = 1, new(false)
	nodes := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Spec: v1beta1.AddressPoolSpec{Source: v1beta1.SourceNodeIP}}
	other := balancerAt("192.0.2.7")
	other.Name, other.UID, other.CreationTimestamp = "other", "o", metav1.NewTime(accesstest.Noon)
	theirs := claim.New(accesstest.AddressAt("192.0.2.7"), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	beside := claim.New(accesstest.AddressAt("203.0.113.9"), claim.Claimant{Holder: claim.ServiceHolder("shop", "beside"), UID: "b"})
	const ungiven = "Warning AddressNotInPool no AddressPool gives it 198.51.100.7, at which it is served and which no one else gets; " +
		"it is claimed when one does; to have another address, ask for it"
	for name, tc := range map[string]struct {
		served string
		change func(*corev1.Service)
		// stored and seen are beside it.
		stored, seen []client.Object
		want         string
		ledger       string
		told         string
		lost         float64
	}{
		"what a pool gives": {served: "192.0.2.7", want: "192.0.2.7", ledger: "addr.192-0-2-7 Service shop/web"},
		"what is more than the namespace gets": {served: "203.0.113.7", stored: []client.Object{beside}, seen: []client.Object{beside},
			want: "203.0.113.7", ledger: "addr.203-0-113-7 Service shop/web, addr.203-0-113-9 Service shop/beside"},
		"what it can't move from": {served: "192.0.2.7", change: asksFor("198.51.100.1"), want: "192.0.2.7", ledger: "addr.192-0-2-7 Service shop/web",
			told: `Warning AddressNotInPool metadata.annotations[` + v1beta1.AnnotationAddresses + `]: Invalid value: "198.51.100.1": is in no AddressPool`},
		"what it moves from": {served: "192.0.2.7", change: asksFor("192.0.2.3"), want: "192.0.2.3",
			ledger: "addr.192-0-2-3 Service shop/web, addr.192-0-2-7 Service shop/web"},
		"though what it asks for is illegible": {served: "192.0.2.7", change: asksFor("seven"), want: "192.0.2.7", ledger: "addr.192-0-2-7 Service shop/web",
			told: "Warning InvalidRequest"},
		"what no pool gives": {served: "198.51.100.7", want: "198.51.100.7", told: ungiven},
		"what no pool gives, as it asks for another": {served: "198.51.100.7", change: asksFor("192.0.2.3"), want: "192.0.2.3",
			ledger: "addr.192-0-2-3 Service shop/web", told: "Warning AddressLost no AddressPool gives 198.51.100.7 to this Service any longer; now it has 192.0.2.3", lost: 1},
		"what no pool gives, as it asks for another that it can't have": {served: "198.51.100.7", change: asksFor("198.51.100.1"), want: "198.51.100.7",
			told: `Warning AddressNotInPool metadata.annotations[` + v1beta1.AnnotationAddresses + `]: Invalid value: "198.51.100.1": is in no AddressPool`},
		"a node that is not ready": {served: "198.51.100.129", seen: []client.Object{nodes, nodeAt("a", "198.51.100.129", corev1.ConditionFalse),
			nodeAt("b", "198.51.100.130", corev1.ConditionTrue)}, want: "198.51.100.130", ledger: "node.tcp.80 Service shop/web"},
		"what another has claimed": {served: "192.0.2.7", stored: []client.Object{other, theirs}, seen: []client.Object{other, theirs}, want: "192.0.2.0",
			ledger: "addr.192-0-2-0 Service shop/web, addr.192-0-2-7 Service shop/other", told: "Warning AddressLost 192.0.2.7 is held by Service shop/other", lost: 1},
		"what another has claimed a moment ago": {served: "192.0.2.7", stored: []client.Object{theirs}, want: "192.0.2.0",
			ledger: "addr.192-0-2-0 Service shop/web, addr.192-0-2-7 Service shop/other",
			told:   "Warning AddressLost 192.0.2.7 is held by Service shop/other; now it has 192.0.2.0", lost: 1},
		"what an older one lists, too": {served: "192.0.2.7", stored: []client.Object{other}, seen: []client.Object{other}, want: "192.0.2.0",
			ledger: "addr.192-0-2-0 Service shop/web",
			told:   "Warning AddressLost 192.0.2.7 stays with Service shop/other, which lists it, too, and is older; now it has 192.0.2.0", lost: 1},
	} {
		t.Run(name, func(t *testing.T) {
			svc := balancerAt(tc.served)
			svc.CreationTimestamp = metav1.NewTime(accesstest.Noon.Add(time.Minute))
			if tc.change != nil {
				tc.change(svc)
			}
			r := balancers(t, copies(append(tc.stored, svc)...), copies(append(tc.seen, svc, limited)...))
			before := testutil.ToFloat64(addressesLost)
			told := lookAt(t, r, svc)
			mustBeServedAt(t, r, svc, tc.want)
			if ledger := ledgerOf(t, r); ledger != tc.ledger {
				t.Errorf("the ledger has %q, want %q", ledger, tc.ledger)
			}
			if tc.told == "" && len(told) > 0 || tc.told != "" && (len(told) == 0 || !strings.HasPrefix(told[0], tc.told)) {
				t.Errorf("it is told %q, want %q", told, tc.told)
			}
			if lost := testutil.ToFloat64(addressesLost) - before; lost != tc.lost {
				t.Errorf("%v are counted as lost, want %v", lost, tc.lost)
			}
		})
	}
}

// TestOneFamilyStays has another Service have one of the two addresses that a Service lists, while no pool gives the other one: that stays, and
// nothing is given beside it.
func TestOneFamilyStays(t *testing.T) {
	svc := balancerAt("192.0.2.7")
	svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, corev1.IPv6Protocol)
	svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "2001:db8::7"})
	theirs := claim.New(accesstest.AddressAt("192.0.2.7"), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	r := balancers(t, copies(svc, theirs), copies(svc, theirs))
	told := lookAt(t, r, svc)
	mustBeServedAt(t, r, svc, "2001:db8::7")
	if ledger := ledgerOf(t, r); ledger != "addr.192-0-2-7 Service shop/other" {
		t.Errorf("the ledger has %s", ledger)
	}
	if len(told) != 2 || !strings.Contains(told[0], "192.0.2.7 is held by Service shop/other; now it has 2001:db8::7") ||
		!strings.Contains(told[1], "no AddressPool gives it 2001:db8::7") {
		t.Errorf("it is told %q", told)
	}
}

// TestOneFamilyLeaves has a Service list two addresses that no pool gives, and ask for another one in the place of one of them: the other stays.
func TestOneFamilyLeaves(t *testing.T) {
	svc := balancerAt("198.51.100.7")
	asksFor("192.0.2.3")(svc)
	svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, corev1.IPv6Protocol)
	svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "2001:db8::7"})
	r := balancers(t, copies(svc), copies(svc, accesstest.PoolOf("six", "2001:db8:1::/64")))
	told := lookAt(t, r, svc)
	mustBeServedAt(t, r, svc, "192.0.2.3, 2001:db8::7")
	if ledger := ledgerOf(t, r); ledger != "addr.192-0-2-3 Service shop/web" {
		t.Errorf("the ledger has %s", ledger)
	}
	if len(told) != 2 || !strings.Contains(told[0], "no AddressPool gives 198.51.100.7 to this Service any longer; now it has 192.0.2.3, 2001:db8::7") ||
		!strings.Contains(told[1], "no AddressPool gives it 2001:db8::7") {
		t.Errorf("it is told %q", told)
	}
}

// TestEnteringGoesOn has an error end the look at a Service when it had claimed one of the two ports that it lists: the next look claims the
// other one, though its namespace has as much of the pool as one gets.
func TestEnteringGoesOn(t *testing.T) {
	for name, tc := range sharedPorts(sharedAddress) {
		t.Run(name, func(t *testing.T) {
			svc := balancerAt(sharedAddress.String())
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 443})
			svc.Status.LoadBalancer.Ingress[0].Ports = append(svc.Status.LoadBalancer.Ingress[0].Ports, corev1.PortStatus{Protocol: corev1.ProtocolTCP, Port: 443})
			tc.seen[0].(*v1beta1.AddressPool).Spec.MaxPerNamespace = 1
			held := claim.New(tc.port(80), claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID})
			r := balancers(t, copies(svc, held), copies(append(tc.seen, svc, held)...))
			told := lookAt(t, r, svc)
			mustBeServedAt(t, r, svc, sharedAddress.String())
			if ledger := ledgerOf(t, r); !strings.Contains(ledger, tc.port(443).Name()+" Service shop/web") || len(told) > 0 {
				t.Errorf("the ledger has %s, and it is told %q", ledger, told)
			}
		})
	}
}

// TestStayingAsksOnce has a Service stay where no pool gives it an address: what it holds is asked past the cache once, and whatever others
// give up is nothing to it.
func TestStayingAsksOnce(t *testing.T) {
	svc := balancerAt("198.51.100.7")
	asked := 0
	stored := accesstest.Cluster(t, svc.DeepCopy()).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, claims := list.(*v1beta1.EdgeClaimList); claims {
				asked++
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	r := balancersOn(t, stored, copies(svc))
	looks := func(what string, want int) {
		t.Helper()
		lookAt(t, r, svc)
		if asked != want {
			t.Errorf("%s: it was asked %d times, want %d", what, asked, want)
		}
	}
	looks("at first", 1)
	looks("again", 1)
	if woken, all := r.waiting.wake(), r.waiting.wakeAll(); len(woken) > 0 || len(all) != 1 {
		t.Errorf("what others give up wakes %v, and pools wake %v", woken, all)
	}
	r.forget(client.ObjectKeyFromObject(svc))
	looks("forgotten", 2)
}

// TestLooked remembers what the API server has said of a Service.
func TestLooked(t *testing.T) {
	l, svc, held := newLooked(), balancerAt("198.51.100.7"), []claim.Coordinate{accesstest.AddressAt("192.0.2.7")}
	svc.ResourceVersion = "1"
	l.set(svc, nil, nil)
	if !l.agreed(svc, nil) || l.agreed(svc, held) {
		t.Error("it is not known, or whatever is held")
	}
	for what, change := range map[string]func(*corev1.Service){
		"changed":  func(s *corev1.Service) { s.ResourceVersion = "2" },
		"made new": func(s *corev1.Service) { s.UID = "new" },
		"another":  func(s *corev1.Service) { s.Name = "other" },
	} {
		other := svc.DeepCopy()
		change(other)
		if l.agreed(other, nil) {
			t.Errorf("one that is %s is known", what)
		}
	}
	l.set(svc, nil, held)
	if l.agreed(svc, nil) || l.agreed(svc, held) {
		t.Error("it is known though the API server has said something else")
	}
}

// TestOnlyWhatStaysIsListed has a Service stay at an address that no pool gives, and list another one, of the other family.
func TestOnlyWhatStaysIsListed(t *testing.T) {
	const stays, four, six = "198.51.100.7", corev1.IPv4Protocol, corev1.IPv6Protocol
	held := onAddress("2001:db8::7")
	for name, tc := range map[string]struct {
		families []corev1.IPFamily
		seen     []client.Object
		want     string
		lost     bool
	}{
		"which stays, too":                {families: []corev1.IPFamily{four, six}, want: stays + ", 2001:db8::7"},
		"of a family that it has not":     {families: []corev1.IPFamily{four}, want: stays},
		"which it holds":                  {families: []corev1.IPFamily{four, six}, seen: []client.Object{held, accesstest.PoolOf("six", "2001:db8::/64")}, want: stays + ", 2001:db8::7"},
		"which it holds without its pool": {families: []corev1.IPFamily{four, six}, seen: []client.Object{held}, want: stays, lost: true},
		"which it enters":                 {families: []corev1.IPFamily{four, six}, seen: []client.Object{accesstest.PoolOf("six", "2001:db8::/64")}, want: stays + ", 2001:db8::7"},
	} {
		t.Run(name, func(t *testing.T) {
			svc := balancerAt(stays)
			svc.Spec.IPFamilies = tc.families
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "2001:db8::7", Ports: svc.Status.LoadBalancer.Ingress[0].Ports})
			stored := []client.Object{svc}
			if slices.Contains(tc.seen, client.Object(held)) {
				stored = append(stored, held)
			}
			r := balancers(t, copies(stored...), copies(append(tc.seen, svc)...))
			told := lookAt(t, r, svc)
			mustBeServedAt(t, r, svc, tc.want)
			if lost := strings.Contains(told[0], "no AddressPool gives 2001:db8::7 to this Service any longer"); lost != tc.lost {
				t.Errorf("it is told %q", told)
			}
		})
	}
}
