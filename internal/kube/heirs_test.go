package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// givingTo is a Service that hands over what it has.
func givingTo(name, heir string) *corev1.Service {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name, svc.UID = "shop", name, types.UID(name)
	if heir != "" {
		svc.Annotations = map[string]string{v1beta1.AnnotationHandOverTo: heir}
	}
	return svc
}

// TestHandsOver asks whether a Service hands over what it has, by a cache that lags behind. For admission, a no is looked at past it;
// whether the ledger gives the point goes by what is stored alone.
func TestHandsOver(t *testing.T) {
	from, to := claim.ServiceHolder("shop", "old"), claim.ServiceHolder("data", "new")
	for name, tc := range map[string]struct {
		cached, stored           *corev1.Service
		byCache, admission, live bool
	}{
		"it does":                          {givingTo("old", "data/new"), givingTo("old", "data/new"), true, true, true},
		"the cache does not know yet":      {givingTo("old", ""), givingTo("old", "data/new"), false, true, true},
		"the cache does not know it":       {nil, givingTo("old", "data/new"), false, true, true},
		"no longer, and the cache lags":    {givingTo("old", "data/new"), givingTo("old", ""), true, true, false},
		"to another, and the cache lags":   {givingTo("old", "data/new"), givingTo("old", "data/newer"), true, true, false},
		"to another":                       {givingTo("old", "data/newer"), givingTo("old", "data/newer"), false, false, false},
		"to nobody that can be made sense": {givingTo("old", "new"), givingTo("old", "new"), false, false, false},
		"it is gone":                       {nil, nil, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := func(svc *corev1.Service) client.Client {
				if svc == nil {
					return clientOf(t).Build()
				}
				return clientOf(t, svc.DeepCopy()).Build()
			}
			live := store(tc.stored)
			view := &View{objects: &objects{Reader: store(tc.cached), live: live, tenants: live}, Ingresses: &Ingresses{}}
			view.Claims = &Claims{objects: view.objects}
			for is, reader := range map[bool]Reader{tc.byCache: view, tc.admission: LiveReader{view}} {
				f := &Facts{ctx: t.Context(), from: reader}
				if got := f.HandsOver(from, to); f.err != nil || got != is {
					t.Errorf("%T: %v, %v", reader, got, f.err)
				}
			}
			given := claim.New(claim.Address(netip.MustParseAddr("192.0.2.7")), claim.Claimant{Holder: claim.ServiceHolder("shop", "old")})
			to := claim.ServiceHolder("data", "new")
			if got, err := view.HandsOver(t.Context(), given, claim.Claimant{Holder: to}, false); err != nil || got != tc.live {
				t.Errorf("live: %v, %v", got, err)
			}
			if got, _ := view.HandsOver(t.Context(), given, claim.Claimant{Holder: claim.StreamHolder("data", "new")}, false); got {
				t.Error("it hands over to another kind")
			}
		})
	}
}

// TestKeepsWhatItNamesByNow has a Service, which hands over an address, come to name that in spec.externalIPs, or be named by a class,
// before any cache shows it.
func TestKeepsWhatItNamesByNow(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.7")
	external := givingTo("old", "data/new")
	external.Spec.ExternalIPs = []string{ip.String()}
	class := func(name string) *v1beta1.StreamIngressClass {
		c := &v1beta1.StreamIngressClass{}
		c.Name, c.Spec.Service = "public", &v1beta1.ObjectReference{Namespace: "shop", Name: name}
		return c
	}
	for name, tc := range map[string]struct {
		stored   []client.Object
		promised bool
		want     bool
	}{
		"it keeps nothing":                    {[]client.Object{givingTo("old", "data/new"), class("proxy")}, false, true},
		"it names the address":                {[]client.Object{external}, false, false},
		"a class names it":                    {[]client.Object{givingTo("old", "data/new"), class("old")}, false, false},
		"it is gone, and promised it":         {nil, true, true},
		"it is gone, and promised nothing":    {nil, false, false},
		"it is gone, and a class names it":    {[]client.Object{class("old")}, true, false},
		"it promised it, and took that back":  {[]client.Object{givingTo("old", "")}, true, false},
		"it promised it, and names it by now": {[]client.Object{external}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := clientOf(t, tc.stored...).Build()
			view := &View{objects: &objects{Reader: clientOf(t, givingTo("old", "data/new")).Build(), live: live, tenants: live}, Ingresses: &Ingresses{}}
			view.Claims = &Claims{objects: view.objects}
			for _, at := range []claim.Coordinate{claim.Address(ip), claim.AddressPort(ip, "TCP", 80)} {
				given := claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", "old")})
				if got, err := view.HandsOver(t.Context(), given, claim.Claimant{Holder: claim.ServiceHolder("data", "new")}, tc.promised); err != nil || got != tc.want {
					t.Errorf("%s: %v, %v", at, got, err)
				}
			}
		})
	}
}

// TestHandsOverAsksOfAFew has each port of a request be another Service's: admission looks past the cache at a few of them.
func TestHandsOverAsksOfAFew(t *testing.T) {
	asked := 0
	live := clientOf(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			asked++
			return c.Get(ctx, key, obj, o...)
		},
	}).Build()
	o := &objects{Reader: clientOf(t).Build(), live: live, tenants: live}
	f := &Facts{ctx: t.Context(), from: LiveReader{&View{objects: o, Claims: &Claims{objects: o}}}}
	for range 2 {
		for i := range 100 {
			f.HandsOver(claim.ServiceHolder("shop", fmt.Sprint("s", i)), claim.ServiceHolder("data", "new"))
		}
	}
	if asked != mostAnswers || f.err != nil {
		t.Errorf("it has asked %d times, %v", asked, f.err)
	}
}

// TestNobodyHandsOverBesideOlderReplicas has a replica run that knows of no heirs.
func TestNobodyHandsOverBesideOlderReplicas(t *testing.T) {
	from, to := claim.ServiceHolder("shop", "old"), claim.ServiceHolder("data", "new")
	for name, runs := range map[string]bool{"alone": false, "beside one": true} {
		t.Run(name, func(t *testing.T) {
			stored := clientOf(t, givingTo("old", "data/new")).Build()
			now := time.Unix(1000, 0)
			view := &View{objects: &objects{Reader: stored, live: stored, tenants: stored}, Ingresses: &Ingresses{
				withoutHeirs: &replicas{
					are: withoutHeirs, live: stored, namespace: "portcullis-system", clock: clocktesting.NewFakePassiveClock(now), looked: now, found: runs,
				},
			}}
			view.Claims = &Claims{objects: view.objects}
			if view.Ingresses.HeirsKnown(t.Context()) == runs {
				t.Errorf("heirs are known: %v", !runs)
			}
			for _, reader := range []Reader{view, LiveReader{view}} {
				f := &Facts{ctx: t.Context(), from: reader}
				if got := f.HandsOver(from, to); f.err != nil || got == runs {
					t.Errorf("%T: %v, %v", reader, got, f.err)
				}
			}
			for _, promised := range []bool{false, true} {
				if got, err := view.HandsOver(t.Context(), pathOf(from), claim.Claimant{Holder: to}, promised); err != nil || got == runs {
					t.Errorf("live: %v, %v", got, err)
				}
				gone := claim.ServiceHolder("shop", "gone")
				if got, err := view.HandsOver(t.Context(), pathOf(gone), claim.Claimant{Holder: to}, promised); err != nil || got != (promised && !runs) {
					t.Errorf("who is gone, and promised: %v, %v, %v", promised, got, err)
				}
			}
		})
	}
}

// TestNobodyIsRefusedForWantOfTime has a cluster not say in time which replicas run, or not at all: an heir is then told to try again, and
// not that the point is held; nor is anybody let pass, as a guard would for another error.
func TestNobodyIsRefusedForWantOfTime(t *testing.T) {
	from, to := claim.ServiceHolder("shop", "old"), claim.ServiceHolder("data", "new")
	for name, list := range map[string]func(context.Context) error{
		"not in time": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"not at all":  func(context.Context) error { return errors.New("away") },
	} {
		t.Run(name, func(t *testing.T) {
			stored := clientOf(t, givingTo("old", "data/new")).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
					return list(ctx)
				},
			}).Build()
			view := &View{objects: &objects{Reader: stored, live: stored, tenants: stored}, Ingresses: &Ingresses{
				withoutHeirs: &replicas{are: withoutHeirs, live: stored, namespace: "portcullis-system", clock: clock.RealClock{}},
			}}
			view.Claims = &Claims{objects: view.objects}
			briefly := func() context.Context {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				t.Cleanup(cancel)
				return ctx
			}
			for asks, isHeir := range map[claim.Holder]bool{to: true, claim.ServiceHolder("data", "rival"): false} {
				if got, err := view.HandsOver(briefly(), pathOf(from), claim.Claimant{Holder: asks}, false); got || apierrors.IsTooManyRequests(err) != isHeir {
					t.Errorf("%s is told %v, %v", asks, got, err)
				}
				f := &Facts{ctx: briefly(), from: LiveReader{view}}
				if got := f.HandsOver(from, asks); got || apierrors.IsTooManyRequests(f.err) != isHeir {
					t.Errorf("admission of %s is told %v, %v", asks, got, f.err)
				}
			}
			view.Ingresses.replicas = &replicas{are: classless, live: stored, namespace: "portcullis-system", clock: clock.RealClock{}}
			if _, known, err := view.Ingresses.ClassFor(briefly(), from); known || !apierrors.IsTooManyRequests(err) {
				t.Errorf("the class of a path is known: %v, %v", known, err)
			}
		})
	}
}

// TestWhoKnowsOfHeirs has Pods of all versions: those of before know of no heirs, or of those of streams alone.
func TestWhoKnowsOfHeirs(t *testing.T) {
	for version, knows := range map[string]bool{"": false, "2": false, "3": false, "4": false, "5": true} {
		pod := labels.Set{"app.kubernetes.io/name": "portcullis", "app.kubernetes.io/component": "manager"}
		if version != "" {
			pod[v1beta1.LabelLedger] = version
		}
		if withoutHeirs.Matches(pod) == knows {
			t.Errorf("version %q: knows of heirs: %v", version, !knows)
		}
	}
}

// pathOf is a path that somebody has.
func pathOf(by claim.Holder) *v1beta1.EdgeClaim {
	return claim.New(claim.HTTP("shop.example.com", "/").ServedBy("nginx"), claim.Claimant{Holder: by})
}
