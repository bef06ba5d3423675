package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestACacheThatLagsCostsNoVerdict has a cache show what was there a moment ago.
func TestACacheThatLagsCostsNoVerdict(t *testing.T) {
	now := start.Add(time.Hour)
	for name, tc := range map[string]struct {
		cached, stored *v1beta1.EdgeClaim
		want           *v1beta1.EdgeClaim
		refused        bool
	}{
		"it shows nothing, and the point is taken": {
			stored: held(tcp(80), bob, "b1", 1, start), want: held(tcp(80), bob, "b1", 1, start), refused: true,
		},
		"it shows nothing, and the point is our own": {
			stored: held(tcp(80), alice, "a1", 1, start), want: held(tcp(80), alice, "a1", 1, now),
		},
		"it shows our claim, and it is gone": {
			cached: held(tcp(80), alice, "a1", 1, start), want: held(tcp(80), alice, "a1", 1, now),
		},
		"it shows our claim, and another has it now": {
			cached: held(tcp(80), alice, "a1", 1, start), stored: held(tcp(80), bob, "b1", 1, start),
			want: held(tcp(80), bob, "b1", 1, start), refused: true,
		},
		"it shows the claim of another, and the point is free now": {
			cached: held(tcp(80), bob, "b1", 1, start), want: held(tcp(80), alice, "a1", 1, now),
		},
		"it shows the claim of another, and the point is our own now": {
			cached: held(tcp(80), bob, "b1", 1, start), stored: held(tcp(80), alice, "a1", 1, start), want: held(tcp(80), alice, "a1", 1, now),
		},
		"it shows a foreign claim to adopt, and another stream has adopted it": {
			cached: held(tcp(80), old, "c1", 0, time.Time{}), stored: held(tcp(80), bob, "b1", 1, start),
			want: held(tcp(80), bob, "b1", 1, start), refused: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Fake{}
			var cached *v1beta1.EdgeClaim
			if tc.cached != nil {
				cached = tc.cached
				m.put(cached)
				m.drop(cached.Name)
			}
			if tc.stored != nil {
				m.put(tc.stored)
			}
			l := ledgerAt(m, now)
			l.Cached = func(string) *v1beta1.EdgeClaim { return cached }
			var refused *HeldError
			if err := l.Reserve(t.Context(), Claimant{Holder: alice, UID: "a1", Generation: 1}, notAStream, tcp(80)); errors.As(err, &refused) != tc.refused || !tc.refused && err != nil {
				t.Errorf("Reserve: %v", err)
			}
			if diff := cmp.Diff(tc.want, m.stored[tcp(80).Name()], fromStore); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsOfTheStore(t *testing.T) {
	down := apierrors.NewServiceUnavailable("etcd is away")
	for name, tc := range map[string]struct {
		fail func(verb string) error
		call func(*Ledger) error
		want string
		is   func(error) bool
	}{
		"a creation that fails": {
			fail: failing("create", down), call: promise, want: "claiming stream/public TCP/80: etcd is away", is: apierrors.IsServiceUnavailable,
		},
		"a live look that fails": {
			fail: func(verb string) error {
				if verb == "create" {
					return apierrors.NewAlreadyExists(claimsResource, "x")
				}
				return down
			},
			call: promise, want: "claiming stream/public TCP/80: etcd is away", is: apierrors.IsServiceUnavailable,
		},
		"a claim that never holds still": {
			fail: failing("create", apierrors.NewAlreadyExists(claimsResource, "x")),
			call: promise, want: "Too many requests: the claim on stream/public TCP/80 changes too fast, try again", is: apierrors.IsTooManyRequests,
		},
		"a dry run that can't look": {
			fail: failing("get", down), call: peek, want: "reading the claim on stream/public TCP/80: etcd is away", is: apierrors.IsServiceUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.call(ledgerAt(&Fake{Fail: tc.fail}, start))
			if err == nil || err.Error() != tc.want || !tc.is(err) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func failing(verb string, err error) func(string) error {
	return func(v string) error {
		if v == verb {
			return err
		}
		return nil
	}
}

func promise(l *Ledger) error {
	return l.Reserve(context.Background(), Claimant{Holder: alice, UID: "a1", Generation: 1}, nil, tcp(80))
}

func peek(l *Ledger) error {
	return l.Check(context.Background(), Claimant{Holder: alice, UID: "a1", Generation: 1}, nil, tcp(80))
}
