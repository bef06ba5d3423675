package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestBulletinTellsEachChangeOnce(t *testing.T) {
	b := NewBulletin()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	if !b.IsNews(svc, TopicIngress, "wrong") {
		t.Error("the first is no news")
	}
	if before := b.Tell(svc, TopicIngress, "wrong"); before != "" {
		t.Errorf("%q was told before", before)
	}
	if b.IsNews(svc, TopicIngress, "wrong") || !b.IsNews(svc, TopicIngress, "other") || !b.IsNews(svc, TopicCertificate, "wrong") {
		t.Error("news are mistaken")
	}
	b.Note(svc, "nginx", StateRefused)
	if diff := cmp.Diff(map[[2]string]int{{"nginx", StateRefused}: 1}, b.Count()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := svc.DeepCopy()
	again.UID = "2"
	if !b.IsNews(again, TopicIngress, "wrong") {
		t.Error("a Service of another life was told already")
	}
	b.Forget(types.NamespacedName{Namespace: "shop", Name: "web"})
	if len(b.Count()) > 0 {
		t.Errorf("%v is left", b.Count())
	}
}
