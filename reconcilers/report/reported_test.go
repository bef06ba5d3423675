package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestEachChangeIsReportedOnce(t *testing.T) {
	r := NewReportedState()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	if !r.Differs(svc, TopicIngress, "wrong") {
		t.Error("the first does not differ from nothing")
	}
	if before := r.Record(svc, TopicIngress, "wrong"); before != "" {
		t.Errorf("%q was recorded before", before)
	}
	if r.Differs(svc, TopicIngress, "wrong") || !r.Differs(svc, TopicIngress, "other") || !r.Differs(svc, TopicCertificate, "wrong") {
		t.Error("what differs is mistaken")
	}
	r.RecordState(svc, "nginx", StateRefused)
	if diff := cmp.Diff(map[[2]string]int{{"nginx", StateRefused}: 1}, r.Count()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := svc.DeepCopy()
	again.UID = "2"
	if !r.Differs(again, TopicIngress, "wrong") {
		t.Error("a Service of another life has what an earlier one had")
	}
	r.Forget(types.NamespacedName{Namespace: "shop", Name: "web"})
	if len(r.Count()) > 0 {
		t.Errorf("%v is left", r.Count())
	}
}
