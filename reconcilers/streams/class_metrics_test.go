package streams

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

func judged(name, class string, conditions ...metav1.Condition) *v1beta1.StreamIngress {
	si := accesstest.Postgres(accesstest.ServedBy(class, 1))
	si.Name, si.UID = name, ""
	for _, c := range conditions {
		meta.SetStatusCondition(&si.Status.Conditions, c)
	}
	return si
}

func TestStreamsAreCounted(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	accepted := accesstest.Condition("Accepted", yes, "Accepted", "")
	c := accesstest.Cluster(t,
		judged("new", ""),
		judged("refused", "public", accesstest.Condition("Accepted", no, "PortConflict", ""), accesstest.Condition("Programmed", no, "NotAccepted", "")),
		judged("pending", "public", accepted, accesstest.Condition("Programmed", no, "Pending", "")),
		judged("open1", "public", accepted, accesstest.Condition("Programmed", yes, "Programmed", "")),
		judged("open2", "public", accepted, accesstest.Condition("Programmed", yes, "Programmed", "")),
		judged("elsewhere", "internal", accepted, accesstest.Condition("Programmed", yes, "Programmed", "")),
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
