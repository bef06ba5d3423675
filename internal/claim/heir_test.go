package claim

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var (
	giver = StreamHolder("shop", "giver")
	heir  = StreamHolder("data", "heir")
	third = StreamHolder("blog", "third")
)

// promisedTo is a claim with an heir, promised at a time.
func promisedTo(c *v1beta1.EdgeClaim, heir Holder, uid types.UID, generation int64, at time.Time) *v1beta1.EdgeClaim {
	c = c.DeepCopy()
	c.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: heir.Spec(uid), Renewed: metav1.MicroTime{Time: at}}
	c.Spec.Heir.Generation = generation
	return c
}

// handingTo is a ledger over a store at a time, with holders who hand over to somebody, to nobody for the zero Holder.
func handingTo(store Store, now time.Time, to Holder) *Ledger {
	l := ledgerAt(store, now)
	l.HandsOver = func(_ context.Context, found *v1beta1.EdgeClaim, asks Claimant, _ bool) (bool, error) {
		return HolderOf(found) == giver && asks.Holder == to, nil
	}
	return l
}

// TestReserveWhatIsHandedOver covers whom a holder hands over to, and who asks. Check says the same, and writes nothing.
func TestReserveWhatIsHandedOver(t *testing.T) {
	now := start.Add(time.Hour)
	his := held(tcp(80), giver, "g", 1, time.Time{})
	for name, tc := range map[string]struct {
		stored *v1beta1.EdgeClaim
		to     Holder
		by     Claimant
		want   *v1beta1.EdgeClaim // nil for a refusal
	}{
		"who is named":               {his, heir, Claimant{Holder: heir, UID: "h", Generation: 3}, promisedTo(his, heir, "h", 3, now)},
		"who is not":                 {his, heir, Claimant{Holder: third, UID: "t"}, nil},
		"nobody is named":            {his, Holder{}, Claimant{Holder: heir, UID: "h"}, nil},
		"who is named, once more":    {promisedTo(his, heir, "h", 3, start), heir, Claimant{Holder: heir, UID: "h", Generation: 4}, promisedTo(his, heir, "h", 4, now)},
		"of two creations of a name": {promisedTo(his, heir, "h1", 1, now), heir, Claimant{Holder: heir, UID: "h2", Generation: 1}, promisedTo(his, heir, "", 0, now.Add(time.Microsecond))},
		"another was promised it":    {promisedTo(his, third, "t", 1, now), heir, Claimant{Holder: heir, UID: "h"}, nil},
		"it was withdrawn since":     {promisedTo(his, heir, "h", 3, now), Holder{}, Claimant{Holder: heir, UID: "h", Generation: 4}, nil},
		"its holder asks again":      {promisedTo(his, heir, "h", 3, start), heir, Claimant{Holder: giver, UID: "g", Generation: 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewFake(tc.stored)
			l := handingTo(m, now, tc.to)
			checked := l.Check(t.Context(), tc.by, nil, tcp(80))
			if m.writes > 0 {
				t.Errorf("a check has written")
			}
			err := l.Reserve(t.Context(), tc.by, nil, tcp(80))
			if IsHeld(checked) != (tc.want == nil) || IsHeld(err) != (tc.want == nil) || !IsHeld(err) && err != nil {
				t.Fatalf("checked: %v, reserved: %v", checked, err)
			}
			if tc.want == nil {
				tc.want = tc.stored
			}
			if diff := cmp.Diff(tc.want, m.stored[tcp(80).Name()], fromStore); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestClaimWhatIsHandedOver has stored objects claim what a holder hands over, or has handed over: they were promised it, or got past
// admission. What was taken over with the point is remembered, and both sides are told.
func TestClaimWhatIsHandedOver(t *testing.T) {
	his := held(tcp(80), giver, "g", 1, start)
	his.Spec.Adopted = &v1beta1.AdoptedEntry{Holder: ConfigMapHolder("edge", "tcp").Spec("c"), Entry: "shop/db:80", Granted: true}
	his.Spec.RouteNamespaces = []string{"shop"}
	hers := his.DeepCopy()
	hers.Spec.Holder, hers.Spec.HeldBy, hers.Spec.Renewed = heir.Spec("h"), heir.String(), nil
	for name, tc := range map[string]struct {
		stored *v1beta1.EdgeClaim
		to     Holder
		by     Holder
		yes    bool
	}{
		"who was promised it":                         {promisedTo(his, heir, "h", 0, start), heir, heir, true},
		"who was promised it, and it was withdrawn":   {promisedTo(his, heir, "h", 0, start), Holder{}, heir, true},
		"another of its name, and it was withdrawn":   {promisedTo(his, heir, "other", 0, start), Holder{}, heir, false},
		"one of two, and it was withdrawn":            {promisedTo(his, heir, "", 0, start), Holder{}, heir, false},
		"who is named, and got past admission":        {his, heir, heir, true},
		"who is not named":                            {his, heir, third, false},
		"who is named, after another was promised it": {promisedTo(his, third, "t", 0, start), heir, heir, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewFake(tc.stored)
			l := handingTo(m, start.Add(time.Minute), tc.to)
			var told []string
			l.HandedOver = func(_ context.Context, from v1beta1.ClaimHolder, to *v1beta1.EdgeClaim) {
				told = append(told, from.Name+" to "+to.Spec.Holder.Name)
			}
			_, err := l.Claim(t.Context(), Claimant{Holder: tc.by, UID: "h"}, nil, tcp(80))
			if IsHeld(err) == tc.yes || !IsHeld(err) && err != nil {
				t.Fatalf("got %v", err)
			}
			want, tells := tc.stored, 0
			if tc.yes {
				want, tells = hers.DeepCopy(), 1
				if HeirOf(tc.stored) == tc.by { // another change of it may have been promised the point by then
					want.Spec.Renewed = &metav1.MicroTime{Time: start.Add(time.Microsecond)}
				}
			}
			if diff := cmp.Diff(want, m.stored[tcp(80).Name()], fromStore); diff != "" || len(told) != tells {
				t.Errorf("told %q; %s", told, diff)
			}
		})
	}
}

// TestInherit covers each state in which an heir can be found, a minute after it was promised the point unless it says otherwise.
func TestInherit(t *testing.T) {
	his := held(tcp(80), giver, "g", 1, time.Time{})
	for name, tc := range map[string]struct {
		seen  HolderState
		gone  types.UID
		after time.Duration
		// nobody says that the giver no longer names the heir.
		nobody bool
		keep   time.Duration
		// want is who holds the claim then, and waits is its heir.
		want, waits Holder
	}{
		"it is stored, and asks for the point":          {seen: HolderState{true, "h", 2, true}, want: heir},
		"it is stored in another life, and asks for it": {seen: HolderState{true, "h2", 1, true}, want: heir},
		"it is stored, and no longer named":             {seen: HolderState{true, "h", 2, true}, nobody: true, want: heir},
		"another life of it, which is no longer named":  {seen: HolderState{true, "h2", 1, true}, nobody: true, keep: time.Minute, want: giver, waits: heir},
		"the same, after the grace":                     {seen: HolderState{true, "h2", 1, true}, nobody: true, after: DefaultGrace, want: giver},
		"it is not stored yet":                          {keep: time.Minute, want: giver, waits: heir},
		"it was not stored within the grace":            {after: DefaultGrace, want: giver},
		"it was stored, and is gone":                    {gone: "h", want: giver},
		"its change is not stored yet":                  {seen: HolderState{true, "h", 1, false}, keep: time.Minute, want: giver, waits: heir},
		"it asks for another one since":                 {seen: HolderState{true, "h", 3, false}, want: giver},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewFake(promisedTo(his, heir, "h", 2, start))
			if tc.after == 0 {
				tc.after = time.Minute
			}
			to := heir
			if tc.nobody {
				to = Holder{}
			}
			l := handingTo(m, start.Add(tc.after), to)
			look := func(_ context.Context, c *v1beta1.EdgeClaim) (HolderState, error) {
				if HolderOf(c) != heir {
					t.Errorf("looked at %s", HolderOf(c))
				}
				return tc.seen, nil
			}
			keep, err := l.Inherit(t.Context(), m.stored[tcp(80).Name()].DeepCopy(), look, tc.gone)
			got := m.stored[tcp(80).Name()]
			if err != nil || keep != tc.keep || HolderOf(got) != tc.want || HeirOf(got) != tc.waits {
				t.Errorf("kept for %s, %v: held by %s, heir %s", keep, err, HolderOf(got), HeirOf(got))
			}
		})
	}
}

// TestNoTakingOfWhatIsPromisedToAnHeir has somebody whom holders give way to ask for a point that is being handed over.
func TestNoTakingOfWhatIsPromisedToAnHeir(t *testing.T) {
	m := NewFake(promisedTo(held(tcp(80), giver, "g", 1, start), heir, "h", 1, start))
	always := func(*v1beta1.EdgeClaim) bool { return true }
	if err := handingTo(m, start, heir).Reserve(t.Context(), Claimant{Holder: third, UID: "t"}, always, tcp(80)); !IsHeld(err) {
		t.Errorf("got %v", err)
	}
}

// TestNamedHeir reads the annotation.
func TestNamedHeir(t *testing.T) {
	for value, want := range map[string]types.NamespacedName{
		"data/heir": {Namespace: "data", Name: "heir"}, "data/heir.example": {Namespace: "data", Name: "heir.example"},
		"": {}, "heir": {}, "/heir": {}, "data/": {}, "a/b/c": {}, "Data/heir": {}, "data/he ir": {}, " data/heir": {},
	} {
		got, ok := NamedHeir(&metav1.ObjectMeta{Annotations: map[string]string{v1beta1.AnnotationHandOverTo: value}})
		if got != want || ok != (want != types.NamespacedName{}) {
			t.Errorf("%q: %v, %v", value, got, ok)
		}
	}
	if _, ok := NamedHeir(&metav1.ObjectMeta{}); ok {
		t.Error("an object without the annotation names somebody")
	}
}

// FuzzNamedHeir has anything in the annotation: what is read is a namespace and a name that an object can have, as they stand there.
func FuzzNamedHeir(f *testing.F) {
	f.Add("data/heir")
	f.Add("a/b/c")
	f.Fuzz(func(t *testing.T, value string) {
		got, ok := NamedHeir(&metav1.ObjectMeta{Annotations: map[string]string{v1beta1.AnnotationHandOverTo: value}})
		if ok && (got.String() != value || len(value) > MaxHeir) {
			t.Errorf("%q is read as %s", value, got)
		}
	})
}
