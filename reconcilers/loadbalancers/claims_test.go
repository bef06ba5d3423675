package loadbalancers

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// unserved is the Service shop/web, which has nothing yet.
func unserved() *corev1.Service {
	svc := balancerAt("192.0.2.1")
	svc.ManagedFields, svc.Status = nil, corev1.ServiceStatus{}
	return svc
}

// TestRefusedForATime has a Service ask for an address that is kept for another, which may never be stored.
func TestRefusedForATime(t *testing.T) {
	now := time.Unix(1000, 0)
	promised := claim.New(accesstest.AddressAt("192.0.2.7"), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	promised.Spec.Renewed = new(metav1.NewMicroTime(now))
	svc := unserved()
	svc.Annotations = map[string]string{v1beta1.AnnotationAddresses: "192.0.2.7"}
	r := balancers(t, []client.Object{svc.DeepCopy(), promised.DeepCopy()}, []client.Object{svc.DeepCopy(), promised.DeepCopy()})
	r.Ledger.Clock = clocktesting.NewFakePassiveClock(now.Add(30 * time.Second))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}); err != nil {
		t.Fatal(err)
	}
	if told := <-r.Events.(*events.FakeRecorder).Events; !strings.Contains(told, "it is free again in at most 1m30s, try again then") {
		t.Error(told)
	}
}

// dualStack is the Service shop/web, which has nothing yet, and is to have an address of each family.
func dualStack(policy corev1.IPFamilyPolicy) *corev1.Service {
	svc := unserved()
	svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, &policy
	return svc
}

// stumbling is a Store that fails to create one claim once.
type stumbling struct {
	claim.Store
	at string
}

func (s *stumbling) Create(ctx context.Context, c *v1beta1.EdgeClaim) error {
	if c.Name == s.at {
		s.at = ""
		return errors.New("the API server is away")
	}
	return s.Store.Create(ctx, c)
}

// TestDrawnInVainIsFree has a Service draw the last IPv6 address, and not get the IPv4 address that it needs with it.
func TestDrawnInVainIsFree(t *testing.T) {
	const last = "2001:db8::1"
	theirs := claim.New(accesstest.AddressAt("192.0.2.0"), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	for name, tc := range map[string]struct {
		stored []client.Object
		fails  string
		want   string
	}{
		"the API server is away": {nil, theirs.Name, "192.0.2.0, " + last},
		"it was taken meanwhile": {[]client.Object{theirs}, "", "192.0.2.1, " + last},
	} {
		t.Run(name, func(t *testing.T) {
			svc := dualStack(corev1.IPFamilyPolicyRequireDualStack)
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}
			r := balancers(t, append(tc.stored, svc.DeepCopy()), []client.Object{svc.DeepCopy(), accesstest.PoolOf("six", last)})
			r.Ledger.Store = &stumbling{r.Ledger.Store, tc.fails}
			if _, err := r.Reconcile(t.Context(), request); (err != nil) != (tc.fails != "") {
				t.Fatal(err)
			}
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			mustBeServedAt(t, r, svc, tc.want)
			select {
			case told := <-r.Events.(*events.FakeRecorder).Events:
				t.Errorf("it is told %q", told)
			default:
			}
		})
	}
}

// TestConflictsAreOfWhatIsAskedFor counts what is asked for and held by somebody else, before the cache shows it. An address
// that was drawn at the same time by two is no conflict.
func TestConflictsAreOfWhatIsAskedFor(t *testing.T) {
	counter := kube.Conflicts.WithLabelValues(kube.FromReconciler)
	theirs := claim.New(accesstest.AddressAt("192.0.2.0"), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	for asks, want := range map[string]float64{"": 0, "192.0.2.0": 1} {
		svc := unserved()
		if asks != "" {
			svc.Annotations = map[string]string{v1beta1.AnnotationAddresses: asks}
		}
		r := balancers(t, []client.Object{svc.DeepCopy(), theirs.DeepCopy()}, []client.Object{svc.DeepCopy()})
		before := testutil.ToFloat64(counter)
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}); err != nil {
			t.Fatal(err)
		}
		if got := testutil.ToFloat64(counter) - before; got != want {
			t.Errorf("asking for %q counts %v conflicts, want %v", asks, got, want)
		}
	}
}

// TestNothingIsListedBesideAnother has a Service hold an address of which another one has a port, as whoever claimed the
// one had ended before it saw the other. The cache does not show that yet.
func TestNothingIsListedBesideAnother(t *testing.T) {
	svc := unserved()
	ours := claim.New(accesstest.AddressAt("192.0.2.0"), claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID})
	theirs := claim.New(claim.AddressPort(netip.MustParseAddr("192.0.2.0"), "TCP", 443), claim.Claimant{Holder: claim.ServiceHolder("shop", "other"), UID: "o"})
	r := balancers(t, []client.Object{svc.DeepCopy(), ours.DeepCopy(), theirs}, []client.Object{svc.DeepCopy(), ours.DeepCopy()})
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)})
	if err != nil || result.RequeueAfter != watch.CacheLag {
		t.Errorf("it is looked at again after %s, %v", result.RequeueAfter, err)
	}
	mustBeServedAt(t, r, svc, "")
	if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(ours), ours); !apierrors.IsNotFound(err) {
		t.Errorf("its claim: %v", err)
	}
}
