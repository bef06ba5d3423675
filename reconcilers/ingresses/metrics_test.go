package ingresses

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

func TestServicesThatAskForIngressesAreCounted(t *testing.T) {
	reported := report.NewReportedState()
	reported.RecordState(&corev1.Service{}, "nginx", report.StateServed)
	want := `
# HELP portcullis_ingresses Services that ask for an Ingress by class and state (served, refused). Counted by the replica that leads.
# TYPE portcullis_ingresses gauge
portcullis_ingresses{class="nginx",state="served"} 1
`
	if err := testutil.CollectAndCompare(ingressCounts{reported}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
