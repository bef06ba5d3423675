package guard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// aged is an opener that was made so long ago.
func aged(o Opener, age time.Duration) Opener {
	o.Created = since.Add(-age)
	return o
}

// onGateway is an opener on another Gateway.
func onGateway(of types.NamespacedName, o Opener) Opener {
	o.Of = of
	return o
}

// settled are what is entered and who lost, in words.
func settled(enter []claim.Entry, lost []Loss) (entered, losses []string) {
	for _, e := range enter {
		entered = append(entered, e.By.String()+" at "+e.At.String())
	}
	for _, l := range lost {
		losses = append(losses, l.Opener.String()+": "+l.String())
	}
	return entered, losses
}

func TestSettle(t *testing.T) {
	young, old := claim.ListenerSetHolder("a", "young"), claim.ListenerSetHolder("z", "old")
	stream := claim.StreamHolder("rival", "db")
	for name, tc := range map[string]struct {
		claims  map[string]*v1beta1.EdgeClaim
		openers []Opener
		// beside are those on other Gateways.
		beside []Opener
		scopes []types.NamespacedName
		enter  []string
		lost   []string
	}{
		"nobody": {},
		"what nobody has": {
			openers: []Opener{opener(itsOwn, tcp(80), other(81)), opener(me, http(82, "a"))},
			enter: []string{"Gateway edge/public at gateway/edge/public TCP/80", "Gateway edge/public at gateway/edge/public TCP/81",
				"Gateway edge/public at gateway/edge/public UDP/81", "ListenerSet shop/web at gateway/edge/public/82 HTTP/a"},
		},
		"what is entered": {claims: held(me, whole(80), name(443, "a")), openers: []Opener{opener(me, tcp(80), tls(443, "a"))}},
		"a host name, and nothing says that it shares its port": {
			claims: without(held(me, name(443, "a")), claim.Listener(edge, claim.HTTPListener, 443)), openers: []Opener{opener(itsOwn, tcp(443)), opener(me, tls(443, "a"))},
			enter: []string{"ListenerSet shop/web at gateway/edge/public/443 TLS/a"},
			lost:  []string{"Gateway edge/public: spec.listeners[0]: TCP/443 on Gateway edge/public is held by ListenerSet shop/web since 2026-07-01T12:00:00Z, which has TLS/a there"},
		},
		"the Gateway comes first, then the older": {
			openers: []Opener{aged(opener(young, tcp(80), tcp(81)), 0), aged(opener(old, tcp(81), tcp(80)), time.Hour), opener(itsOwn, tcp(80))},
			enter:   []string{"Gateway edge/public at gateway/edge/public TCP/80", "ListenerSet z/old at gateway/edge/public TCP/81"},
			lost: []string{"ListenerSet z/old: spec.listeners[1]: TCP/80 on Gateway edge/public is held by Gateway edge/public",
				"ListenerSet a/young: spec.listeners[0]: TCP/80 on Gateway edge/public is held by Gateway edge/public",
				"ListenerSet a/young: spec.listeners[1]: TCP/81 on Gateway edge/public is held by ListenerSet z/old"},
		},
		"who has a claim stays": {
			claims: held(young, whole(80)), openers: []Opener{aged(opener(young, tcp(80)), 0), aged(opener(old, tcp(80)), time.Hour), opener(itsOwn, http(80, "a"))},
			lost: []string{"Gateway edge/public: spec.listeners[0]: HTTP/a at port 80 on Gateway edge/public is held by ListenerSet a/young since 2026-07-01T12:00:00Z, which has TCP/80 there",
				"ListenerSet z/old: spec.listeners[0]: TCP/80 on Gateway edge/public is held by ListenerSet a/young since 2026-07-01T12:00:00Z"},
		},
		"a port whole, and names": {
			openers: []Opener{opener(old, tls(443, "a"), tls(443, "b")), opener(itsOwn, tcp(443))},
			enter:   []string{"Gateway edge/public at gateway/edge/public TCP/443"},
			lost: []string{"ListenerSet z/old: spec.listeners[0]: TLS/a at port 443 on Gateway edge/public is held by Gateway edge/public, which has TCP/443 there",
				"ListenerSet z/old: spec.listeners[1]: TLS/b at port 443 on Gateway edge/public is held by Gateway edge/public, which has TCP/443 there"},
		},
		"names, and a port whole": {
			openers: []Opener{aged(opener(old, tls(443, "a")), time.Hour), aged(opener(young, tcp(443), tls(443, "b")), 0)},
			enter:   []string{"ListenerSet z/old at gateway/edge/public/443 TLS/a", "ListenerSet a/young at gateway/edge/public/443 TLS/b"},
			lost:    []string{"ListenerSet a/young: spec.listeners[0]: TCP/443 on Gateway edge/public is held by ListenerSet z/old, which has TLS/a there"},
		},
		"a port of a stream": {
			claims: held(stream, claim.Stream("public", v1beta1.TCP, 443)), openers: []Opener{opener(itsOwn, tls(443, "a"), udp(443))},
			enter: []string{"Gateway edge/public at gateway/edge/public UDP/443"},
			lost:  []string{"Gateway edge/public: spec.listeners[0]: TLS/a at port 443 on Gateway edge/public is held by StreamIngress rival/db since 2026-07-01T12:00:00Z"},
		},
		"a holder that is about to leave": {claims: held(rival, whole(80), name(443, "a")), openers: []Opener{opener(itsOwn, tcp(80), tcp(443), tls(443, "a"))}},
		"one that leaves, and one that stays": {
			claims: join(held(rival, name(443, "a")), held(me, name(443, "b"))), openers: []Opener{opener(me, tls(443, "b")), opener(itsOwn, tls(443, "a"), tls(443, "b"))},
			lost: []string{"Gateway edge/public: spec.listeners[1]: TLS/b at port 443 on Gateway edge/public is held by ListenerSet shop/web since 2026-07-01T12:00:00Z"},
		},
		"on two Gateways": {
			scopes: []types.NamespacedName{edge, first}, openers: []Opener{opener(me, tcp(80))},
			enter: []string{"ListenerSet shop/web at gateway/edge/public TCP/80", "ListenerSet shop/web at gateway/edge/first TCP/80"},
		},
		"on two Gateways, of which one is missing": {
			claims: held(me, whole(80)), scopes: []types.NamespacedName{edge, first}, openers: []Opener{opener(me, tcp(80))},
			enter: []string{"ListenerSet shop/web at gateway/edge/first TCP/80"},
		},
		"on two Gateways, one of which somebody has": {
			claims: held(rival, claim.Listener(first, v1beta1.TCP, 80)), scopes: []types.NamespacedName{edge, first}, openers: []Opener{opener(me, tcp(80))},
			beside: []Opener{onGateway(first, opener(rival, tcp(80)))},
			lost:   []string{"ListenerSet shop/web: spec.listeners[0]: TCP/80 on Gateway edge/first is held by ListenerSet rival/web since 2026-07-01T12:00:00Z"},
		},
		"listeners of one that are at odds": {
			openers: []Opener{opener(me, tcp(80), http(80, "a"))},
			enter:   []string{"ListenerSet shop/web at gateway/edge/public TCP/80", "ListenerSet shop/web at gateway/edge/public/80 HTTP/a"},
		},
		"what may be UDP, too, of which one is held": {
			claims: held(rival, claim.Listener(edge, v1beta1.UDP, 80)), openers: []Opener{opener(rival, udp(80)), opener(itsOwn, other(80), udp(80)), opener(me, tcp(80))},
			enter: []string{"ListenerSet shop/web at gateway/edge/public TCP/80"},
			lost: []string{"Gateway edge/public: spec.listeners[0]: UDP/80 on Gateway edge/public is held by ListenerSet rival/web since 2026-07-01T12:00:00Z",
				"Gateway edge/public: spec.listeners[1]: UDP/80 on Gateway edge/public is held by ListenerSet rival/web since 2026-07-01T12:00:00Z"},
		},
		"what no listener can be": {openers: []Opener{opener(me, tcp(0), http(80, "no host"))}},
	} {
		t.Run(name, func(t *testing.T) {
			slices.SortFunc(tc.openers, CompareOpeners)
			if tc.scopes == nil {
				tc.scopes = []types.NamespacedName{edge}
			}
			f := &facts{claims: tc.claims, openers: slices.Concat(tc.openers, tc.beside)}
			enter, lost := settled(Settle(f, tc.openers, tc.scopes, []*v1beta1.StreamIngressClass{class("public")}))
			if diff := cmp.Diff(tc.enter, enter); diff != "" {
				t.Errorf("entered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.lost, lost); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
		})
	}
}

// settlement is a Gateway at random: who listens there, who has left, and what is claimed.
type settlement struct {
	rng     *rand.Rand
	openers []Opener
	scopes  []types.NamespacedName
	classes []*v1beta1.StreamIngressClass
	store   *claim.Fake
	facts   *facts
	// names are those of all claims.
	names map[string]bool
}

func (s *settlement) listener() Listener {
	port := int32(1 + s.rng.IntN(4))
	host := []string{claim.AllHosts, "a", "*.a"}[s.rng.IntN(3)]
	return []Listener{tcp(port), udp(port), other(port), http(port, host), https(port, host), tls(port, host)}[s.rng.IntN(6)]
}

func newSettlement(t *testing.T, seed uint64) *settlement {
	s := &settlement{
		rng: rand.New(rand.NewPCG(seed, 0)), scopes: []types.NamespacedName{edge}, classes: []*v1beta1.StreamIngressClass{class("public")},
		store: &claim.Fake{}, facts: &facts{claims: map[string]*v1beta1.EdgeClaim{}}, names: map[string]bool{},
	}
	if s.rng.IntN(2) == 0 {
		s.scopes = append(s.scopes, first)
	}
	holders := []claim.Holder{itsOwn, me, rival, claim.ListenerSetHolder("a", "a"), claim.ListenerSetHolder("b", "b")}
	for _, by := range holders[:1+s.rng.IntN(len(holders))] {
		var listeners []Listener
		for range s.rng.IntN(5) {
			listeners = append(listeners, s.listener())
		}
		s.openers = append(s.openers, aged(opener(by, listeners...), time.Duration(s.rng.IntN(3))*time.Hour))
	}
	for range s.rng.IntN(4) { // somebody was there before: one of them, or one who has left, or a stream
		switch n := s.rng.IntN(6); n {
		case 0:
			s.claim(t, claim.Claimant{Holder: claim.StreamHolder("shop", "db")}, claim.Stream("public", v1beta1.TCP, int32(1+s.rng.IntN(4))))
		case 1:
			for _, at := range s.listener().Points(s.scopes[s.rng.IntN(len(s.scopes))]) {
				s.claim(t, claim.Claimant{Holder: claim.ListenerSetHolder("gone", "gone")}, at)
			}
		default:
			o := s.openers[s.rng.IntN(len(s.openers))]
			for _, l := range o.Listeners {
				for _, scope := range s.scopes {
					for _, at := range l.Points(scope) {
						if !s.ofStream(at) && s.rng.IntN(4) > 0 {
							s.claim(t, o.Claimant, at)
						}
					}
				}
			}
		}
	}
	slices.SortFunc(s.openers, CompareOpeners)
	return s
}

// ofStream says whether a stream has the port.
func (s *settlement) ofStream(at claim.Coordinate) bool {
	return heldByStream(s.facts, s.classes, at) != nil
}

// claim claims a point, and shows to the rules what is stored then. It says whether the point is somebody else's.
func (s *settlement) claim(t *testing.T, by claim.Claimant, at claim.Coordinate) (held bool) {
	t.Helper()
	l := &claim.Ledger{Store: s.store, Clock: clocktesting.NewFakePassiveClock(since), Grace: claim.DefaultGrace}
	_, err := l.Claim(t.Context(), by, nil, at)
	if claim.IgnoreHeld(err) != nil {
		t.Fatal(err)
	}
	s.names[at.Name()] = true
	if at.ListenerHost() != "" {
		s.names[claim.Listener(at.Gateway(), claim.HTTPListener, at.Port()).Name()] = true
	}
	for name := range s.names {
		delete(s.facts.claims, name)
		if c, err := s.store.Get(t.Context(), name); err == nil {
			s.facts.claims[name] = c
		}
	}
	return err != nil
}

func (s *settlement) settle() (enter []claim.Entry, lost []Loss) {
	s.facts.openers = s.openers
	return Settle(s.facts, s.openers, s.scopes, s.classes)
}

// collides says whether no two can have these points.
func collides(a, b claim.Coordinate) bool {
	return a == b || slices.Contains(a.InTheWay(), b) ||
		a.IsListener() && b.IsListener() && a.Gateway() == b.Gateway() && a.Port() == b.Port() &&
			(a.ListenerHost() != "" && b == claim.Listener(b.Gateway(), v1beta1.TCP, b.Port()) || b.ListenerHost() != "" && a == claim.Listener(a.Gateway(), v1beta1.TCP, a.Port()))
}

// TestSettlements enters, again and again, what is to be entered of Gateways at random, until nothing is.
func TestSettlements(t *testing.T) {
	for seed := range uint64(500) {
		s := newSettlement(t, seed)
		before := maps.Clone(s.facts.claims)
		expected := s.served(before)
		enter, lost := s.settle()
		again, lostAgain := s.settle()
		if diff := cmp.Diff(both(settled(enter, lost)), both(settled(again, lostAgain))); diff != "" {
			t.Fatalf("seed %d: a second look at the same says something else: %s", seed, diff)
		}
		for round := 0; len(enter) > 0; round++ {
			if round == 3 {
				t.Fatalf("seed %d: there is no end to it: %v", seed, enter)
			}
			s.rng.Shuffle(len(enter), func(i, j int) { enter[i], enter[j] = enter[j], enter[i] }) // they are entered side by side
			for _, e := range enter {
				if s.claim(t, e.By, e.At) {
					t.Fatalf("seed %d: %s is to be entered for %s, and is somebody else's", seed, e.At, e.By.Holder)
				}
				if s.ofStream(e.At) {
					t.Fatalf("seed %d: %s is entered for %s, and is a stream's", seed, e.At, e.By.Holder)
				}
			}
			enter, lost = s.settle()
		}
		s.check(t, seed, before, lost, expected)
	}
}

// both are what is entered and who lost, in one value.
func both(entered, losses []string) [][]string { return [][]string{entered, losses} }

// served says, by another way than Settle, which listeners get what they ask for: each in turn that is at odds with nobody before.
func (s *settlement) served(claims map[string]*v1beta1.EdgeClaim) map[string]bool {
	has := map[claim.Coordinate]map[claim.Holder]bool{}
	note := func(at claim.Coordinate, by claim.Holder) {
		if has[at] == nil {
			has[at] = map[claim.Holder]bool{}
		}
		has[at][by] = true
	}
	for _, c := range claims {
		if at, err := claim.Of(c); err == nil && !at.IsHosts() {
			note(at, claim.HolderOf(c))
		}
	}
	served := map[string]bool{}
	for _, o := range s.openers {
		for _, l := range o.Listeners {
			free := true
			for _, scope := range s.scopes {
				for _, at := range l.Points(scope) {
					for other, holders := range has {
						for by := range holders {
							isStream := other.IsStream() && other.Port() == at.Port() && (other.Protocol() == v1beta1.UDP) == (at.Protocol() == v1beta1.UDP)
							free = free && (by == o.Holder || !collides(at, other) && !isStream)
						}
					}
				}
			}
			served[fmt.Sprint(o.Holder, l.Index)] = free
			for _, scope := range s.scopes {
				for _, at := range l.Points(scope) {
					if free {
						note(at, o.Holder)
					}
				}
			}
		}
	}
	return served
}

// check looks at what is claimed, and at who lost, in the end.
func (s *settlement) check(t *testing.T, seed uint64, before map[string]*v1beta1.EdgeClaim, lost []Loss, served map[string]bool) {
	t.Helper()
	for name, c := range before {
		if now := s.facts.claims[name]; now == nil || claim.HolderOf(now) != claim.HolderOf(c) {
			t.Fatalf("seed %d: %s has lost %s", seed, claim.HolderOf(c), name)
		}
	}
	for _, a := range s.facts.claims {
		for _, b := range s.facts.claims {
			at, err := claim.Of(a)
			beside, errBeside := claim.Of(b)
			if err != nil || errBeside != nil {
				t.Fatal(err, errBeside)
			}
			if claim.HolderOf(a) != claim.HolderOf(b) && !at.IsHosts() && !beside.IsHosts() && collides(at, beside) {
				t.Fatalf("seed %d: %s has %s, and %s has %s", seed, claim.HolderOf(a), at, claim.HolderOf(b), beside)
			}
		}
	}
	losers := map[string]Loss{}
	for _, l := range lost {
		losers[fmt.Sprint(l.Opener.Holder, l.Listener.Index)] = l
		if by := claim.HolderOf(l.Held); by == l.Opener.Holder || by.Name == "gone" && l.At.Gateway() == edge {
			t.Fatalf("seed %d: lost to %s: %s", seed, by, l)
		}
		if c := s.facts.claims[l.Held.Name]; c == nil || claim.HolderOf(c) != claim.HolderOf(l.Held) {
			t.Fatalf("seed %d: lost to nobody: %s", seed, l)
		}
	}
	for _, o := range s.openers {
		for _, l := range o.Listeners {
			key := fmt.Sprint(o.Holder, l.Index)
			loss, isLost := losers[key]
			if isLost && served[key] {
				t.Fatalf("seed %d: %s is first, and has lost: %s", seed, o.Holder, loss)
			}
			if !served[key] {
				continue
			}
			for _, scope := range s.scopes {
				for _, at := range l.Points(scope) {
					if c := s.facts.claims[at.Name()]; c == nil || claim.HolderOf(c) != o.Holder {
						t.Fatalf("seed %d: %s is first at %s, and has no claim", seed, o.Holder, at)
					}
				}
			}
		}
	}
}
