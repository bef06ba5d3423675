package loadbalancers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// handsTo has a Service hand over what it has.
func handsTo(heir string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHandOverTo, heir)
	}
}

// heirOf is the Service shop/heir, which asks for an address, and lists another one, "" for none.
func heirOf(address, listed string) *corev1.Service {
	svc := balancerAt("192.0.2.1")
	svc.Name, svc.UID = "heir", "h"
	asksFor(address)(svc)
	svc.Status.LoadBalancer.Ingress = nil
	if listed != "" {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: listed}}
	}
	return svc
}

// inherited is an address that shop/heir holds.
func inherited(ip string) *v1beta1.EdgeClaim {
	return claim.New(accesstest.AddressAt(ip), claim.Claimant{Holder: claim.ServiceHolder("shop", "heir"), UID: "h"})
}

// TestGiverStaysListedUntilItsHeirIs looks at a Service that has handed over the address which it lists.
func TestGiverStaysListedUntilItsHeirIs(t *testing.T) {
	const ip = "192.0.2.7"
	const six = "2001:db8::7"
	classless := func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }
	gone := func(svc *corev1.Service) {
		svc.DeletionTimestamp, svc.Finalizers = &metav1.Time{Time: accesstest.Noon}, []string{"a/b"}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		// heir lists an address, and is changed.
		listed     string
		changeHeir func(*corev1.Service)
		// late says that the heir was waited for long enough.
		late  bool
		want  string
		waits bool
	}{
		"the heir is not listed yet":              {want: ip, waits: true},
		"the heir is listed elsewhere":            {listed: "192.0.2.3", want: ip, waits: true},
		"the heir is listed":                      {listed: ip},
		"the heir is not listed, for too long":    {late: true},
		"the heir is being deleted":               {changeHeir: gone},
		"the heir is no load balancer any longer": {changeHeir: func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }},
		"the giver is being deleted":              {change: gone},
		"without a class":                         {change: classless, want: ip, waits: true},
		"without a class, and the heir is listed": {change: classless, listed: ip},
		"it keeps an address of another family": {want: ip + ", " + six, waits: true, change: func(svc *corev1.Service) {
			svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, corev1.IPv6Protocol)
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: six})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			giver, heir := balancerAt(ip), heirOf(ip, tc.listed)
			handsTo("shop/heir")(giver)
			if tc.change != nil {
				tc.change(giver)
			}
			if tc.changeHeir != nil {
				tc.changeHeir(heir)
			}
			all := copies(giver, heir, inherited(ip))
			if strings.Contains(tc.want, six) {
				all = append(all, onAddress(six), accesstest.PoolOf("six", "2001:db8::/120"))
			}
			r := balancers(t, copies(all...), copies(all...))
			r.View.LoadBalancers.Options.ByDefault = true
			key := client.ObjectKeyFromObject(giver)
			if tc.late {
				r.bridges.since[key] = time.Now().Add(-bridgeTime)
			}
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil {
				t.Fatal(err)
			}
			mustBeServedAt(t, r, giver, tc.want)
			if again := result.RequeueAfter; tc.waits && (again == 0 || again > bridgePoll) {
				t.Errorf("it is looked at again after %s", again)
			}
			if _, waits := r.bridges.since[key]; waits != (tc.waits || tc.late) {
				t.Errorf("it waits for its heir: %v", waits)
			}
			if held := ledgerOf(t, r); !strings.Contains(held, "addr.192-0-2-7 Service shop/heir") || strings.Contains(held, "192-0-2-0") {
				t.Errorf("the ledger has %q", held)
			}
		})
	}
}

// TestHeirIsListedFirst has an heir take the address of a giver, which is told, and is listed no longer after that.
func TestHeirIsListedFirst(t *testing.T) {
	const ip = "192.0.2.7"
	giver, heir := balancerAt(ip), heirOf(ip, "")
	handsTo("shop/heir")(giver)
	all := copies(giver, heir, onAddress(ip))
	r := balancers(t, copies(all...), copies(all...))
	lookAt(t, r, heir)
	mustBeServedAt(t, r, heir, ip)
	mustBeServedAt(t, r, giver, ip)
	if held := ledgerOf(t, r); held != "addr.192-0-2-7 Service shop/heir" {
		t.Errorf("the ledger has %q", held)
	}
	told := lookAt(t, r, giver) // the cache does not show yet that the heir is listed
	mustBeServedAt(t, r, giver, ip)
	told = append(told, lookAt(t, r, giver)...)
	if len(told) != 1 || !strings.HasPrefix(told[0], "Normal HandedOver") {
		t.Errorf("it is told %q", told)
	}
	r.bridges.since[client.ObjectKeyFromObject(giver)] = time.Now().Add(-bridgeTime)
	lookAt(t, r, giver)
	mustBeServedAt(t, r, giver, "")
}

// TestLostLedgerGivesNothingAway has a Service that is about to hand over what it has be found listed, with an empty ledger.
func TestLostLedgerGivesNothingAway(t *testing.T) {
	const ip = "192.0.2.7"
	for name, class := range map[string]*string{"ours": new(v1beta1.LoadBalancerClass), "none": nil} {
		t.Run("class "+name, func(t *testing.T) {
			giver := balancerAt(ip)
			giver.Spec.LoadBalancerClass = class
			handsTo("shop/heir")(giver)
			r := balancers(t, copies(giver), copies(giver))
			r.View.LoadBalancers.Options.ByDefault = true
			lookAt(t, r, giver)
			mustBeServedAt(t, r, giver, ip)
			if held := ledgerOf(t, r); held != "addr.192-0-2-7 Service shop/web" {
				t.Errorf("the ledger has %q", held)
			}
		})
	}
}

// TestOvertakenIsNotForeign has a Service without a class, which Portcullis has served, no longer name the heir that has its address: it is
// not taken for one that another controller serves, and asks as anybody does.
func TestOvertakenIsNotForeign(t *testing.T) {
	giver := balancerAt("192.0.2.7")
	giver.Spec.LoadBalancerClass = nil
	all := copies(giver, inherited("192.0.2.7"))
	r := balancers(t, copies(all...), copies(all...))
	r.View.LoadBalancers.Options.ByDefault = true
	lookAt(t, r, giver)
	mustBeServedAt(t, r, giver, "192.0.2.0")
}

// TestMergedStatus holds that what stays keeps its place.
func TestMergedStatus(t *testing.T) {
	entries := func(text string) (all []corev1.LoadBalancerIngress) {
		for ip := range strings.FieldsSeq(text) {
			all = append(all, corev1.LoadBalancerIngress{IP: ip})
		}
		return all
	}
	for name, tc := range map[string]struct{ now, next, stay, want string }{
		"nothing else":  {"192.0.2.7", "", "192.0.2.7", "192.0.2.7"},
		"before":        {"192.0.2.7 2001:db8::7", "2001:db8::7", "192.0.2.7", "192.0.2.7 2001:db8::7"},
		"behind":        {"2001:db8::7 192.0.2.7", "2001:db8::7", "192.0.2.7", "2001:db8::7 192.0.2.7"},
		"one comes":     {"192.0.2.7", "2001:db8::8", "192.0.2.7", "192.0.2.7 2001:db8::8"},
		"another goes":  {"192.0.2.7 2001:db8::7", "", "192.0.2.7", "192.0.2.7"},
		"it is to stay": {"192.0.2.7", "192.0.2.7", "192.0.2.7", "192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, i := range merged(entries(tc.now), entries(tc.next), []netip.Addr{netip.MustParseAddr(tc.stay)}) {
				got = append(got, i.IP)
			}
			if !slices.Equal(got, strings.Fields(tc.want)) {
				t.Errorf("it is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestBothSidesAreLookedAt holds that an heir is looked at when it is named, and when a claim becomes its, and a giver when the heir is listed.
func TestBothSidesAreLookedAt(t *testing.T) {
	const ip = "192.0.2.7"
	silent, giver, heir, listed := balancerAt(ip), balancerAt(ip), heirOf(ip, ""), heirOf(ip, ip)
	handsTo("shop/heir")(giver)
	other := giver.DeepCopy()
	handsTo("shop/other")(other)
	for name, tc := range map[string]struct {
		before, now client.Object
		want        []string
	}{
		"it is named":                {silent, giver, []string{"heir"}},
		"another was named":          {other, giver, []string{"heir"}},
		"it was named before":        {giver, giver, nil},
		"it is named no longer":      {giver, silent, nil},
		"it is listed":               {heir, listed, []string{"web"}},
		"it was listed before":       {listed, listed, nil},
		"it is listed no longer":     {listed, heir, nil},
		"it has the claim":           {onAddress(ip), inherited(ip), []string{"heir", "web"}},
		"the claim is the giver's":   {onAddress(ip), onAddress(ip), nil},
		"the heir is as it was":      {inherited(ip), inherited(ip), nil},
		"the giver has it once more": {inherited(ip), onAddress(ip), []string{"heir", "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := balancers(t, nil, copies(giver, listed, inherited(ip)))
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			on := r.onListing()
			if _, isClaim := tc.before.(*v1beta1.EdgeClaim); isClaim {
				on = r.onClaim()
			}
			on.Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.now}, q)
			var got []string
			for q.Len() > 0 {
				request, _ := q.Get()
				got = append(got, request.Name)
				q.Done(request)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("looked at are %q, want %q", got, tc.want)
			}
		})
	}
}
