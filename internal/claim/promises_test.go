package claim

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestPromisesThatAreNotKept asks for points while three of four that a namespace may have are promised to others.
func TestPromisesThatAreNotKept(t *testing.T) {
	someone := func(uid types.UID) Claimant {
		return Claimant{Holder: StreamHolder("shop", string(uid)), UID: uid, Generation: 1}
	}
	for name, tc := range map[string]struct {
		by     Claimant
		points int32
		before func(p *Promises, clock *clocktesting.FakePassiveClock, drop func(bound ...Coordinate))
		fits   bool
	}{
		"one more":                               {by: someone("c"), points: 1, fits: true},
		"two more":                               {by: someone("c"), points: 2},
		"none":                                   {by: someone("c"), fits: true},
		"the same, for an object that has them":  {by: someone("b"), points: 2, fits: true},
		"one more, for an object that has some":  {by: someone("b"), points: 3, fits: true},
		"two more, for an object that has some":  {by: someone("b"), points: 4},
		"of another namespace":                   {by: Claimant{Holder: StreamHolder("other", "a"), UID: "o"}, points: 4, fits: true},
		"of no namespace":                        {by: Claimant{Holder: Holder{Kind: "Node", Name: "a"}, UID: "n"}, points: 9, fits: true},
		"once one of those is stored":            {by: someone("c"), points: 3, before: stores("b"), fits: true},
		"more than the most, once all is stored": {by: someone("c"), points: 9, before: stores("a", "b"), fits: true},
		"once one was refused": {by: someone("c"), points: 2, fits: true,
			before: func(_ *Promises, _ *clocktesting.FakePassiveClock, drop func(...Coordinate)) { drop() }},
		"once one was refused that has it by a claim of before": {by: someone("c"), points: 2,
			before: func(_ *Promises, _ *clocktesting.FakePassiveClock, drop func(...Coordinate)) { drop(some(1)...) }},
		"a moment before the end of the grace": {by: someone("c"), points: 2,
			before: func(_ *Promises, c *clocktesting.FakePassiveClock, _ func(...Coordinate)) {
				c.SetTime(start.Add(DefaultGrace - 1))
			}},
		"after the grace": {by: someone("c"), points: 4, fits: true,
			before: func(_ *Promises, c *clocktesting.FakePassiveClock, _ func(...Coordinate)) {
				c.SetTime(start.Add(DefaultGrace))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(start)
			p := &Promises{Stored: func(context.Context, Claimant) bool { return false }, Clock: clock, Grace: DefaultGrace, Most: 4}
			var drop func(...Coordinate)
			for by, points := range map[types.UID]int32{"a": 1, "b": 2} {
				undo, err := p.Open(t.Context(), someone(by), some(points)...)
				if err != nil {
					t.Fatal(err)
				}
				if by == "a" {
					drop = undo
				}
			}
			if tc.before != nil {
				tc.before(p, clock, drop)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // it looks once
			_, err := p.Open(ctx, tc.by, some(tc.points)...)
			if fits := err == nil; fits != tc.fits {
				t.Fatalf("got %v", err)
			}
			if seconds, again := apierrors.SuggestsClientDelay(err); err != nil && (!apierrors.IsTooManyRequests(err) || !again || seconds != 1) {
				t.Errorf("the error is no request to try again: %v", err)
			}
		})
	}
}

// some are the first of the points that all ask for.
func some(n int32) (points []Coordinate) {
	for i := range n {
		points = append(points, tcp(80+i))
	}
	return points
}

func stores(uids ...types.UID) func(*Promises, *clocktesting.FakePassiveClock, func(...Coordinate)) {
	return func(p *Promises, _ *clocktesting.FakePassiveClock, _ func(...Coordinate)) {
		p.Stored = func(_ context.Context, by Claimant) bool {
			for _, uid := range uids {
				if by.UID == uid {
					return true
				}
			}
			return false
		}
	}
}

// TestARequestWaitsForRoom has a namespace be full until an object is seen stored.
func TestARequestWaitsForRoom(t *testing.T) {
	looks := 0
	p := &Promises{Clock: clocktesting.NewFakePassiveClock(start), Grace: DefaultGrace, Most: 1, Stored: func(context.Context, Claimant) bool {
		looks++
		return looks > 2
	}}
	for _, uid := range []types.UID{"a", "b"} {
		if _, err := p.Open(t.Context(), Claimant{Holder: StreamHolder("shop", string(uid)), UID: uid}, tcp(80)); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.open["shop"].count(); looks != 3 || got != 1 {
		t.Errorf("looked %d times, and %d are open", looks, got)
	}
}

// TestPromisesAreForgotten leaves nothing of a namespace whose last request was refused.
func TestPromisesAreForgotten(t *testing.T) {
	l := ledgerAt(NewFake(held(tcp(80), alice, "a1", 1, time.Time{})), start)
	l.Promises = &Promises{Stored: func(context.Context, Claimant) bool { return false }, Clock: l.Clock, Grace: DefaultGrace, Most: 1}
	by := Claimant{Holder: StreamHolder("shop", "b"), UID: "b", Generation: 1}
	if err := l.Reserve(t.Context(), by, nil, tcp(80)); !IsHeld(err) {
		t.Fatalf("got %v", err)
	}
	if got := l.Promises.open["shop"].count(); got != 0 {
		t.Errorf("%d are still open", got)
	}
}
