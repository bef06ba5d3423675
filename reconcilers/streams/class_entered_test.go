package streams

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestEntered says which ports ConfigMaps have, and asks for each class: also for those that were set before anybody listens.
func TestEntered(t *testing.T) {
	class, _, _ := accesstest.Public()
	class.UID, class.Generation = "u", 2
	ports := map[stream.PortKey]bool{tcpPorts(80)[0]: true}
	e := newEntered()
	if _, known := e.of(class); known {
		t.Error("it knows a class of which nothing was said")
	}
	e.set(class, ports)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	if err := e.Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	expect := func(what string, known bool) {
		t.Helper()
		if q.Len() != 1 {
			t.Fatalf("%s: %d requests", what, q.Len())
		}
		req, _ := q.Get()
		q.Done(req)
		if req.Name != "public" {
			t.Errorf("%s: it asks for %s", what, req)
		}
		got, ok := e.of(class)
		if ok != known || known && !cmp.Equal(got, ports) {
			t.Errorf("%s: got %v, %v", what, got, ok)
		}
	}
	expect("set before the start", true)
	e.set(class, ports)
	expect("set again", true)

	for name, other := range map[string]struct {
		uid        string
		generation int64
	}{"a class that was changed": {"u", 3}, "a class that was made anew": {"v", 2}} {
		later := class.DeepCopy()
		later.UID, later.Generation = "u", other.generation
		if other.uid != "u" {
			later.UID = "v"
		}
		if _, known := e.of(later); known {
			t.Errorf("it knows %s", name)
		}
	}
	e.drop("public")
	expect("dropped", false)
}
