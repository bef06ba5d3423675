package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What is admitted is not stored yet: a quota is judged after all webhooks, and whether a name exists even later.

// without has a quota allow a namespace no object of a kind, and waits until it is in force.
func (w *fixture) without(namespace, resources string, refused func() error) {
	w.t.Helper()
	quota := &corev1.ResourceQuota{}
	quota.Namespace, quota.Name = namespace, "none"
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceName(resources): resource.MustParse("0")}
	w.create(quota)
	w.eventually("the quota to be in force", func() error {
		if err := refused(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("not refused by a quota: %w", err)
		}
		return nil
	})
}

// claimsOf counts the claims of all objects of a namespace.
func (w *fixture) claimsOf(namespace string) (n int) {
	w.t.Helper()
	var list v1beta1.EdgeClaimList
	must(w, w.Client.List(w.t.Context(), &list))
	for _, c := range list.Items {
		if c.Spec.Holder.Namespace == namespace {
			n++
		}
	}
	return n
}

// TestRequestsThatAreNeverStored has a tenant without quota ask for more ports than there are: each is admitted, and none is
// stored.
func TestRequestsThatAreNeverStored(t *testing.T) {
	t.Parallel()
	const replicas, ports, requests = 2, 250, 300
	w := newFixture(t, start(t, harness.Options{Replicas: replicas, ControlPlane: controlplane.Options{Controllers: true}}))
	must(w, w.StartControllers(t.Context()))
	w.newEdge("flooded", hostNetwork, autoAssign(20000, 20000+ports-1))
	w.create(namespace("flood"), namespace("calm"))
	w.without("flood", "count/streamingresses.nginx-stream.jeffthecoder.xyz", func() error {
		probe := sti("flood/first", of("flooded"), tcp(1000))
		defer w.delete(probe) // before it is in force, it is stored
		return w.try(probe)
	})
	// A client that is told to try again does so for some seconds: it is given up then.
	var creators sync.WaitGroup
	next := make(chan int)
	for range 32 {
		creators.Go(func() {
			for i := range next {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				if err := w.Client.Create(ctx, sti(fmt.Sprintf("flood/s-%d", i), of("flooded"), auto(TCP))); err == nil {
					t.Errorf("stream %d is stored", i)
				}
				cancel()
			}
		})
	}
	for i := range requests {
		next <- i
	}
	close(next)
	creators.Wait()
	held := w.claimsOf("flood")
	t.Logf("%d requests hold %d of %d ports", requests, held, ports)
	if most := replicas * claim.MostUnsettled; held > most {
		t.Errorf("they hold %d points, more than %d", held, most)
	}
	if least := claim.MostUnsettled / 2; held < least {
		t.Errorf("they hold %d points only: this was no flood", held)
	}

	t.Log("beyond, they are told to try again, and when")
	once := w.withoutRetries()
	w.eventually("either replica to have promised as much as it may", func() error {
		err := once(sti("flood/more", of("flooded"), auto(TCP)))
		if seconds, again := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !again || seconds != 1 {
			return fmt.Errorf("want a 429 that says when to try again, got %w", err)
		}
		return saysAll(err.Error(), `objects of namespace "flood" that are not stored yet were promised 100 ports, addresses or hosts`)
	})

	t.Log("another namespace does not notice")
	calm := sti("calm/s", of("flooded"), auto(TCP))
	w.create(calm)
	w.programmed(calm)
}

// TestABurstIsNotToldToWait creates more streams of one namespace than it may have unsettled at a time, side by side: as they are
// stored, none of them is told to try again. On a machine that does other things, replicas may be late to see that, and there are
// several bursts to show it.
func TestABurstIsNotToldToWait(t *testing.T) {
	w := shared(t)
	const streams, users, bursts = 400, 80, 5
	w.newEdge("honest", hostNetwork)
	w.create(namespace("honest"))
	w.eventually("the class to be known", func() error {
		return w.Client.Create(t.Context(), sti("honest/probe", of("honest"), tcp(1)), client.DryRunAll)
	})
	once := w.withoutRetries()
	for burst := range bursts {
		var told atomic.Int64
		var all sync.WaitGroup
		for first := range users {
			all.Go(func() {
				for i := first; i < streams; i += users {
					err := once(sti(fmt.Sprintf("honest/s-%d-%d", burst, i), of("honest"), tcp(int32(1000*(1+burst)+i))))
					switch {
					case apierrors.IsTooManyRequests(err):
						told.Add(1)
					case err != nil:
						t.Errorf("stream %d: %v", i, err)
					}
				}
			})
		}
		all.Wait()
		if told.Load() == 0 {
			w.eventually("all to be held", func() error { return is(w.claimsOf("honest") >= streams, true) })
			return
		}
		t.Logf("%d of %d were told to wait", told.Load(), streams)
	}
	t.Errorf("in each of %d bursts, some were told to wait", bursts)
}

// withoutRetries creates streams, and returns the first answer: other clients try again by themselves when they are told to.
func (w *fixture) withoutRetries() func(s *v1beta1.StreamIngress) error {
	w.t.Helper()
	config := w.Config()
	config.WarningHandlerWithContext = rest.NoWarnings{}
	httpClient, err := rest.HTTPClientFor(config)
	must(w, err)
	kind := v1beta1.GroupVersion.WithKind("StreamIngress")
	c, err := apiutil.RESTClientForGVK(kind, false, false, config, serializer.NewCodecFactory(harness.Scheme()), httpClient)
	must(w, err)
	return func(s *v1beta1.StreamIngress) error {
		return c.Post().Namespace(s.Namespace).Resource("streamingresses").Body(s).MaxRetries(0).Do(w.t.Context()).Error()
	}
}

// TestNamesThatExist creates objects of names that are taken: nothing is claimed for them.
func TestNamesThatExist(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.newEdge("exist", hostNetwork)
	w.create(namespace("exist-a"))
	w.unguarded(addressPool("exist", []string{"198.51.100.64/32"}, sharesPorts, forAll, onRequest))
	stream, lb := sti("exist-a/s", of("exist"), tcp(1000)), balancer("exist-a/lb", inPool("exist"), ports(port("http", 80)))
	w.create(stream, lb)
	w.programmed(stream)
	w.balances(lb, "198.51.100.64 VIP TCP/80")

	// Each attempt asks for another port, as a replica that does not know of the object yet claims it.
	attempt := int32(2000)
	refuses := func(what string, again func() (client.Object, string)) {
		w.eventually(what+" to be known", func() error {
			attempt++
			object, point := again()
			if err := w.try(object); !apierrors.IsAlreadyExists(err) {
				t.Fatalf("want AlreadyExists, got %v", err)
			}
			return is(w.pointHolder(point), "")
		})
	}
	refuses("the stream", func() (client.Object, string) {
		return sti("exist-a/s", of("exist"), tcp(attempt)), claim.Stream("exist", TCP, attempt).Name()
	})
	refuses("the Service", func() (client.Object, string) {
		return balancer("exist-a/lb", inPool("exist"), ports(port("http", attempt))), fmt.Sprintf("addr.198-51-100-64.tcp.%d", attempt)
	})
}
