package claim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var (
	start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	alice = StreamHolder("shop", "alice")
	bob   = StreamHolder("shop", "bob")
	old   = ConfigMapHolder("edge", "tcp")

	fromStore = cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion", "CreationTimestamp")
)

// held is a claim of a holder, promised at a time, or, with the zero time, made for a stored object.
func held(at Coordinate, by Holder, uid types.UID, generation int64, promised time.Time) *v1beta1.EdgeClaim {
	c := New(at, Claimant{Holder: by, UID: uid, Generation: generation})
	if !promised.IsZero() {
		c.Spec.Renewed = &metav1.MicroTime{Time: promised}
	}
	return c
}

// ledgerAt is a ledger over a store at a time.
func ledgerAt(store Store, now time.Time) *Ledger {
	return &Ledger{Store: store, Clock: clocktesting.NewFakePassiveClock(now), Grace: DefaultGrace}
}

func notAStream(c *v1beta1.EdgeClaim) bool { return !HolderOf(c).IsStream() }

// TestReserve covers each state of a point that an admission can find. What Check says must be what Reserve does, without
// a write.
func TestReserve(t *testing.T) {
	now := start.Add(time.Hour)
	for name, tc := range map[string]struct {
		stored  *v1beta1.EdgeClaim
		mayTake MayTake
		seen    []types.UID
		want    *v1beta1.EdgeClaim
		refused bool
	}{
		"a free point is claimed": {
			want: held(tcp(80), alice, "a2", 1, now),
		},
		"a point of its own is renewed": {
			stored: held(tcp(80), alice, "a2", 0, start),
			want:   held(tcp(80), alice, "a2", 1, now),
		},
		"a point of its own from an earlier life is renewed when that promise is old": {
			stored: held(tcp(80), alice, "a1", 5, start),
			want:   held(tcp(80), alice, "a2", 1, now),
		},
		"a point of its own that was claimed when it was stored is renewed": {
			stored: held(tcp(80), alice, "a1", 5, time.Time{}),
			want:   held(tcp(80), alice, "a2", 1, now),
		},
		"another creation of the name may be in flight, so no UID settles the claim": {
			stored: held(tcp(80), alice, "a1", 1, now.Add(-time.Minute)),
			want:   held(tcp(80), alice, "", 0, now),
		},
		"and once there are two, a third changes nothing": {
			stored: held(tcp(80), alice, "", 0, now.Add(-time.Minute)),
			seen:   []types.UID{"", "a1", "a2"},
			want:   held(tcp(80), alice, "", 0, now),
		},
		"another creation of the name that was seen stored is over": {
			stored: held(tcp(80), alice, "a1", 1, now.Add(-time.Minute)),
			seen:   []types.UID{"a1"},
			want:   held(tcp(80), alice, "a2", 1, now),
		},
		"the promise of a later generation may be in flight, so it stays": {
			stored: held(tcp(80), alice, "a2", 9, now.Add(-time.Minute)),
			want:   held(tcp(80), alice, "a2", 9, now),
		},
		"a promise by a clock that is ahead keeps its time": {
			stored: held(tcp(80), alice, "a2", 1, now.Add(20*time.Second)),
			want:   held(tcp(80), alice, "a2", 1, now.Add(20*time.Second+time.Microsecond)),
		},
		"a point of another is refused": {
			stored: held(tcp(80), bob, "b1", 1, start), want: held(tcp(80), bob, "b1", 1, start), refused: true,
		},
		"a point of another is refused even when it is long past its grace": {
			stored: held(tcp(80), bob, "", 0, start.Add(-time.Hour)), want: held(tcp(80), bob, "", 0, start.Add(-time.Hour)), refused: true,
		},
		"a foreign point is refused to a stream that does not adopt it": {
			stored: held(tcp(80), old, "c1", 0, time.Time{}), want: held(tcp(80), old, "c1", 0, time.Time{}), refused: true,
		},
		"a foreign point goes to the stream that adopts it": {
			stored: held(tcp(80), old, "c1", 0, time.Time{}), mayTake: notAStream,
			want: held(tcp(80), alice, "a2", 1, now),
		},
		"a point of another stream is not for adoption": {
			stored: held(tcp(80), bob, "b1", 1, start), mayTake: notAStream, want: held(tcp(80), bob, "b1", 1, start), refused: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Fake{}
			if tc.stored != nil {
				m = NewFake(tc.stored)
			}
			l := ledgerAt(m, now)
			if tc.seen != nil {
				l.Seen = func(_ context.Context, by Claimant) bool { return slices.Contains(tc.seen, by.UID) }
			}
			by := Claimant{Holder: alice, UID: "a2", Generation: 1}
			wantErr := error(nil)
			if tc.refused {
				wantErr = &HeldError{Claim: m.stored[tcp(80).Name()]}
			}
			if err := l.Check(t.Context(), by, tc.mayTake, tcp(80)); !sameRefusal(err, wantErr) || m.writes != 0 {
				t.Errorf("Check: %v after %d writes, want %v and none", err, m.writes, wantErr)
			}
			if err := l.Reserve(t.Context(), by, tc.mayTake, tcp(80)); !sameRefusal(err, wantErr) {
				t.Errorf("Reserve: %v, want %v", err, wantErr)
			}
			if diff := cmp.Diff(tc.want, m.stored[tcp(80).Name()], fromStore); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if changed := m.writes > 0; changed == tc.refused {
				t.Errorf("%d writes", m.writes)
			}
		})
	}
}

func sameRefusal(got, want error) bool {
	var g, w *HeldError
	if errors.As(got, &g) && errors.As(want, &w) {
		return cmp.Equal(g.Claim, w.Claim)
	}
	return got == nil && want == nil
}

func TestEveryReservationChangesTheVersion(t *testing.T) {
	m := &Fake{}
	l := ledgerAt(m, start)
	version := ""
	for range 3 { // in one and the same microsecond
		if err := l.Reserve(t.Context(), Claimant{Holder: alice, UID: "a1", Generation: 1}, nil, tcp(80)); err != nil {
			t.Fatal(err)
		}
		if now := m.stored[tcp(80).Name()].ResourceVersion; now == version {
			t.Fatal("a release that read the claim before the promise could delete it")
		} else {
			version = now
		}
	}
}

func TestClaimOfAStoredObject(t *testing.T) {
	for name, tc := range map[string]struct {
		stored  *v1beta1.EdgeClaim
		mayTake MayTake
		want    *v1beta1.EdgeClaim
		writes  int
		refused bool
	}{
		"a free point is claimed, with no promise to wait for": {
			want: held(tcp(80), alice, "a1", 4, time.Time{}), writes: 1,
		},
		"a point of its own is left as it is": {
			stored: held(tcp(80), alice, "a1", 3, start), want: held(tcp(80), alice, "a1", 3, start),
		},
		"a point of another is refused": {
			stored: held(tcp(80), bob, "b1", 1, start), want: held(tcp(80), bob, "b1", 1, start), refused: true,
		},
		"a foreign point is adopted": {
			stored: held(tcp(80), old, "c1", 0, time.Time{}), mayTake: notAStream,
			want: held(tcp(80), alice, "a1", 4, time.Time{}), writes: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Fake{}
			if tc.stored != nil {
				m = NewFake(tc.stored)
			}
			got, err := ledgerAt(m, start).Claim(t.Context(), Claimant{Holder: alice, UID: "a1", Generation: 4}, tc.mayTake, tcp(80))
			var refused *HeldError
			if errors.As(err, &refused) != tc.refused || !tc.refused && err != nil {
				t.Fatalf("Claim: %v", err)
			}
			if tc.refused {
				got = refused.Claim
			}
			if diff := cmp.Diff(m.stored[tcp(80).Name()], got); diff != "" {
				t.Errorf("it returns something else than what is stored (-stored +returned):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got, fromStore); diff != "" || m.writes != tc.writes {
				t.Errorf("%d writes, want %d; claim (-want +got):\n%s", m.writes, tc.writes, diff)
			}
		})
	}
}

// TestClaimsSayForWhichClass has a Service claim a point for itself and for the proxies of classes, and somebody take it over.
func TestClaimsSayForWhichClass(t *testing.T) {
	l := ledgerAt(&Fake{}, start)
	proxy := Claimant{Holder: ServiceHolder("edge", "proxy")}
	of := func(by Claimant, class string) Claimant { by.ClassName = class; return by }
	for _, step := range []struct {
		by   Claimant
		want string
	}{
		{proxy, ""}, {of(proxy, "public"), "public"}, {proxy, "public"}, {of(proxy, "next"), "next"}, {Claimant{Holder: alice}, ""},
	} {
		c, err := l.Claim(t.Context(), step.by, func(*v1beta1.EdgeClaim) bool { return true }, tcp(80))
		if err != nil || c.Spec.ClassName != step.want {
			t.Errorf("claimed by %s for class %q: it is for %q, %v", step.by, step.by.ClassName, c.Spec.ClassName, err)
		}
	}
}

func TestHeldErrorNamesPointAndHolder(t *testing.T) {
	err := &HeldError{Claim: held(tcp(80), bob, "b1", 1, start)}
	if want := "TCP/80 of stream/public is held by StreamIngress shop/bob"; err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
}

// TestReservedPointsAreWithdrawn withdraws what was reserved for a request that is refused for something else.
func TestReservedPointsAreWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		before *v1beta1.EdgeClaim
		// renewed says that somebody counts on the claim by then.
		renewed bool
		stays   bool
	}{
		"a claim that was made for it":       {},
		"one that the claimant had":          {before: held(tcp(80), alice, "a1", 1, start), stays: true},
		"one that another request counts on": {renewed: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Fake{}
			if tc.before != nil {
				m = NewFake(tc.before)
			}
			l, by := ledgerAt(m, start), Claimant{Holder: alice, UID: "a1", Generation: 1}
			withdraw, err := l.ReserveAll(t.Context(), by, tcp(80))
			if err == nil && tc.renewed {
				err = ledgerAt(m, start.Add(time.Second)).Reserve(t.Context(), by, nil, tcp(80))
			}
			if err == nil {
				err = withdraw(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if stays := m.stored[tcp(80).Name()] != nil; stays != tc.stays {
				t.Errorf("the claim stays: %v", stays)
			}
		})
	}
	if _, err := ledgerAt(NewFake(held(tcp(80), old, "c1", 1, start)), start).ReserveAll(t.Context(), Claimant{Holder: alice, UID: "a1"}, tcp(80)); !IsHeld(err) {
		t.Errorf("drawing what another has: %v", err)
	}
}
