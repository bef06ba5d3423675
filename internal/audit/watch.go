package audit

import (
	"slices"
	"time"
)

// Watch tells the disagreements that last from those that come and go. Its zero value is ready.
type Watch struct {
	// Patience is how long a disagreement has to be there, in every look, until it is told.
	Patience time.Duration
	seen     map[Disagreement]*sighting
}

// sighting is since when a disagreement has been there.
type sighting struct {
	since time.Time
	told  bool
}

// Look takes what a look at the cluster has found. news are those that have lasted for long enough now, over those that
// were told and are gone.
func (w *Watch) Look(now time.Time, found []Disagreement) (news, over []Disagreement) {
	before := w.seen
	w.seen = make(map[Disagreement]*sighting, len(found))
	for _, d := range found {
		s := before[d]
		if s == nil {
			s = &sighting{since: now}
		}
		w.seen[d] = s
		if !s.told && now.Sub(s.since) >= w.Patience {
			s.told = true
			news = append(news, d)
		}
		delete(before, d)
	}
	for d, s := range before {
		if s.told {
			over = append(over, d)
		}
	}
	slices.SortFunc(over, byPoint)
	return news, over
}

// Suspects says how many disagreements are there and not told yet.
func (w *Watch) Suspects() int {
	n := 0
	for _, s := range w.seen {
		if !s.told {
			n++
		}
	}
	return n
}

// Standing counts the disagreements that are told and still there, by kind; every kind has a number.
func (w *Watch) Standing() map[Kind]int {
	counts := map[Kind]int{}
	for _, kind := range Kinds {
		counts[kind] = 0
	}
	for d, s := range w.seen {
		if s.told {
			counts[d.Kind]++
		}
	}
	return counts
}
