package streams

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// applied is a ConfigMap that Portcullis has last written to at a time.
func applied(at time.Time) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	cm.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: at.Add(-time.Hour)}},
		{Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: at}},
	}
	return cm
}

// TestLeftovers follows an object of a former installation, and one of this installation.
func TestLeftovers(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(accesstest.Noon)
	l := newLeftovers(clock, 2*time.Minute)
	installed := accesstest.Noon.Add(-time.Hour)
	expect := func(obj *corev1.ConfigMap, since time.Time, want time.Duration) {
		t.Helper()
		if got := l.keep(obj, since); got != want {
			t.Errorf("it is kept for %v, want %v", got, want)
		}
	}
	expect(applied(installed), installed, 0)
	expect(applied(installed.Add(time.Second)), installed, 0)
	expect(&corev1.ConfigMap{}, installed, 0)
	expect(applied(installed.Add(-time.Second)), installed, 2*time.Minute)
	clock.SetTime(accesstest.Noon.Add(time.Minute))
	expect(applied(accesstest.Noon), installed, time.Minute) // written to meanwhile
	clock.SetTime(accesstest.Noon.Add(2 * time.Minute))
	expect(applied(accesstest.Noon), installed, 0)
	clock.SetTime(accesstest.Noon.Add(time.Hour))
	expect(applied(installed.Add(-time.Second)), installed, 0) // and nothing to write until now
	again := accesstest.Noon.Add(time.Hour)
	expect(applied(accesstest.Noon), again, 2*time.Minute) // installed once more, under this process
	clock.SetTime(again.Add(time.Minute))
	expect(applied(accesstest.Noon), again, time.Minute)
}

// TestClassReportAgain looks again at the earliest of what there is to wait for.
func TestClassReportAgain(t *testing.T) {
	r := classReport{}
	expect := func(want time.Duration) {
		t.Helper()
		if got := r.again(); got != want {
			t.Errorf("again after %v, want %v", got, want)
		}
	}
	expect(0)
	r.retry(0)
	expect(0)
	r.retry(2 * time.Minute)
	expect(2 * time.Minute)
	r.configMapError = errors.New("refused")
	expect(watch.RefusedRetry)
	r.retry(time.Second)
	expect(time.Second)
}
