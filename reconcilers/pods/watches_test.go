package pods

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/podtoip"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// asked says how many names a handler asks to look at.
func asked(t *testing.T, handle func(q watch.Queue)) int {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	handle(q)
	return q.Len()
}

func TestPodEventsAskForALook(t *testing.T) {
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{v1beta1.LabelPodToIP: v1beta1.PodToIPEnabled}}}
	r := &reconciler{mode: podtoip.Labeled, view: accesstest.With(t, accesstest.Cluster(t, shop).Build()).View}
	pod, bare, ended, readied := podOnNode(), podOnNode(), podOnNode(), podOnNode()
	bare.Status.PodIPs = nil
	ended.DeletionTimestamp = &metav1.Time{}
	elsewhere := podOnNode()
	elsewhere.Namespace = "blog"
	readied.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	created := func(pod *corev1.Pod, initially bool) func(watch.Queue) {
		return func(q watch.Queue) {
			r.onPod().Create(t.Context(), event.CreateEvent{Object: pod, IsInInitialList: initially}, q)
		}
	}
	updated := func(before, after *corev1.Pod) func(watch.Queue) {
		return func(q watch.Queue) {
			r.onPod().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	for name, c := range map[string]struct {
		handle func(watch.Queue)
		want   int
	}{
		"a Pod with an IP at the start": {created(pod, true), 1},
		"a new Pod with an IP":          {created(pod, false), 1},
		"a new Pod":                     {created(bare, false), 0},
		"one in a namespace without":    {created(elsewhere, false), 0},
		"a terminating Pod":             {created(ended, true), 0},
		"its IP":                        {updated(bare, pod), 1},
		"its readiness":                 {updated(pod, readied), 0},
		"its end":                       {updated(pod, ended), 1},
		"it is gone": {func(q watch.Queue) {
			r.onPod().Delete(t.Context(), event.DeleteEvent{Object: ended}, q)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := asked(t, c.handle); got != c.want {
				t.Errorf("it asks for %d looks, want %d", got, c.want)
			}
		})
	}
}

func TestPodToIPEventsAskForALook(t *testing.T) {
	p := &v1beta1.PodToIP{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
	before := testutil.ToFloat64(podToIPs)
	for _, c := range []struct {
		what   string
		handle func(watch.Queue)
		count  float64
	}{
		{"created", func(q watch.Queue) {
			onPodToIP().Create(t.Context(), event.CreateEvent{Object: p, IsInInitialList: true}, q)
		}, 1},
		{"changed", func(q watch.Queue) { onPodToIP().Update(t.Context(), event.UpdateEvent{ObjectOld: p, ObjectNew: p}, q) }, 1},
		{"deleted", func(q watch.Queue) { onPodToIP().Delete(t.Context(), event.DeleteEvent{Object: p}, q) }, 0},
	} {
		if got := asked(t, c.handle); got != 1 {
			t.Errorf("%s: it asks for %d looks, want 1", c.what, got)
		}
		if got := testutil.ToFloat64(podToIPs) - before; got != c.count {
			t.Errorf("%s: %v more PodToIPs are counted, want %v", c.what, got, c.count)
		}
	}
}
