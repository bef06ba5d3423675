package streams

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// theirs has ports of the nodes.
var theirs = claim.ServiceHolder("tenant", "theirs")

func onNodes(port int32) claim.Coordinate { return claim.NodePort("TCP", port) }

// nodesOf is a class reconciler in a cluster whose nodes a pool shares. It has objects, and claims on points.
func nodesOf(t *testing.T, claims map[claim.Coordinate]claim.Holder, objects ...client.Object) *classReconciler {
	t.Helper()
	for at, by := range claims {
		objects = append(objects, claim.New(at, claim.Claimant{Holder: by}))
	}
	c := accesstest.Cluster(t, objects...).Build()
	b, informers := baseOn(t, c, c)
	pools, err := informers.FakeInformerFor(t.Context(), &v1beta1.AddressPool{})
	if err != nil {
		t.Fatal(err)
	}
	pool := accesstest.PoolOf("nodes")
	pool.Spec.Source = v1beta1.SourceNodeIP
	r := &classReconciler{base: b, pacer: newPacer(b.Ledger.Clock), services: newServiceReconciler(b, newClassReports())}
	pools.Add(pool)
	return r
}

// TestClaimNodes has a proxy on the nodes, and Services that have some of its ports there.
func TestClaimNodes(t *testing.T) {
	port := func(port int32) claim.Coordinate { return claim.Stream("public", v1beta1.TCP, port) }
	entry := func(service string) stream.Entry { return stream.Entry{Namespace: "shop", Service: service, Port: "1"} }
	class, cm, _ := accesstest.Public()
	class.Spec.Service = nil
	cm.Data = map[string]string{"1001": entry("db").String(), "1002": entry("db").String(), "1003": entry("db").String(), "9000": "by/hand:1", "9001": "by/hand:1"}
	claims := map[claim.Coordinate]claim.Holder{
		onNodes(1001): theirs, onNodes(1002): theirs, onNodes(1005): theirs, onNodes(1006): theirs, onNodes(9001): theirs,
		onNodes(1007): claim.ClassHolder("other"),
	}
	for _, n := range []int32{1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008} {
		claims[port(n)] = accesstest.HolderOfPostgres
	}
	for _, n := range []int32{9000, 9001} {
		claims[port(n)] = claim.ConfigMapHolder(cm.Namespace, cm.Name)
	}
	claims[claim.Stream("public", v1beta1.UDP, 53)] = accesstest.HolderOfPostgres
	r := nodesOf(t, claims, class, cm)
	s, err := r.gather(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	// 1006 and 1008 are claimed for streams that may not be programmed now.
	wanted := map[int32]stream.Entry{1001: entry("db"), 1002: entry("moved"), 1003: entry("moved"), 1004: entry("db"), 1005: entry("db"), 1007: entry("db")}
	var report classReport
	if err := r.claimNodes(t.Context(), s, s.configMaps[0], wanted, &report); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int32]stream.Entry{1001: entry("db"), 1002: entry("moved"), 1003: entry("moved"), 1004: entry("db"), 1007: entry("db")}, wanted); diff != "" {
		t.Errorf("what is opened: %s", diff)
	}
	told := map[int32]bool{}
	for _, refused := range report.refused {
		told[refused.Port] = true
		if refused.Reason != v1beta1.ReasonPortRefused || !strings.HasPrefix(refused.Message, "held by Service tenant/theirs") {
			t.Errorf("%d is told: %s: %s", refused.Port, refused.Reason, refused.Message)
		}
	}
	if diff := cmp.Diff([]int32{1001, 1002, 1005, 9001}, slices.Sorted(maps.Keys(told))); diff != "" || len(report.refused) != len(told) {
		t.Errorf("what is told: %s", diff)
	}
	held, err := r.View.Claims.Held(t.Context(), claim.ClassHolder("public"))
	if diff := cmp.Diff([]claim.Coordinate{onNodes(1003), onNodes(1004), onNodes(1008), onNodes(9000)}, held,
		cmp.Comparer(func(a, b claim.Coordinate) bool { return a == b })); err != nil || diff != "" {
		t.Error("what is claimed:", err, diff)
	}
}

// TestPoolsAreKnownWhenClassesAreLookedAt has the first pool come: who is asked to look sees it.
func TestPoolsAreKnownWhenClassesAreLookedAt(t *testing.T) {
	b, informers := baseOn(t, accesstest.Cluster(t).Build(), accesstest.Cluster(t).Build())
	pools, err := informers.FakeInformerFor(t.Context(), &v1beta1.AddressPool{})
	if err != nil {
		t.Fatal(err)
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	known := make(chan bool, 8)
	if err := watch.OnPools(b.View, func(context.Context) []reconcile.Request {
		known <- b.View.LoadBalancers.GivesNodes()
		return []reconcile.Request{watch.ForName("public")}
	}).Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	pool := accesstest.PoolOf("nodes")
	pool.Spec.Source = v1beta1.SourceNodeIP
	pools.Add(pool)
	for is := false; !is; { // the first look is the one at the start
		select {
		case is = <-known:
		case <-time.After(time.Minute):
			t.Fatal("nobody is asked to look with the pool known")
		}
	}
	if class, _ := q.Get(); class != watch.ForName("public") {
		t.Errorf("%v is looked at", class)
	}
}

// TestWhoIsToldOfClaims changes claims on a port of the nodes, and on one of a class.
func TestWhoIsToldOfClaims(t *testing.T) {
	class := func(name string, onNodes bool) *v1beta1.StreamIngressClass {
		c, _, _ := accesstest.Public()
		if c.Name = name; onNodes {
			c.Spec.Service = nil
		}
		return c
	}
	r := nodesOf(t, map[claim.Coordinate]claim.Holder{
		claim.Stream("one", v1beta1.TCP, 5432): accesstest.HolderOfPostgres, claim.Stream("two", v1beta1.TCP, 5432): accesstest.HolderOfPostgres,
		claim.Stream("behind", v1beta1.TCP, 5432): accesstest.HolderOfPostgres, claim.Stream("udp", v1beta1.UDP, 5432): accesstest.HolderOfPostgres,
	}, class("one", true), class("two", true), class("behind", false), class("udp", true), class("idle", true))
	by := func(at claim.Coordinate, holder claim.Holder) *v1beta1.EdgeClaim {
		return claim.New(at, claim.Claimant{Holder: holder})
	}
	node, ours := onNodes(5432), claim.ClassHolder("one")
	for name, tc := range map[string]struct {
		before, after *v1beta1.EdgeClaim
		want          []string
	}{
		"a port of the nodes is claimed":      {nil, by(node, ours), nil},
		"it is renewed":                       {by(node, ours), by(node, ours), nil},
		"it becomes another class's":          {by(node, ours), by(node, claim.ClassHolder("two")), []string{"one", "two"}},
		"a Service gives it up":               {by(node, theirs), nil, []string{"one", "two"}},
		"the class loses it":                  {by(node, ours), nil, []string{"one", "two"}},
		"nobody has it on a proxy":            {by(onNodes(5433), ours), nil, nil},
		"a port of SCTP":                      {by(claim.NodePort("SCTP", 5432), theirs), nil, nil},
		"a port of a class is claimed":        {nil, by(claim.Stream("behind", v1beta1.TCP, 1), accesstest.HolderOfPostgres), []string{"behind"}},
		"a port of a class is given up":       {by(claim.Stream("idle", v1beta1.TCP, 1), accesstest.HolderOfPostgres), nil, []string{"idle"}},
		"a port of a class becomes another's": {by(claim.Stream("one", v1beta1.TCP, 1), accesstest.HolderOfPostgres), by(claim.Stream("one", v1beta1.TCP, 1), theirs), []string{"one"}},
	} {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		h := r.onClaim()
		switch {
		case tc.before == nil:
			h.Create(t.Context(), event.CreateEvent{Object: tc.after}, q)
		case tc.after == nil:
			h.Delete(t.Context(), event.DeleteEvent{Object: tc.before}, q)
		default:
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
		}
		var got []string
		for q.Len() > 0 {
			req, _ := q.Get()
			got = append(got, req.Name)
			q.Done(req)
		}
		q.ShutDown()
		slices.Sort(got)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
