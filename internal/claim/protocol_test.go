package claim

import (
	"context"
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// histories is how many histories are played for each protocol; a broken one has to be found out within them. For more
// of them: go test ./internal/claim -args -histories=10000000
var histories = flag.Uint64("histories", 40_000, "histories to play for each protocol")

// variant is the protocol, or a broken one.
type variant struct {
	// breaks changes the ledger of a replica.
	breaks func(*Ledger)
	// looksFirst has a release read the holder before it reads the claim.
	looksFirst bool
	// deletedPass: nobody judges what an object that is being deleted asks for. deletedGo: it counts as gone.
	deletedPass, deletedGo bool
	// statusForgotten: a release does not look at what the status of the holder lists. statusAny: a status is written whatever
	// the object is by now. trustsStatus: what it listed before is released without a look at whether the write has failed.
	statusForgotten, statusAny, trustsStatus bool
	// hostsAtOnce: the claim that says of a port that host names share it is released as soon as nobody has one, without a grace.
	hostsAtOnce bool
	// twiceOnly looks for two objects that were told yes, and lets lost claims pass.
	twiceOnly bool
}

// explore plays histories, and tells the first one that goes wrong.
func explore(v variant) (wrong string, trace []string) {
	var seed, found atomic.Uint64
	found.Store(*histories)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for n := seed.Add(1); n < found.Load(); n = seed.Add(1) {
				if newWorld(v, n).run() == "" {
					continue
				}
				for old := found.Load(); n < old && !found.CompareAndSwap(old, n); {
					old = found.Load()
				}
			}
		})
	}
	workers.Wait()
	if found.Load() == *histories {
		return "", nil
	}
	w := newWorld(v, found.Load())
	w.verbose = true
	return w.run(), w.trace
}

func TestNoHistoryBreaksTheProtocol(t *testing.T) {
	if wrong, trace := explore(variant{}); wrong != "" {
		t.Errorf("%s\n%s", wrong, strings.Join(trace, "\n"))
	}
}

func TestEveryPartOfTheProtocolIsNeeded(t *testing.T) {
	const (
		twice = "were told yes"
		lost  = "has lost its claim"
		leaks = "orphaned"
	)
	for name, tc := range map[string]struct {
		variant
		finds string
	}{
		"without a grace, a claim goes while its stream is being stored": {
			variant{breaks: func(l *Ledger) { l.Grace = 0 }}, twice},
		"with a grace as long as a request lives, clocks that differ cut it short": {
			variant{breaks: func(l *Ledger) { l.Grace = requestLife }}, twice},
		"with a grace that never ends, nothing is ever free again": {
			variant{breaks: func(l *Ledger) { l.Grace = 1000 * time.Hour }}, leaks},
		"deleting whatever version there is takes a claim that was renewed": {
			variant{breaks: func(l *Ledger) { l.Store = broken{Store: l.Store, deletesAny: true} }}, twice},
		"renewing whatever version there is takes a claim from its new holder": {
			variant{breaks: func(l *Ledger) { l.Store = broken{Store: l.Store, updatesAny: true} }}, twice},
		"creating over what exists takes a claim from its holder": {
			variant{breaks: func(l *Ledger) { l.Store = broken{Store: l.Store, createsOver: true} }}, twice},
		"trusting a claim that is held already, without renewing it, loses it": {
			variant{breaks: func(l *Ledger) { l.Store = broken{Store: l.Store, trusts: true} }}, twice},
		"without the time of the promise, every promise counts as kept": {
			variant{breaks: func(l *Ledger) { l.Store = broken{Store: l.Store, forgetsTime: true} }}, twice},
		"without the generation of the promise, an older one settles it": {
			variant{breaks: func(l *Ledger) { l.Store = broken{Store: l.Store, forgetsGeneration: true} }}, twice},
		"of two creations of one name, the one that is stored does not settle the other": {
			variant{breaks: func(l *Ledger) { l.Seen = func(context.Context, Claimant) bool { return true } }}, twice},
		"looking for ports of a whole address before it is claimed, both are had": {
			variant{breaks: func(l *Ledger) { l.Store = &looksEarly{Store: l.Store, atPorts: true} }}, twice},
		"looking for the whole address of a port before that is claimed, both are had": {
			variant{breaks: func(l *Ledger) { l.Store = &looksEarly{Store: l.Store} }}, twice},
		"looking for host names before a whole port is claimed, both are had": {
			variant{breaks: func(l *Ledger) { l.Store = &looksAside{Store: l.Store} }}, twice},
		"looking for the whole port before a host name is claimed, both are had": {
			variant{breaks: func(l *Ledger) { l.Store = &looksAside{Store: l.Store, atWhole: true} }}, twice},
		"without a word that host names share a port, it is had whole": {
			variant{breaks: func(l *Ledger) { l.Store = &looksAside{Store: l.Store, silent: true} }}, twice},
		"that word is not taken back while somebody may have just counted on it": {
			variant{hostsAtOnce: true}, twice},
		"that word is renewed before it is so old that it may be taken back": {
			variant{breaks: func(l *Ledger) { l.Store = &looksAside{Store: l.Store, stale: true} }}, twice},
		"what asks for something else while it is being deleted has to be judged": {
			variant{deletedPass: true}, twice},
		"what is being deleted is not gone": {
			variant{deletedGo: true}, twice},
		"what a status lists is forwarded, whatever its object asks for": {
			variant{statusForgotten: true}, twice},
		"a status that is written for what the object was lists a point that it has lost": {
			variant{statusAny: true}, twice},
		"a status that could not be written lists what it listed": {
			variant{trustsStatus: true}, twice},
		"looking at the holder before reading the claim misses a stream stored between": {
			variant{looksFirst: true}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			tc.twiceOnly = tc.finds == twice
			if wrong, _ := explore(tc.variant); !strings.Contains(wrong, tc.finds) {
				t.Errorf("found %q, want one that says %q", wrong, tc.finds)
			}
		})
	}
}

// broken is a Store for a protocol that leaves something out.
type broken struct {
	Store
	deletesAny, updatesAny, createsOver, trusts, forgetsTime, forgetsGeneration bool
}

// forget drops what the protocol does not write down.
func (b broken) forget(c *v1beta1.EdgeClaim) {
	if b.forgetsTime {
		c.Spec.Renewed = nil
	}
	if b.forgetsGeneration {
		c.Spec.Holder.Generation = 0
	}
}

// Create implements Store.
func (b broken) Create(ctx context.Context, c *v1beta1.EdgeClaim) error {
	b.forget(c)
	err := b.Store.Create(ctx, c)
	if b.createsOver && apierrors.IsAlreadyExists(err) {
		return b.any(ctx, c, b.Store.Update)
	}
	return err
}

// Update implements Store.
func (b broken) Update(ctx context.Context, c *v1beta1.EdgeClaim) error {
	b.forget(c)
	switch {
	case b.trusts:
		return nil
	case b.updatesAny:
		return b.any(ctx, c, b.Store.Update)
	default:
		return b.Store.Update(ctx, c)
	}
}

// Delete implements Store.
func (b broken) Delete(ctx context.Context, c *v1beta1.EdgeClaim) error {
	if b.deletesAny {
		return b.any(ctx, c, b.Store.Delete)
	}
	return b.Store.Delete(ctx, c)
}

// any writes without comparing versions.
func (b broken) any(ctx context.Context, c *v1beta1.EdgeClaim, write func(context.Context, *v1beta1.EdgeClaim) error) error {
	for {
		now, err := b.Get(ctx, c.Name)
		if err != nil {
			return err
		}
		c.UID, c.ResourceVersion = now.UID, now.ResourceVersion
		if err := write(ctx, c); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// looksEarly is a Store for a protocol that looks for the other form before it creates a claim: for ports, or for the whole
// address.
type looksEarly struct {
	Store
	atPorts bool
	// created is what was, and early what was there of the other form before.
	created Coordinate
	early   []v1beta1.EdgeClaim
}

// Create implements Store.
func (s *looksEarly) Create(ctx context.Context, c *v1beta1.EdgeClaim) error {
	at, err := Of(c)
	if err != nil {
		return err
	}
	whole := Address(at.Address())
	switch s.created = at; {
	case !at.IsAddress() || s.atPorts == (at != whole):
	case s.atPorts:
		if s.early, err = s.Store.List(ctx, PortsScope(at.Address()), ""); err != nil {
			return err
		}
	default:
		if found, err := s.Store.Get(ctx, whole.Name()); err == nil {
			s.early = []v1beta1.EdgeClaim{*found}
		}
	}
	return s.Store.Create(ctx, c)
}

// List implements Store.
func (s *looksEarly) List(ctx context.Context, scope, version string) ([]v1beta1.EdgeClaim, error) {
	if s.atPorts && s.created.IsAddress() {
		return s.early, nil
	}
	return s.Store.List(ctx, scope, version)
}

// Get implements Store.
func (s *looksEarly) Get(ctx context.Context, name string) (*v1beta1.EdgeClaim, error) {
	switch {
	case s.atPorts || s.created.Port() == 0 || name != Address(s.created.Address()).Name():
		return s.Store.Get(ctx, name)
	case len(s.early) == 0:
		return nil, apierrors.NewNotFound(claimsResource, name)
	default:
		return &s.early[0], nil
	}
}

// looksAside is a Store for a protocol that looks for the other form at a port of a Gateway before it creates a claim there; or, if it is
// silent, does not say that host names share a port; or says so and lets the word become stale.
type looksAside struct {
	Store
	atWhole, silent, stale bool
	// hidden are the names of the claims that were not there before.
	hidden map[string]bool
}

// Create implements Store.
func (s *looksAside) Create(ctx context.Context, c *v1beta1.EdgeClaim) error {
	at, err := Of(c)
	if err != nil || !at.IsListener() {
		return s.Store.Create(ctx, c)
	}
	if at.IsHosts() && s.silent {
		return nil
	}
	if !at.IsHosts() && !s.silent && !s.stale && s.atWhole == (at.ListenerHost() != "") {
		s.hidden = map[string]bool{}
		for _, other := range at.InTheWay() {
			if _, err := s.Store.Get(ctx, other.Name()); apierrors.IsNotFound(err) {
				s.hidden[other.Name()] = true
			}
		}
	}
	return s.Store.Create(ctx, c)
}

// Update implements Store.
func (s *looksAside) Update(ctx context.Context, c *v1beta1.EdgeClaim) error {
	if at, err := Of(c); err == nil && at.IsHosts() && s.stale {
		return nil
	}
	return s.Store.Update(ctx, c)
}

// Get implements Store.
func (s *looksAside) Get(ctx context.Context, name string) (*v1beta1.EdgeClaim, error) {
	if s.hidden[name] {
		return nil, apierrors.NewNotFound(claimsResource, name)
	}
	return s.Store.Get(ctx, name)
}
