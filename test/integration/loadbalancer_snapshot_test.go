package integration

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestAddressesOutliveASnapshot has 200 Services served from three pools, and two more on the nodes, and saves etcd when it has no claims.
// The cluster lives on: many Services go, and others are served in their place. Then etcd is set back to what was saved. When replicas run
// again, each of the 200 stays where it is, is in the ledger, and nothing is left of the others.
func TestAddressesOutliveASnapshot(t *testing.T) {
	t.Parallel()
	l := serving(t, fromPools{whole: 164, shared: 50, nodes: 2, going: 14})
	all := slices.Concat(l.services["whole"], l.services["shared"], l.services["nodes"], l.services["going"])
	l.lose()
	l.holdsNothing()
	snapshot := filepath.Join(t.TempDir(), "snapshot.db")
	must(l.fixture, l.SaveSnapshot(t.Context(), snapshot))

	l.restart(2)
	for _, svc := range all {
		l.entered(svc)
	}
	l.liveOn()
	l.end()
	must(l.fixture, l.RestoreSnapshot(t.Context(), snapshot))
	l.holdsNothing()
	l.restart(2)

	t.Logf("%d Services are to stay where they are, and to be in the ledger", len(all))
	for _, svc := range all {
		l.entered(svc)
	}
	fresh := balancer("ledger/fresh", from("whole"))
	l.admitted(fresh)
	l.eventually("a new one to be served elsewhere", func() error {
		l.get(fresh)
		return is(len(fresh.Status.LoadBalancer.Ingress), 1)
	})
	if at := slices.IndexFunc(l.services["whole"], func(svc *corev1.Service) bool { return addressOf(svc) == addressOf(fresh) }); at >= 0 {
		t.Errorf("a new one is served at %s, where %s is", addressOf(fresh), l.services["whole"][at].Name)
	}
	for _, svc := range all {
		l.untouched(svc)
	}
}

// holdsNothing fails the test if there is a claim.
func (l *ledgerless) holdsNothing() {
	l.t.Helper()
	var claims v1beta1.EdgeClaimList
	must(l.fixture, l.Client.List(l.t.Context(), &claims))
	if len(claims.Items) > 0 {
		l.t.Fatalf("there are %d claims, the first is %s", len(claims.Items), claims.Items[0].Name)
	}
}

// liveOn deletes every third Service that has an address for itself, and has another one served there.
func (l *ledgerless) liveOn() {
	l.t.Helper()
	for i, svc := range l.services["whole"] {
		if i%3 != 0 {
			continue
		}
		l.delete(svc.DeepCopy())
		l.pointHeldBy(claim.Address(netip.MustParseAddr(addressOf(svc))).Name(), "")
		in := balancer(fmt.Sprintf("ledger/in-place-%d", i), from("whole"), wants(addressOf(svc)))
		l.admitted(in)
		l.balances(in, addressOf(svc)+" VIP TCP/80")
	}
}
