package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// storm is a life of many streams of a class without a proxy, whose address is shared port by port: each stream has a claim, the
// class has one on the port of its address, and there are a Service and EndpointSlices. Each namespace of streams has an upstream of
// its own.
type storm struct {
	*churn
	address string
	// pods are two in each namespace.
	pods [][2]*corev1.Pod
}

// newStorm makes the class, its pool and its namespace, all of one name, and the namespaces of streams with their upstreams.
func (w *fixture) newStorm(name, address string, namespaces int) *storm {
	w.t.Helper()
	class := kernelClass(name, name, autoAssign(30000, 30999))
	w.create(namespace(name), addressPool(name, []string{address}, onRequest, sharesPorts), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	s := &storm{churn: (&edge{fixture: w, class: class, namespace: name}).churning(name, namespaces), address: address}
	for i, ns := range s.namespaces {
		both := [2]*corev1.Pod{pod(ns + "/web-0"), pod(ns + "/web-1")}
		s.pods = append(s.pods, both)
		w.create(service(ns+"/web", port("http", 80), port("http-udp", 80, UDP)), both[0], both[1])
		for n, p := range both {
			w.runs(p, podIP(i, n))
		}
		w.create(s.slice(i, "x", s.endpoint(i, 0)))
	}
	return s
}

func podIP(namespace, n int) string { return fmt.Sprintf("10.9.%d.%d", namespace, n+1) }

func (s *storm) endpoint(namespace, n int) discoveryv1.Endpoint {
	return endpoint(podIP(namespace, n), s.pods[namespace][n])
}

// slice is an EndpointSlice of the upstream in a namespace. TCP and UDP lead to different ports of the Pods.
func (s *storm) slice(namespace int, name string, all ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	slice := sliceOf(s.namespaces[namespace]+"/web-"+name, "web", "http", 8080, all...)
	slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
		Name: new("http-udp"), Port: new(int32(8081)), Protocol: new(corev1.ProtocolUDP),
	})
	return slice
}

// stream is the i-th stream at its birth.
func (s *storm) stream(i int) *v1beta1.StreamIngress {
	born := s.churn.stream(i)
	if i%10 == 9 {
		auto(UDP)(born)
	}
	return born
}

// heir is a stream of the next namespace that asks for the port of the i-th one.
func (s *storm) heir(i int) *v1beta1.StreamIngress {
	born, heir := s.stream(i), sti(fmt.Sprintf("%s/heir-%d", s.namespaces[(i+1)%len(s.namespaces)], i), of(s.class.Name))
	heir.Spec.Protocol, heir.Spec.Listen = born.Spec.Protocol, born.Spec.Listen
	return heir
}

// each does something for 0..n, several at a time. When it has been done for half of them, middle runs beside, and may end the test.
func (s *storm) each(n int, do func(int), middle func()) {
	s.t.Helper()
	const workers = 16
	next, half, ended := make(chan int), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for i := range next {
					do(i)
				}
			})
		}
		for i := range n {
			next <- i
			if i == n/2 {
				close(half)
			}
		}
		close(next)
		group.Wait()
	}()
	<-half
	middle()
	<-ended
}

func (s *storm) born(i int) {
	s.exists(s.stream(i))
}

// exists creates a stream again and again until it is there. That its port is still another's may be right for a while.
func (s *storm) exists(stream *v1beta1.StreamIngress) {
	s.t.Helper()
	s.insist("creating "+stream.Name, func() error {
		err := s.Client.Create(s.t.Context(), stream.DeepCopy())
		switch {
		case apierrors.IsAlreadyExists(err): // an earlier try got through, and its answer was lost
			return nil
		case apierrors.IsInvalid(err) && strings.HasPrefix(stream.Name, "heir-"):
			return fmt.Errorf("%s", err) //nolint:errorlint // insist takes such a refusal for final
		default:
			return err
		}
	})
}

// changes has the i-th stream deleted, moved to another port, or left alone. The port of some that go is another's then.
func (s *storm) changes(i int) {
	stream := s.stream(i)
	switch i % 3 {
	case 0:
		s.insist("deleting "+stream.Name, func() error { return client.IgnoreNotFound(s.Client.Delete(s.t.Context(), stream)) })
		if stream.Spec.Listen != nil && i%4 == 0 {
			s.exists(s.heir(i))
		}
	case 1:
		s.insist("moving "+stream.Name, func() error { return s.Client.Patch(s.t.Context(), stream, moveTo(int32(20000+i))) })
	}
}

// TestForwardedStorm creates a thousand streams of a class without a proxy, and then deletes and moves most of them, while leaders die
// and leave, the API server crashes and upstreams change. Afterwards there is exactly what the streams want, and nothing is written
// any more, also not by a process that begins anew.
func TestForwardedStorm(t *testing.T) {
	t.Parallel()
	const streams = 1000
	o := raceOptions()
	o.ControlPlane.Audit = true
	h := start(t, o)
	w := newFixture(t, h)
	s := w.newStorm("storm", "198.18.64.0", 4)

	alive := s.createWhileALeaderDies(streams)
	s.isExact()
	t.Log("all streams are exact")

	alive = s.changeWhileALeaderLeaves(streams, alive)
	s.isExact()
	s.nobodyWasLiedTo()
	t.Log("all streams that are left are exact")
	s.isSilent(10 * time.Second)
	must(w, s.exactly())

	s.beginsAnew(alive)
	must(w, s.exactly())
}

// createWhileALeaderDies creates streams. Upstreams change while nobody leads. It returns the replicas that are left.
func (s *storm) createWhileALeaderDies(streams int) (alive []*harness.Replica) {
	s.t.Helper()
	began := time.Now()
	s.each(streams, s.born, func() {
		dead := leader(s.fixture, s.Replicas...)
		must(s.fixture, dead.Kill())
		s.t.Log("the leader is dead; an endpoint comes, and one of another upstream fails")
		edit(s.fixture, s.slice(0, "x"), func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = append(slice.Endpoints, s.endpoint(0, 1)) })
		edit(s.fixture, s.slice(1, "x"), func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Conditions.Ready = new(false) })
		_, err := s.StartReplica(s.t.Context())
		must(s.fixture, err)
		alive = others(s.Replicas, dead)
	})
	s.t.Logf("created after %v", time.Since(began).Round(time.Millisecond))
	return alive
}

// changeWhileALeaderLeaves deletes and moves streams, while upstreams change and the API server crashes, too. It returns the replicas
// that are left.
func (s *storm) changeWhileALeaderLeaves(streams int, alive []*harness.Replica) []*harness.Replica {
	s.t.Helper()
	began := time.Now()
	s.each(streams, s.changes, func() {
		leaves := leader(s.fixture, alive...)
		must(s.fixture, leaves.Retire(s.t.Context()))
		another, err := s.StartReplica(s.t.Context())
		must(s.fixture, err)
		alive = append(others(alive, leaves), another)
		s.t.Log("the leader has left; an upstream splits, another merges, a third has a Pod less, and the API server crashes")
		s.create(s.slice(0, "y", s.endpoint(0, 0)))
		edit(s.fixture, s.slice(0, "x"), func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = slice.Endpoints[1:] })
		must(s.fixture, s.CrashAPIServer(s.t.Context()))
		alive = s.replaced(alive...)
		edit(s.fixture, s.slice(2, "x"), func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = append(slice.Endpoints, s.endpoint(2, 1)) })
		s.kill(s.pods[2][0])
		s.create(s.slice(3, "y", s.endpoint(3, 0), s.endpoint(3, 1)))
		s.delete(s.slice(3, "x"))
	})
	s.t.Logf("changed after %v", time.Since(began).Round(time.Millisecond))
	return s.replaced(alive...)
}

// beginsAnew has a process begin that finds everything as it should be: it writes nothing, not even what is there already.
func (s *storm) beginsAnew(instead []*harness.Replica) {
	s.t.Helper()
	before, err := s.state()
	must(s.fixture, err)
	for _, r := range instead {
		must(s.fixture, r.Kill())
	}
	fresh, err := s.StartReplica(s.t.Context())
	must(s.fixture, err)
	leader(s.fixture, fresh)
	s.isSilent(10 * time.Second)
	after, err := s.state()
	must(s.fixture, err)
	if after != before {
		s.tellWrites(before)
	}
}

// tellWrites fails the test for what was written since a state.
func (s *storm) tellWrites(since string) {
	s.t.Helper()
	known := 0
	_, err := fmt.Sscan(since, &known)
	must(s.fixture, err)
	count := map[string]int{}
	for _, write := range s.writes()[known:] {
		count[write.Verb+" "+write.Resource]++
	}
	s.t.Errorf("something was written, or has another version: %v", count)
}
