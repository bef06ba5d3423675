package claims

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

func listen(port int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Spec.Listen = &port }
}

// stateOf looks live at the holder of a claim.
func stateOf(t *testing.T, r *claimReconciler, c *v1beta1.EdgeClaim) (claim.HolderState, error) {
	t.Helper()
	holder := claim.HolderOf(c)
	claims, err := r.View.Claims.Of(t.Context(), holder)
	if err != nil {
		return claim.HolderState{}, err
	}
	s, err := r.readHolder(t.Context(), r.Live, holder, append(claims, c))
	if err != nil {
		return claim.HolderState{}, err
	}
	return s.wants(t.Context(), c)
}

// TestWants looks whether a stream wants the point of a claim on TCP/5432 of class public.
func TestWants(t *testing.T) {
	other := accesstest.Claimed(claim.Stream("public", v1beta1.TCP, 5431), accesstest.HolderOfPostgres, "u", 1, accesstest.Noon)
	for name, tc := range map[string]struct {
		si   *v1beta1.StreamIngress
		also *v1beta1.EdgeClaim
		want claim.HolderState
	}{
		"it is not there":                {nil, nil, claim.HolderState{}},
		"it names the port":              {accesstest.Life("u", 2, accesstest.OfClass("public")), nil, claim.HolderState{Exists: true, UID: "u", Generation: 2, Wants: true}},
		"it names the port, and a class": {accesstest.Life("u", 2), nil, claim.HolderState{Exists: true, UID: "u", Generation: 2, Wants: true}},
		"it names another port":          {accesstest.Life("u", 2, listen(5431)), nil, claim.HolderState{Exists: true, UID: "u", Generation: 2}},
		"it names another class":         {accesstest.Life("u", 2, accesstest.OfClass("internal")), nil, claim.HolderState{Exists: true, UID: "u", Generation: 2}},
		"another class serves it":        {accesstest.Life("u", 2, accesstest.ServedBy("internal", 5432)), nil, claim.HolderState{Exists: true, UID: "u", Generation: 2}},
		"it was given the port":          {accesstest.Life("u", 1, accesstest.Drawn), nil, claim.HolderState{Exists: true, UID: "u", Generation: 1, Wants: true}},
		"it was given two, and told the other": {accesstest.Life("u", 1, accesstest.Drawn, accesstest.ServedBy("public", 5431)), other,
			claim.HolderState{Exists: true, UID: "u", Generation: 1}},
		"it was given two, and told this one": {accesstest.Life("u", 1, accesstest.Drawn, accesstest.ServedBy("public", 5432)), other,
			claim.HolderState{Exists: true, UID: "u", Generation: 1, Wants: true}},
		"it was given two, and told none": {accesstest.Life("u", 1, accesstest.Drawn), other, claim.HolderState{Exists: true, UID: "u", Generation: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			c := accesstest.Claimed(accesstest.PointOfPostgres, accesstest.HolderOfPostgres, "u", 1, accesstest.Noon)
			objects := []client.Object{c}
			if tc.si != nil {
				objects = append(objects, tc.si)
			}
			if tc.also != nil {
				objects = append(objects, tc.also)
			}
			r := newClaimReconciler(accesstest.Of(t, objects...), claimTestOptions())
			got, err := stateOf(t, r, c)
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

// TestPortsOfTheNodes has a class hold a port of the nodes for its proxy, as a stream has the port on it, while a cache shows it as
// it was with a Service.
func TestPortsOfTheNodes(t *testing.T) {
	withService, _, _ := accesstest.Public()
	without := withService.DeepCopy()
	without.Spec.Service = nil
	stream := accesstest.Claimed(accesstest.PointOfPostgres, accesstest.HolderOfPostgres, "u", 1, accesstest.Noon)
	onNodes := accesstest.Claimed(claim.NodePort("TCP", 5432), claim.ClassHolder("public"), "c", 2, accesstest.Noon)
	for name, tc := range map[string]struct {
		seen, stored *v1beta1.StreamIngressClass
		also         []client.Object
		stays        bool
	}{
		"a stream is admitted, and the cache knows neither": {withService, without, []client.Object{stream}, true},
		"no stream is": {withService, without, nil, false},
		"a stream is, and the proxy has a Service meanwhile": {without, withService, []client.Object{stream}, false},
	} {
		for look, at := range map[string]claim.Coordinate{"all": {}, "that": claim.NodePort("TCP", 5432)} {
			t.Run(name+", at "+look, func(t *testing.T) {
				before, now := tc.seen.DeepCopy(), tc.stored.DeepCopy()
				before.UID, before.Generation, now.UID, now.Generation = "c", 1, "c", 2
				stored := accesstest.Cluster(t, slices.Concat(tc.also, []client.Object{now, onNodes.DeepCopy()})...).Build()
				b, _ := accesstest.On(t, accesstest.Cluster(t, before, onNodes.DeepCopy()).Build(), stored)
				b.Ledger.Clock = clocktesting.NewFakePassiveClock(accesstest.Noon)
				r := newClaimReconciler(b, claimTestOptions())
				if _, err := r.Reconcile(t.Context(), claimRequest{Holder: claim.ClassHolder("public"), At: at}); err != nil {
					t.Fatal(err)
				}
				err := stored.Get(t.Context(), client.ObjectKeyFromObject(onNodes), &v1beta1.EdgeClaim{})
				if client.IgnoreNotFound(err) != nil || (err == nil) != tc.stays {
					t.Errorf("the claim stays: %v, want %v", err == nil, tc.stays)
				}
			})
		}
	}
}

// TestLooksAsked tells which claims are looked at when one has changed.
func TestLooksAsked(t *testing.T) {
	class, service := claim.ClassHolder("public"), claim.ServiceHolder("shop", "web")
	ip := netip.MustParseAddr("192.0.2.1")
	port, nodePort := claim.AddressPort(ip, "TCP", 80), claim.NodePort("TCP", 80)
	for name, tc := range map[string]struct {
		by   claim.Holder
		at   claim.Coordinate
		want claimRequest
	}{
		"a port of a class's address":   {class, port, claimRequest{Holder: class, At: port}},
		"a port of the nodes":           {class, nodePort, claimRequest{Holder: class, At: nodePort}},
		"the whole address":             {class, claim.Address(ip), claimRequest{Holder: class}},
		"a port of a Service's address": {service, port, claimRequest{Holder: service}},
		"a port of a class":             {accesstest.HolderOfPostgres, accesstest.PointOfPostgres, claimRequest{Holder: accesstest.HolderOfPostgres}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(watch.BackOff[claimRequest]())
			defer q.ShutDown()
			enqueueClaim(q, claim.New(tc.at, claim.Claimant{Holder: tc.by}))
			if got, _ := q.Get(); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestWantsOfWhatIsForeign(t *testing.T) {
	class, cm, svc := accesstest.Public()
	mapHolder, serviceHolder := claim.ConfigMapHolder(class.Spec.TCPConfigMap.Namespace, class.Spec.TCPConfigMap.Name), claim.ServiceHolder(class.Spec.Service.Namespace, class.Spec.Service.Name)
	http := claim.Stream("public", v1beta1.TCP, 80)
	for name, tc := range map[string]struct {
		c     *v1beta1.EdgeClaim
		class *v1beta1.StreamIngressClass
		wants bool
	}{
		"a key that stands":               {accesstest.Claimed(accesstest.PointOfPostgres, mapHolder, "", 0, time.Time{}), class, true},
		"a port that is open":             {accesstest.Claimed(http, serviceHolder, "", 0, time.Time{}), class, true},
		"a key that is gone":              {accesstest.Claimed(claim.Stream("public", v1beta1.TCP, 1), mapHolder, "", 0, time.Time{}), class, false},
		"a key that another has":          {accesstest.Claimed(accesstest.PointOfPostgres, serviceHolder, "", 0, time.Time{}), class, false},
		"a class that is gone":            {accesstest.Claimed(accesstest.PointOfPostgres, mapHolder, "", 0, time.Time{}), nil, false},
		"a claim of another scope stands": {&v1beta1.EdgeClaim{ObjectMeta: metav1.ObjectMeta{Name: "addr.192-0-2-1"}}, class, true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{cm.DeepCopy(), svc.DeepCopy()}
			if tc.class != nil {
				objects = append(objects, tc.class.DeepCopy())
			}
			r := newClaimReconciler(accesstest.Of(t, objects...), claimTestOptions())
			got, err := stateOf(t, r, tc.c)
			if err != nil || got.Wants != tc.wants {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestWantsOfAServiceThatIsAway asks for what the Service in front of the proxy of class public has of addresses and the nodes, while
// it does not exist.
func TestWantsOfAServiceThatIsAway(t *testing.T) {
	class, _, _ := accesstest.Public()
	elsewhere := class.DeepCopy()
	elsewhere.Spec.Service.Name = "another"
	holder := claim.ServiceHolder(class.Spec.Service.Namespace, class.Spec.Service.Name)
	ip := netip.MustParseAddr("192.0.2.1")
	for _, point := range []claim.Coordinate{claim.Address(ip), claim.AddressPort(ip, "TCP", 443), claim.NodePort("SCTP", 443)} {
		for name, tc := range map[string]struct {
			class *v1beta1.StreamIngressClass
			wants bool
		}{"its class names it": {class, true}, "its class names another one": {elsewhere, false}} {
			c := accesstest.Claimed(point, holder, "u", 1, accesstest.Noon)
			r := &claimReconciler{Access: accesstest.Of(t, tc.class.DeepCopy(), c)}
			if got, err := stateOf(t, r, c); err != nil || got != (claim.HolderState{Exists: tc.wants, Wants: tc.wants}) {
				t.Errorf("%s, %s: got %+v, %v", point, name, got, err)
			}
		}
	}
}

// TestWantsOfExternalIPs asks for the port TCP/80 of an address that a Service holds, which names it or another, while such addresses are
// guarded and while they are not.
func TestWantsOfExternalIPs(t *testing.T) {
	const address = "192.0.2.1"
	ip := netip.MustParseAddr(address)
	naming := func(kind corev1.ServiceType, addresses ...string) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7"}}
		svc.Spec.Type, svc.Spec.ExternalIPs = kind, addresses
		svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
		if kind == corev1.ServiceTypeLoadBalancer {
			svc.Spec.LoadBalancerClass = new(v1beta1.LoadBalancerClass)
		}
		return svc
	}
	listing := func(svc *corev1.Service) *corev1.Service {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		return svc
	}
	const plain, balancer = corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer
	eighty := claim.AddressPort(ip, "TCP", 80)
	for name, tc := range map[string]struct {
		svc *corev1.Service
		at  claim.Coordinate
		// given says that the Service was given the point as a load balancer.
		given               bool
		guarded, notGuarded bool
	}{
		"it names it":                                        {svc: naming(plain, address), at: eighty, guarded: true},
		"it names it in other words":                         {svc: naming(plain, "203.0.113.1", "::ffff:192.0.2.01"), at: eighty, guarded: true},
		"it names another":                                   {svc: naming(plain, "192.0.2.2"), at: eighty},
		"it names it, and another port is held":              {svc: naming(plain, address), at: claim.AddressPort(ip, "TCP", 81)},
		"it names it, and all of it is held":                 {svc: naming(plain, address), at: claim.Address(ip), given: true},
		"it was given it, and names it now":                  {svc: naming(plain, address), at: eighty, given: true, guarded: true},
		"it was given it, and is no load balancer":           {svc: naming(plain), at: eighty, given: true},
		"a load balancer names it":                           {svc: naming(balancer, address), at: eighty, guarded: true},
		"a load balancer named it":                           {svc: naming(balancer), at: eighty},
		"a load balancer named it, and its status lists it":  {svc: listing(naming(balancer)), at: eighty, guarded: true, notGuarded: true},
		"a load balancer was given it":                       {svc: listing(naming(balancer)), at: eighty, given: true, guarded: true, notGuarded: true},
		"a load balancer was given all of it, and names it":  {svc: listing(naming(balancer, address)), at: claim.Address(ip), given: true, guarded: true, notGuarded: true},
		"the status of one that is none lists it, by itself": {svc: listing(naming(plain)), at: eighty, guarded: true, notGuarded: true},
		"it is gone": {at: eighty},
	} {
		for on, want := range map[bool]bool{true: tc.guarded, false: tc.notGuarded} {
			t.Run(fmt.Sprintf("%s, guarded %v", name, on), func(t *testing.T) {
				c := accesstest.Claimed(tc.at, web, "u", 1, accesstest.Noon)
				c.Spec.ExternalIP = !tc.given
				objects := []client.Object{c}
				if tc.svc != nil {
					objects = append(objects, tc.svc.DeepCopy())
				}
				r := &claimReconciler{Access: accesstest.Of(t, objects...)}
				r.View.ExternalIPs.Guarded = on
				got, err := stateOf(t, r, c)
				if err != nil || got.Wants != want || got.Exists != (tc.svc != nil) {
					t.Errorf("got %+v, %v, want it wanted: %v", got, err, want)
				}
				if tc.svc != nil && (got.UID != "u" || got.Generation != 7) {
					t.Errorf("it is wanted by %+v", got)
				}
			})
		}
	}
}

// TestWantsOfWhatListensOnTheNodes asks for a port of the nodes that a class has, of which the proxy is there.
func TestWantsOfWhatListensOnTheNodes(t *testing.T) {
	class, cm, _ := accesstest.Public()
	class.Spec.Service = nil
	cm.Data = map[string]string{"9000": "shop/web:80"}
	elsewhere := class.DeepCopy()
	elsewhere.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"}
	streams := accesstest.Claimed(accesstest.PointOfPostgres, accesstest.HolderOfPostgres, "u", 1, accesstest.Noon)
	for name, tc := range map[string]struct {
		point   claim.Coordinate
		objects []client.Object
		want    claim.HolderState
	}{
		"somebody has it":                       {claim.NodePort("TCP", accesstest.PointOfPostgres.Port()), []client.Object{class, streams}, claim.HolderState{Exists: true, Wants: true}},
		"its ConfigMap lists it":                {claim.NodePort("TCP", 9000), []client.Object{class, cm}, claim.HolderState{Exists: true, Wants: true}},
		"its ConfigMap lists another":           {claim.NodePort("TCP", 9001), []client.Object{class, cm}, claim.HolderState{Exists: true}},
		"that of the other protocol":            {claim.NodePort("UDP", 9000), []client.Object{class, cm}, claim.HolderState{Exists: true}},
		"there is no ConfigMap":                 {claim.NodePort("TCP", 9000), []client.Object{class}, claim.HolderState{Exists: true}},
		"the proxy is elsewhere by now":         {claim.NodePort("TCP", 9000), []client.Object{elsewhere, cm}, claim.HolderState{Exists: true}},
		"the class is gone, and so is the port": {claim.NodePort("TCP", 9000), []client.Object{cm}, claim.HolderState{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := accesstest.Claimed(tc.point, claim.ClassHolder("public"), "", 0, time.Time{})
			objects := []client.Object{c}
			for _, obj := range tc.objects {
				objects = append(objects, obj.DeepCopyObject().(client.Object))
			}
			r := &claimReconciler{Access: accesstest.Of(t, objects...)}
			for _, reader := range []client.Reader{r.Live, r.View.Reader} {
				s, err := r.readHolder(t.Context(), reader, claim.HolderOf(c), []*v1beta1.EdgeClaim{c})
				if err != nil {
					t.Fatal(err)
				}
				if got, err := s.wants(t.Context(), c); err != nil || got.Exists != tc.want.Exists || got.Wants != tc.want.Wants {
					t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
				}
			}
		})
	}
}

// TestReconcileClaim looks at a claim that was promised to the first generation of a stream of UID u at noon.
func TestReconcileClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		si    *v1beta1.StreamIngress
		after time.Duration
		gone  types.UID
		again time.Duration
		stays bool
	}{
		"its stream is there":                         {si: accesstest.Life("u", 1), after: time.Hour, stays: true},
		"its stream is about to be stored":            {after: time.Second, again: settling, stays: true},
		"its stream is not stored yet":                {after: 30 * time.Second, again: 90 * time.Second, stays: true},
		"its stream was never stored":                 {after: claim.DefaultGrace},
		"its stream was deleted":                      {after: time.Second, gone: "u"},
		"an earlier stream of its name was deleted":   {after: 10 * time.Second, gone: "t", again: 110 * time.Second, stays: true},
		"its stream has moved":                        {si: accesstest.Life("u", 2, listen(1)), after: time.Second},
		"its stream is about to move here":            {si: accesstest.Life("u", 0, listen(1)), after: 10 * time.Second, again: 110 * time.Second, stays: true},
		"another stream of its name is there instead": {si: accesstest.Life("v", 1, listen(1)), after: 10 * time.Second, again: 110 * time.Second, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := accesstest.Claimed(accesstest.PointOfPostgres, accesstest.HolderOfPostgres, "u", 1, accesstest.Noon)
			objects := []client.Object{c}
			if tc.si != nil {
				objects = append(objects, tc.si)
			}
			r := newClaimReconciler(accesstest.Of(t, objects...), claimTestOptions())
			r.Ledger.Clock = clocktesting.NewFakePassiveClock(accesstest.Noon.Add(tc.after))
			got, err := r.Reconcile(t.Context(), claimRequest{Holder: accesstest.HolderOfPostgres, Gone: tc.gone})
			if want := (reconcile.Result{RequeueAfter: tc.again}); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
			if left, err := r.View.Claim(t.Context(), c.Name); err != nil || (left != nil) != tc.stays {
				t.Errorf("the claim stays: %v, %v", left != nil, err)
			}
		})
	}
}

// web is a Service that is not there and was stored before.
var web = claim.ServiceHolder("shop", "web")

// pathsOf are claims of a Service on the paths /0, /1 and so on.
func pathsOf(holder claim.Holder, n int) (claims []client.Object) {
	for i := range n {
		at := claim.HTTP(holder.Name+".example.com", fmt.Sprintf("/%d", i))
		claims = append(claims, accesstest.Claimed(at, holder, "u", 1, time.Time{}))
	}
	return claims
}

// TestReleasesSideBySide has an API server delete no claim before it is asked to delete as many as are to be released at a time.
func TestReleasesSideBySide(t *testing.T) {
	claims := pathsOf(web, 2*releasesAtOnce)
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		enough := make(chan struct{})
		r := newClaimReconciler(accesstest.With(t, accesstest.Cluster(t, claims...).WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if asked.Add(1) == releasesAtOnce {
					close(enough)
				}
				<-enough
				return c.Delete(ctx, obj, opts...)
			},
		}).Build()), claimTestOptions())
		if _, err := r.Reconcile(t.Context(), claimRequest{Holder: web}); err != nil {
			t.Error(err)
		}
		if left, err := r.View.Claims.Of(t.Context(), web); err != nil || len(left) > 0 {
			t.Errorf("%d claims are left, %v", len(left), err)
		}
	})
}

// TestReleasesOfAll releases the claims of many holders at once, while the API server takes its time.
func TestReleasesOfAll(t *testing.T) {
	var holders []claim.Holder
	var claims []client.Object
	for i := range releasers {
		holders = append(holders, claim.ServiceHolder("shop", fmt.Sprintf("web-%d", i)))
		claims = append(claims, pathsOf(holders[i], releasesAtOnce)...)
	}
	synctest.Test(t, func(t *testing.T) {
		var deleting atomic.Int32
		next := make(chan bool)
		r := newClaimReconciler(accesstest.With(t, accesstest.Cluster(t, claims...).WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				deleting.Add(1)
				<-next
				deleting.Add(-1)
				return c.Delete(ctx, obj, opts...)
			},
		}).Build()), claimTestOptions())
		for _, holder := range holders {
			go func() {
				if _, err := r.Reconcile(t.Context(), claimRequest{Holder: holder}); err != nil {
					t.Error(err)
				}
			}()
		}
		for left := len(claims); left > 0; left-- {
			synctest.Wait()
			if got, want := deleting.Load(), int32(min(left, releaseWrites)); got != want { //nolint:gosec // small
				t.Fatalf("of %d claims, %d are released at a time, want %d", left, got, want)
			}
			next <- true
		}
	})
}

// TestOnlyAddressesAreReleasedInTurn releases claims of a Service while another worker gives it its addresses.
func TestOnlyAddressesAreReleasedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClaimReconciler(accesstest.Of(t, append(pathsOf(web, 2), accesstest.Claimed(accesstest.AddressAt("192.0.2.1"), web, "u", 1, time.Time{}))...), claimTestOptions())
		unlock, err := r.services.Lock(t.Context(), web.Key())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := r.Reconcile(t.Context(), claimRequest{Holder: web})
			done <- err
		}()
		synctest.Wait()
		if left, err := r.View.Claims.Of(t.Context(), web); err != nil || len(left) != 1 || !coordinateOf(left[0]).IsAddress() {
			t.Errorf("%d claims are left, %v, want that on the address", len(left), err)
		}
		unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if left, err := r.View.Claims.Of(t.Context(), web); err != nil || len(left) > 0 {
			t.Errorf("%d claims are left, %v", len(left), err)
		}
	})
}

func TestGoneBy(t *testing.T) {
	if got := goneBy(event.UpdateEvent{ObjectOld: accesstest.Life("a", 1), ObjectNew: accesstest.Life("b", 1)}); got != "a" {
		t.Errorf("of a stream that was created anew: %q", got)
	}
	if got := goneBy(event.UpdateEvent{ObjectOld: &corev1.Service{}, ObjectNew: &corev1.Service{}}); got != "" {
		t.Errorf("of one that was changed: %q", got)
	}
}

// claimTestOptions are those of a reconciler that is alone.
func claimTestOptions() Options {
	return Options{Services: &kube.KeyMutex[types.NamespacedName]{}, Ports: &kube.KeyMutex[claim.Coordinate]{}}
}
