package audit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWatch shows a series of looks, ten seconds apart, to a watch with a patience of thirty.
func TestWatch(t *testing.T) {
	a := Disagreement{Kind: ClaimWithoutHolder, Point: tcp(1), Holder: postgres}
	b := Disagreement{Kind: PointWithoutClaim, Point: tcp(2)}
	again := a
	again.Object.UID = "another"
	type look struct {
		found, news, over []Disagreement
		suspects          int
		standing          [2]int
	}
	for name, looks := range map[string][]look{
		"all is well": {{}, {}, {}, {}, {}},
		"what comes and goes is not told": {
			{found: []Disagreement{a, b}, suspects: 2}, {found: []Disagreement{a}, suspects: 1}, {}, {found: []Disagreement{a}, suspects: 1}, {},
		},
		"what lasts is told once, and once more when it is over": {
			{found: []Disagreement{a}, suspects: 1}, {found: []Disagreement{a}, suspects: 1}, {found: []Disagreement{a}, suspects: 1},
			{found: []Disagreement{a}, news: []Disagreement{a}, standing: [2]int{1, 0}},
			{found: []Disagreement{a}, standing: [2]int{1, 0}},
			{over: []Disagreement{a}}, {},
		},
		"what is gone in one look starts anew": {
			{found: []Disagreement{a}, suspects: 1}, {found: []Disagreement{a}, suspects: 1}, {},
			{found: []Disagreement{a}, suspects: 1}, {found: []Disagreement{a}, suspects: 1}, {found: []Disagreement{a}, suspects: 1},
			{found: []Disagreement{a}, news: []Disagreement{a}, standing: [2]int{1, 0}},
		},
		"another claim on the same point is another": {
			{found: []Disagreement{a}, suspects: 1}, {found: []Disagreement{again}, suspects: 1}, {found: []Disagreement{a}, suspects: 1},
			{found: []Disagreement{again}, suspects: 1},
		},
		"each has its own time": {
			{found: []Disagreement{a}, suspects: 1}, {found: []Disagreement{a, b}, suspects: 2}, {found: []Disagreement{a, b}, suspects: 2},
			{found: []Disagreement{a, b}, news: []Disagreement{a}, suspects: 1, standing: [2]int{1, 0}},
			{found: []Disagreement{a, b}, news: []Disagreement{b}, standing: [2]int{1, 1}},
			{found: []Disagreement{b}, over: []Disagreement{a}, standing: [2]int{0, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := Watch{Patience: 30 * time.Second}
			now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
			for i, l := range looks {
				news, over := w.Look(now, l.found)
				standing := w.Standing()
				if len(standing) != len(Kinds) {
					t.Errorf("look %d: standing is %v", i, standing)
				}
				got := look{l.found, news, over, w.Suspects(), [2]int{standing[ClaimWithoutHolder], standing[PointWithoutClaim]}}
				if diff := cmp.Diff(l, got, cmp.AllowUnexported(look{}), cmp.Comparer(func(a, b Disagreement) bool { return a == b })); diff != "" {
					t.Errorf("look %d (-want +got):\n%s", i, diff)
				}
				now = now.Add(10 * time.Second)
			}
		})
	}
}
