package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestAnAddressIsPromisedWholeOrByItsPorts lets replicas that judge by different pools claim at once: some take an address
// for one that is given whole, others for one whose ports are given.
func TestAnAddressIsPromisedWholeOrByItsPorts(t *testing.T) {
	const rounds = 60
	w := shared(t)
	ledger := kube.NewLedger(w.Client, w.Client, nil, claim.Ledger{Grace: claim.DefaultGrace}) // a replica that has seen nothing yet
	var whole, ports, neither int
	for round := range rounds {
		ip := netip.AddrFrom4([4]byte{198, 18, 0, byte(round)})
		points := []claim.Coordinate{claim.Address(ip), claim.Address(ip)}
		for port := range int32(4) {
			points = append(points, claim.AddressPort(ip, "TCP", 80+port))
		}
		var group sync.WaitGroup
		begin := make(chan struct{})
		told := make([]error, len(points))
		for i, at := range points {
			by := claim.Claimant{Holder: claim.ServiceHolder("forms", fmt.Sprintf("s%d-%d", round, i)), UID: types.UID(fmt.Sprintf("u%d-%d", round, i))}
			group.Go(func() {
				<-begin
				told[i] = ledger.Reserve(t.Context(), by, nil, at)
			})
		}
		close(begin)
		group.Wait()
		yes := sets.New[string]()
		wholly, partly := 0, 0
		for i, err := range told {
			var held *claim.HeldError
			switch {
			case err == nil && i < 2:
				wholly++
			case err == nil:
				partly++
			case !errors.As(err, &held):
				t.Fatal(err)
			}
			if err == nil {
				yes.Insert(points[i].Name())
			}
		}
		if wholly > 1 || wholly > 0 && partly > 0 {
			t.Errorf("%s: %d were told yes to all of it, %d to a port", ip, wholly, partly)
		}
		stored := sets.New[string]()
		for _, at := range points {
			c := &v1beta1.EdgeClaim{}
			err := w.Client.Get(t.Context(), types.NamespacedName{Name: at.Name()}, c)
			if err == nil {
				stored.Insert(c.Name)
				must(w, w.Client.Delete(t.Context(), c))
			} else {
				must(w, client.IgnoreNotFound(err))
			}
		}
		if !stored.Equal(yes) {
			t.Errorf("%s: told yes were %v, and claimed are %v", ip, sets.List(yes), sets.List(stored))
		}
		switch {
		case wholly > 0:
			whole++
		case partly > 0:
			ports++
		default:
			neither++
		}
	}
	t.Logf("of %d addresses, %d went whole, %d by their ports, and %d to nobody, as all of them met", rounds, whole, ports, neither)
	if neither == rounds {
		t.Error("nobody was ever told yes")
	}
}

// raceOfMovers has Services ask for one address after another, faster than any status is written, and forget who has written
// theirs: at any moment, many are about to move to what another one is about to leave.
func raceOfMovers(l *poolFixture) {
	const movers, addresses, enough = 6, 9, 30
	l.lendable(lending("moving", "192.0.2.101-192.0.2.109"))
	users := l.creators("mover", movers)
	for i, c := range users {
		l.admitted(borrower(c.namespace+"/moves", wants(fmt.Sprintf("192.0.2.%d", 101+i))))
	}
	ctx, stop := context.WithCancel(l.t.Context())
	defer stop()
	var group sync.WaitGroup
	for _, c := range users {
		svc := borrower(c.namespace + "/moves")
		group.Go(func() {
			for round := 0; harness.Pause(ctx, 5*time.Millisecond) == nil; round++ {
				// What another one has is refused.
				_ = c.Patch(ctx, svc.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
					`{"metadata":{"annotations":{%q:"192.0.2.%d"}}}`, v1beta1.AnnotationAddresses, 101+rand.IntN(addresses))))
				if round%5 == 0 {
					_ = l.disown(svc, "")
				}
			}
		})
	}
	l.eventually("addresses to change hands often", func() error {
		had, times := map[netip.Addr]types.NamespacedName{}, 0
		for _, e := range l.history.sorted() {
			if svc, ok := e.stored.(*corev1.Service); ok && svc.Name == "moves" {
				for _, ip := range listedAddresses(svc) {
					if key := client.ObjectKeyFromObject(svc); had[ip] != key {
						had[ip], times = key, times+1
					}
				}
			}
		}
		if times < enough {
			return fmt.Errorf("they did %d times", times)
		}
		return nil
	})
	stop()
	group.Wait()
	l.lends(movers)
}
