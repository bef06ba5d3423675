package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// churn is a life of many streams: all are created, some then move, lead elsewhere or are deleted.
type churn struct {
	*edge
	namespaces []string
	// through counts the changes that got through.
	through atomic.Int64
}

func (e *edge) churning(prefix string, namespaces int) *churn {
	c := &churn{edge: e}
	for i := range namespaces {
		c.namespaces = append(c.namespaces, fmt.Sprintf("%s-%d", prefix, i))
		e.create(namespace(c.namespaces[i]))
	}
	return c
}

// stream is the i-th stream at its birth.
func (c *churn) stream(i int) *v1beta1.StreamIngress {
	port := int32(10000 + i)
	s := sti(fmt.Sprintf("%s/churn-%d", c.namespaces[i%len(c.namespaces)], i), of(c.class.Name), tcp(port))
	switch i % 10 {
	case 3:
		udp(port)(s)
	case 6:
		auto(TCP)(s)
	}
	return s
}

// live lets streams from..to live, several at a time, each change again and again until the API server takes it.
func (c *churn) live(from, to, workers int) {
	c.t.Helper()
	next := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				c.liveOne(i)
			}
		})
	}
	for i := from; i < to; i++ {
		next <- i
	}
	close(next)
	group.Wait()
}

func (c *churn) liveOne(i int) {
	s := c.stream(i)
	c.insist(fmt.Sprintf("creating %s", s.Name), func() error {
		err := c.Client.Create(c.t.Context(), c.stream(i))
		if apierrors.IsAlreadyExists(err) {
			return nil // an earlier try got through, and its answer was lost
		}
		return err
	})
	switch i % 5 {
	case 0:
		c.insist(fmt.Sprintf("moving %s", s.Name), func() error { return c.Client.Patch(c.t.Context(), s, moveTo(int32(20000+i))) })
	case 1:
		c.insist(fmt.Sprintf("redirecting %s", s.Name), func() error {
			return c.Client.Patch(c.t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"upstream":{"port":81}}}`)))
		})
	case 2:
		c.insist(fmt.Sprintf("deleting %s", s.Name), func() error { return client.IgnoreNotFound(c.Client.Delete(c.t.Context(), s)) })
	}
}

// insist tries until it works. Nobody else wants the ports, so that a refusal is never right.
func (c *churn) insist(what string, try func() error) {
	c.t.Helper()
	var err error
	next := pace(100 * time.Millisecond)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		began := time.Now()
		if err = try(); err == nil {
			c.through.Add(1)
			return
		}
		if apierrors.IsInvalid(err) {
			break
		}
		next.wait(began)
	}
	c.t.Errorf("%s: %v", what, err)
}

// killing kills the one replica with SIGKILL at random moments, and starts another, until the function it returns is
// called. That one returns how often it did, and leaves a replica running. Each lives until some more changes got through: where it takes
// a machine longer to begin, and to answer, than a moment lasts, little else would happen than that one begins.
func killing(w *fixture, through *atomic.Int64) (stop func() int) {
	const some = 40
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan int)
	go func() {
		kills := 0
		defer func() { ended <- kills }()
		for {
			for reached := through.Load() + rand.N[int64](2*some); through.Load() < reached; {
				if harness.Pause(ctx, 20*time.Millisecond) != nil {
					return
				}
			}
			if harness.Pause(ctx, rand.N(time.Second)) != nil {
				return
			}
			if err := restart(w, rand.N(time.Second)); err != nil {
				w.t.Errorf("starting another replica: %v", err)
				return
			}
			kills++
		}
	}()
	return func() int { cancel(); return <-ended }
}

// restart kills the last replica, and starts another after a pause.
func restart(w *fixture, pause time.Duration) error {
	if err := w.Replicas[len(w.Replicas)-1].Kill(); err != nil {
		return err
	}
	time.Sleep(pause)
	_, err := w.StartReplica(w.t.Context())
	return err
}

// TestKilledAtRandomMoments kills the manager while a thousand streams are created, changed and deleted.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	const streams = 1000
	o := raceOptions()
	o.Replicas, o.Flags = 1, append(o.Flags, "--leader-elect=false") // a lease would only make the test wait
	h := start(t, o)
	w, history := newFixture(t, h), streamHistory(t, h)
	e := w.newEdge("killed", autoAssign(30000, 30999))
	const foreign = "9000=default/manual:80"
	edit(w, configMap(e.namespace+"/tcp-services", nil), func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"9000": "default/manual:80"} })
	e.heldBy("killed", TCP, 9000, "ConfigMap "+e.namespace+"/tcp-services")
	c := e.churning("killed", 4)

	stop := killing(w, &c.through)
	c.live(0, streams, 16)
	kills := stop()
	t.Logf("%d streams lived through %d kills", streams, kills)
	if kills < 3 {
		t.Errorf("the manager was killed %d times only", kills)
	}
	e.isExact(foreign)
	e.nobodyWasLiedTo()

	// While nobody is there: streams go, and somebody writes where Portcullis does.
	must(w, h.Replicas[len(h.Replicas)-1].Kill())
	for i := 3; i < 300; i += 5 {
		w.delete(c.stream(i))
	}
	edit(w, configMap(e.namespace+"/tcp-services", nil), func(cm *corev1.ConfigMap) {
		delete(cm.Data, "10009")
		cm.Data["10014"] = "default/wrong:1"
	})
	_, err := h.StartReplica(t.Context())
	must(w, err)
	e.isExact(foreign)
	history.mustHold(w)
}
