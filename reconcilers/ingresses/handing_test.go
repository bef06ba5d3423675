package ingresses

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// heirPatience is how long a giver waits here, less than for a certificate.
const heirPatience = issuerPatience / 4

func TestHandingWaits(t *testing.T) {
	h, key := newHanding(), types.NamespacedName{Namespace: "shop", Name: "web"}
	other := types.NamespacedName{Namespace: "blog", Name: "web"}
	a, b := claim.HTTP("a.test", "/"), claim.HTTP("b.test", "/")
	each := func(points ...claim.Coordinate) map[claim.Coordinate]time.Duration {
		patience := map[claim.Coordinate]time.Duration{}
		for _, at := range points {
			patience[at] = heirPatience
		}
		return patience
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		what  string
		after time.Duration
		on    []claim.Coordinate
		want  []claim.Coordinate
	}{
		{"the first", 0, []claim.Coordinate{a}, []claim.Coordinate{a}},
		{"another one later", heirPatience - 1, []claim.Coordinate{a, b}, []claim.Coordinate{a, b}},
		{"the first for too long", heirPatience, []claim.Coordinate{a, b}, []claim.Coordinate{b}},
		{"it no longer waits for the first", heirPatience + 1, []claim.Coordinate{b}, []claim.Coordinate{b}},
		{"and does so again", heirPatience + 2, []claim.Coordinate{a, b}, []claim.Coordinate{a, b}},
		{"for nothing", 2 * heirPatience, nil, nil},
	} {
		if got := h.wait(h.heirs, key, start.Add(step.after), each(step.on...)); !slices.Equal(got, step.want) {
			t.Errorf("%s: it waits for %v", step.what, got)
		}
		if got := h.wait(h.givers, key, start, each(a)); len(got) != 1 {
			t.Errorf("%s: for those to leave it waits for %v", step.what, got)
		}
	}
	if len(h.heirs) > 0 {
		t.Errorf("it keeps %v", h.heirs)
	}
	h.wait(h.givers, other, start, each(b))
	h.refuses(key, true)
	if !h.isRefused(key) || h.isRefused(other) || len(h.awaited(h.givers, key)) != 1 {
		t.Error("it does not know who is refused")
	}
	h.refuses(key, false)
	if h.isRefused(key) || len(h.awaited(h.givers, key)) > 0 {
		t.Error("one that is written waits for others to leave")
	}
	if got := h.wait(h.heirs, key, start, map[claim.Coordinate]time.Duration{a: heirPatience, b: issuerPatience}); len(got) != 2 {
		t.Errorf("it waits for %v", got)
	}
	if got := h.wait(h.heirs, key, start.Add(heirPatience), map[claim.Coordinate]time.Duration{a: heirPatience, b: issuerPatience}); !slices.Equal(got, []claim.Coordinate{b}) {
		t.Errorf("it waits for a certificate for no longer than for an Ingress: %v", got)
	}
	h.refuses(other, true)
	h.forget(other)
	if h.isRefused(other) || len(h.givers) > 0 {
		t.Errorf("it keeps %v", h.givers)
	}
}
