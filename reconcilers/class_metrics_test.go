package reconcilers

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func judged(name, class string, conditions ...metav1.Condition) *v1beta1.StreamIngress {
	si := postgres(servedBy(class, 1))
	si.Name, si.UID = name, ""
	for _, c := range conditions {
		meta.SetStatusCondition(&si.Status.Conditions, c)
	}
	return si
}

func TestStreamsAreCounted(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	accepted := condition("Accepted", yes, "Accepted", "")
	c := clusterOf(t,
		judged("new", ""),
		judged("refused", "public", condition("Accepted", no, "PortConflict", ""), condition("Programmed", no, "NotAccepted", "")),
		judged("pending", "public", accepted, condition("Programmed", no, "Pending", "")),
		judged("open1", "public", accepted, condition("Programmed", yes, "Programmed", "")),
		judged("open2", "public", accepted, condition("Programmed", yes, "Programmed", "")),
		judged("elsewhere", "internal", accepted, condition("Programmed", yes, "Programmed", "")),
	).Build()
	want := `
# HELP portcullis_streams StreamIngresses by class and state (programmed, accepted, refused, pending).
# TYPE portcullis_streams gauge
portcullis_streams{class="",state="pending"} 1
portcullis_streams{class="internal",state="programmed"} 1
portcullis_streams{class="public",state="accepted"} 1
portcullis_streams{class="public",state="programmed"} 2
portcullis_streams{class="public",state="refused"} 1
`
	if err := testutil.CollectAndCompare(streamCounts{c}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
