package loadbalancers

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

func TestLoadBalancersAreCounted(t *testing.T) {
	reported := report.NewReportedState()
	reported.RecordState(&corev1.Service{}, "", statePending)
	want := `
# HELP portcullis_loadbalancers Services of type LoadBalancer by state (served, pending, refused, foreign). Counted by the replica that leads.
# TYPE portcullis_loadbalancers gauge
portcullis_loadbalancers{state="pending"} 1
`
	if err := testutil.CollectAndCompare(serviceCounts{reported}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
