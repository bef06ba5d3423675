package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestRelease covers each state in which a claim and its holder can be found, at a minute after the promise unless it
// says otherwise.
func TestRelease(t *testing.T) {
	type answer struct {
		Keep     time.Duration
		Released bool
	}
	free, stays := answer{Released: true}, answer{}
	minute := answer{Keep: time.Minute}
	for name, tc := range map[string]struct {
		claim *v1beta1.EdgeClaim
		seen  HolderState
		gone  types.UID
		after time.Duration
		want  answer
	}{
		"the holder wants it": {
			claim: held(tcp(80), alice, "a1", 1, start), seen: HolderState{true, "a1", 1, true}, want: stays},
		"the holder wants it, in a later life and long after": {
			claim: held(tcp(80), alice, "a1", 7, start), seen: HolderState{true, "a2", 1, true}, gone: "a1", after: time.Hour, want: stays},
		"the holder has moved on, and what was promised is stored": {
			claim: held(tcp(80), alice, "a1", 2, start), seen: HolderState{true, "a1", 2, false}, want: free},
		"the holder has moved on since": {
			claim: held(tcp(80), alice, "a1", 2, start), seen: HolderState{true, "a1", 3, false}, want: free},
		"the holder is about to move here": {
			claim: held(tcp(80), alice, "a1", 3, start), seen: HolderState{true, "a1", 2, false}, want: minute},
		"the holder never moved here": {
			claim: held(tcp(80), alice, "a1", 3, start), seen: HolderState{true, "a1", 2, false}, after: time.Hour, want: free},
		"the holder lives another life than the one promised to": {
			claim: held(tcp(80), alice, "a1", 1, start), seen: HolderState{true, "a2", 9, false}, want: minute},
		"no holder has been stored yet": {
			claim: held(tcp(80), alice, "a1", 1, start), want: minute},
		"no holder was stored within the grace": {
			claim: held(tcp(80), alice, "a1", 1, start), after: DefaultGrace, want: free},
		"a moment before the end of the grace": {
			claim: held(tcp(80), alice, "a1", 1, start), after: DefaultGrace - time.Microsecond, want: answer{Keep: time.Microsecond}},
		"the holder was seen stored and then deleted": {
			claim: held(tcp(80), alice, "a1", 4, start), gone: "a1", want: free},
		"an earlier life of the holder was deleted": {
			claim: held(tcp(80), alice, "a2", 1, start), gone: "a1", want: minute},
		"two creations of the name were in flight, one is gone": {
			claim: held(tcp(80), alice, "", 0, start), gone: "a1", want: minute},
		"two creations of the name were in flight, and nothing is known of either": {
			claim: held(tcp(80), alice, "", 0, start), want: minute},
		"two creations of the name were in flight, one is stored elsewhere": {
			claim: held(tcp(80), alice, "", 0, start), seen: HolderState{true, "a1", 5, false}, want: minute},
		"the claim was made for a stored object that is gone": {
			claim: held(tcp(80), old, "c1", 0, time.Time{}), want: free},
		"the claim was made for a stored object that wants it no more": {
			claim: held(tcp(80), alice, "a1", 1, time.Time{}), seen: HolderState{true, "a2", 1, false}, want: free},
		"a promise from a clock that is ahead is kept no longer than the grace from now": {
			claim: held(tcp(80), alice, "a1", 1, start.Add(10*time.Minute)), want: answer{Keep: DefaultGrace}},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewFake(tc.claim)
			if tc.after == 0 {
				tc.after = time.Minute
			}
			look := func(context.Context, *v1beta1.EdgeClaim) (HolderState, error) { return tc.seen, nil }
			keep, released, err := ledgerAt(m, start.Add(tc.after)).Release(t.Context(), m.stored[tcp(80).Name()], look, tc.gone)
			if got := (answer{keep, released}); err != nil || got != tc.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
			if _, still := m.stored[tcp(80).Name()]; still == tc.want.Released {
				t.Errorf("the claim is stored: %v", still)
			}
		})
	}
}

func TestReleaseLosesAgainstARenewal(t *testing.T) {
	m := NewFake(held(tcp(80), alice, "a1", 1, start))
	l := ledgerAt(m, start.Add(time.Hour))
	look := func(ctx context.Context, _ *v1beta1.EdgeClaim) (HolderState, error) {
		return HolderState{}, l.Reserve(ctx, Claimant{Holder: alice, UID: "a2", Generation: 1}, nil, tcp(80))
	}
	_, released, err := l.Release(t.Context(), m.stored[tcp(80).Name()], look, "a1")
	if !apierrors.IsConflict(err) || released || m.stored[tcp(80).Name()] == nil {
		t.Errorf("got released=%v, %v", released, err)
	}
}

func TestReleaseOfAClaimThatAnotherReleases(t *testing.T) {
	m := NewFake(held(tcp(80), alice, "a1", 1, start))
	look := func(context.Context, *v1beta1.EdgeClaim) (HolderState, error) {
		m.drop(tcp(80).Name())
		return HolderState{}, nil
	}
	keep, released, err := ledgerAt(m, start.Add(time.Hour)).Release(t.Context(), m.stored[tcp(80).Name()], look, "")
	if keep != 0 || released || err != nil {
		t.Errorf("got %v, %v, %v", keep, released, err)
	}
}

func TestReleaseThatCannotLookKeepsTheClaim(t *testing.T) {
	m := NewFake(held(tcp(80), alice, "a1", 1, start))
	look := func(context.Context, *v1beta1.EdgeClaim) (HolderState, error) {
		return HolderState{}, errors.New("away")
	}
	_, released, err := ledgerAt(m, start.Add(time.Hour)).Release(t.Context(), m.stored[tcp(80).Name()], look, "a1")
	if want := "looking for StreamIngress shop/alice: away"; released || err == nil || err.Error() != want {
		t.Errorf("got released=%v, %v, want %s", released, err, want)
	}
	if m.stored[tcp(80).Name()] == nil {
		t.Error("the claim is gone")
	}
}

// TestReleaseGivesBack releases the claim of a stream that took over an entry of a ConfigMap: it is the ConfigMap's again, and
// goes only when the entry is settled.
func TestReleaseGivesBack(t *testing.T) {
	in := ConfigMapHolder("edge", "tcp-services")
	c := held(tcp(80), alice, "a1", 1, start)
	m := NewFake(c)
	l := ledgerAt(m, start.Add(time.Hour))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	stored := func() *v1beta1.EdgeClaim { return m.stored[tcp(80).Name()].DeepCopy() }
	must(l.Remember(t.Context(), stored(), &v1beta1.AdoptedEntry{Holder: in.Spec("m1"), Entry: "shop/web:80", Granted: true}))
	nobody := func(context.Context, *v1beta1.EdgeClaim) (HolderState, error) { return HolderState{}, nil }
	_, released, err := l.Release(t.Context(), stored(), nobody, "a1")
	must(err)
	entry, from, left := Adopted(stored())
	if !released || HolderOf(stored()) != in || stored().Spec.Renewed != nil || !left || from != in || entry.Entry != "shop/web:80" {
		t.Errorf("released=%v, the claim is %+v", released, stored().Spec)
	}
	must(l.Identify(t.Context(), stored(), "m2"))
	must(l.Remember(t.Context(), stored(), nil))
	if got := stored().Spec; got.Holder.UID != "m2" || got.Adopted != nil {
		t.Errorf("the claim is %+v", got)
	}
	_, released, err = l.Release(t.Context(), stored(), nobody, "")
	must(err)
	if !released || len(m.stored) != 0 {
		t.Errorf("released=%v, %d claims are left", released, len(m.stored))
	}
}

// TestReleaseOfWhatWasNeverGranted releases the claim of a stream that was promised the port of an entry, and never stored: it
// is the ConfigMap's like any other, and nothing is to become of the entry.
func TestReleaseOfWhatWasNeverGranted(t *testing.T) {
	in := ConfigMapHolder("edge", "tcp-services")
	c := held(tcp(80), alice, "a1", 1, start)
	c.Spec.Adopted = &v1beta1.AdoptedEntry{Holder: in.Spec("m1"), Entry: "shop/web:80"}
	m := NewFake(c)
	nobody := func(context.Context, *v1beta1.EdgeClaim) (HolderState, error) { return HolderState{}, nil }
	_, released, err := ledgerAt(m, start.Add(time.Hour)).Release(t.Context(), m.stored[tcp(80).Name()], nobody, "")
	if got := m.stored[tcp(80).Name()]; err != nil || !released || got == nil || HolderOf(got) != in || got.Spec.Adopted != nil {
		t.Errorf("released=%v, %v, the claim is %+v", released, err, got)
	}
}

func TestGraceLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		promised time.Time
		want     time.Duration
	}{
		"no promise":                    {time.Time{}, 0},
		"promised now":                  {start, DefaultGrace},
		"promised half a minute ago":    {start.Add(-30 * time.Second), DefaultGrace - 30*time.Second},
		"promised a grace ago":          {start.Add(-DefaultGrace), 0},
		"promised long ago":             {start.Add(-time.Hour), 0},
		"promised by a clock far ahead": {start.Add(time.Hour), DefaultGrace},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ledgerAt(nil, start).GraceLeft(held(tcp(80), alice, "a1", 1, tc.promised)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
