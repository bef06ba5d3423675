package reconcilers

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

func judged(name, class string, conditions ...metav1.Condition) *v1beta1.StreamIngress {
	si := postgres(servedBy(class, 1))
	si.Name, si.UID = name, ""
	for _, c := range conditions {
		meta.SetStatusCondition(&si.Status.Conditions, c)
	}
	return si
}

func TestObjectsAreCounted(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	accepted := condition("Accepted", yes, "Accepted", "")
	c := clusterOf(t,
		judged("new", ""),
		judged("refused", "public", condition("Accepted", no, "PortConflict", ""), condition("Programmed", no, "NotAccepted", "")),
		judged("pending", "public", accepted, condition("Programmed", no, "Pending", "")),
		judged("open1", "public", accepted, condition("Programmed", yes, "Programmed", "")),
		judged("open2", "public", accepted, condition("Programmed", yes, "Programmed", "")),
		judged("elsewhere", "internal", accepted, condition("Programmed", yes, "Programmed", "")),
		claimed(at, me, "u", 1, noon), claimed(claim.Stream("public", v1beta1.UDP, 1), me, "u", 1, noon),
		claimed(claim.Stream("internal", v1beta1.TCP, 1), me, "u", 1, noon),
		claimed(claim.AddressPort(netip.MustParseAddr("192.0.2.1"), "TCP", 1), me, "u", 1, noon),
		claimed(claim.Address(netip.MustParseAddr("192.0.2.2")), me, "u", 1, noon),
	).Build()
	want := `
# HELP portcullis_claims EdgeClaims by scope.
# TYPE portcullis_claims gauge
portcullis_claims{scope="addr"} 2
portcullis_claims{scope="stream/internal"} 1
portcullis_claims{scope="stream/public"} 2
# HELP portcullis_ingresses Services that ask for an Ingress by class and state (served, refused). Counted by the replica that leads.
# TYPE portcullis_ingresses gauge
portcullis_ingresses{class="nginx",state="served"} 1
# HELP portcullis_loadbalancers Services of type LoadBalancer by state (served, pending, refused, foreign). Counted by the replica that leads.
# TYPE portcullis_loadbalancers gauge
portcullis_loadbalancers{state="pending"} 1
# HELP portcullis_streams StreamIngresses by class and state (programmed, accepted, refused, pending).
# TYPE portcullis_streams gauge
portcullis_streams{class="",state="pending"} 1
portcullis_streams{class="internal",state="programmed"} 1
portcullis_streams{class="public",state="accepted"} 1
portcullis_streams{class="public",state="programmed"} 2
portcullis_streams{class="public",state="refused"} 1
`
	told := report.NewBulletin()
	told.Note(&corev1.Service{}, "nginx", report.StateServed)
	balanced := report.NewBulletin()
	balanced.Note(&corev1.Service{}, "", statePending)
	counts := objectCounts{cache: cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, told: told, balanced: balanced}
	if err := testutil.CollectAndCompare(counts, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
