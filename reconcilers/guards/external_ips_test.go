package guards

import (
	"net/netip"
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
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// onPort80 is the Service shop/<name> with the port TCP/80.
func onPort80(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u", CreationTimestamp: metav1.NewTime(accesstest.Noon)},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}},
	}
}

// naming is one that names an address.
func naming(ip string) *corev1.Service {
	svc := onPort80("naming")
	svc.Spec.ExternalIPs = []string{ip}
	return svc
}

// servedAt is one of type LoadBalancer that is served at an address.
func servedAt(ip string) *corev1.Service {
	svc := onPort80("served")
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	svc.Status.LoadBalancer.Ingress = loadbalancer.Served([]netip.Addr{netip.MustParseAddr(ip)}, corev1.LoadBalancerIPModeVIP,
		[]loadbalancer.Port{{Protocol: corev1.ProtocolTCP, Number: 80}})
	return svc
}

// looks is a queue that notes what is to be looked at.
type looks struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	at []string
}

func (l *looks) AddAfter(req reconcile.Request, _ time.Duration) { l.at = append(l.at, req.Name) }

// externalIPs is a reconciler of addresses that Services name, in a cluster with some objects.
func externalIPs(t *testing.T, objects ...client.Object) *externalIPReconciler {
	t.Helper()
	c := accesstest.Cluster(t, objects...)
	if err := kube.AddLoadBalancerIndexes(t.Context(), accesstest.Indexer{ClientBuilder: c}, kube.LoadBalancerOptions{}); err != nil {
		t.Fatal(err)
	}
	return &externalIPReconciler{Access: accesstest.With(t, c.Build()), losers: newLosers(guard.ExternalIPs)}
}

// TestNamedIsLookedAtAgain has a Service name an address at which another is served without a claim: no claim that goes tells when it may
// have its port there.
func TestNamedIsLookedAtAgain(t *testing.T) {
	const ip = "192.0.2.7"
	theirs := accesstest.Claimed(accesstest.AddressAt(ip), claim.ServiceHolder("shop", "served"), "u", 1, time.Time{})
	for name, tc := range map[string]struct {
		beside []client.Object
		again  time.Duration
		ledger int
	}{
		"another is served there":                 {beside: []client.Object{servedAt(ip)}, again: watch.RefusedRetry},
		"another is served there, and has it":     {beside: []client.Object{servedAt(ip), theirs}, ledger: 1},
		"another is elsewhere, and it has it now": {beside: []client.Object{servedAt("192.0.2.8")}, ledger: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := externalIPs(t, append(tc.beside, naming(ip))...)
			result, err := r.Reconcile(t.Context(), watch.ForName(ip))
			if err != nil || result.RequeueAfter != tc.again {
				t.Errorf("it is looked at again after %s, want %s: %v", result.RequeueAfter, tc.again, err)
			}
			var claims v1beta1.EdgeClaimList
			if err := r.Live.List(t.Context(), &claims); err != nil || len(claims.Items) != tc.ledger {
				t.Errorf("the ledger has %d claims, want %d: %v", len(claims.Items), tc.ledger, err)
			}
		})
	}
}

// TestWhereServedIsLookedAt has a Service be served no longer as it was, at an address that another names or does not.
func TestWhereServedIsLookedAt(t *testing.T) {
	const named, other = "192.0.2.7", "192.0.2.8"
	others, onPort443, labeled := servedAt(named), servedAt(named), servedAt(named)
	others.Spec.LoadBalancerClass = new("example.com/other")
	onPort443.Spec.Ports[0].Port = 443
	labeled.Labels = map[string]string{"tier": "edge"}
	for name, tc := range map[string]struct {
		before, now *corev1.Service
		want        int
	}{
		"it is gone":             {before: servedAt(named), want: 1},
		"it is elsewhere":        {before: servedAt(named), now: servedAt(other), want: 1},
		"it has another port":    {before: servedAt(named), now: onPort443, want: 1},
		"it has another's class": {before: servedAt(named), now: others, want: 1},
		"it has a label":         {before: servedAt(named), now: labeled},
		"it was another's":       {before: others},
		"nobody names that":      {before: servedAt(other)},
	} {
		t.Run(name, func(t *testing.T) {
			r, q := externalIPs(t, naming(named)), &looks{}
			if tc.now == nil {
				r.onService().Delete(t.Context(), event.DeleteEvent{Object: tc.before}, q)
			} else {
				r.onService().Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.now}, q)
			}
			if len(q.at) != tc.want || tc.want > 0 && q.at[0] != named {
				t.Errorf("looked at are %q, want %d", q.at, tc.want)
			}
		})
	}
}
