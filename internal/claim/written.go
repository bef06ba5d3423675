package claim

import (
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Written is what this replica has written to claims, as far as its cache does not show it yet. It is the one answer to the
// question whether the cache lags behind a write of ours: the ledger writes through it, and what is read of the cache is
// corrected by it. It protects nothing: the store decides who has a point. The protocol, for each name:
//
//	write   A claim that was created, updated or deleted counts as the API server has answered. A write whose answer was lost
//	        may have happened or not: nothing is entered, and an event will tell.
//	event   One of that version or a later one, or that the same claim is gone, ends it: the cache has it now. Versions
//	        grow over all lives of a name, so that late events of an earlier life change nothing. One that comes before
//	        the answer is remembered until then. Events may come twice, and in any order.
//	read    What is later counts, the cache or the write.
//
// What came and went while a watch was broken is never told of: an entry lapses after CacheLag. A restart forgets it all, and
// by then the cache has it. Claims are shared, and must not be changed.
type Written struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	claims map[string]*written
}

// written is what was written under one name.
type written struct {
	// claim is what was written last, nil when nothing was that the cache has not shown. replaces says that the cache may show
	// another version, and deleted that it was deleted.
	claim    *v1beta1.EdgeClaim
	replaces bool
	deleted  bool
	until    time.Time
	// underway are the claims whose creation or update the API server has not answered, and deletions how many deletions.
	underway  []*v1beta1.EdgeClaim
	deletions int
	// shown is the latest version of which an event has told since the first of all that began.
	shown int64
}

// CacheLag is how long a write counts that no event confirms: longer than a cache lags behind as a rule. If it lags for longer,
// the store refuses what looked free, and nothing is lost but time.
const CacheLag = 10 * time.Second

// NewWritten makes one that knows of no write.
func NewWritten(c clock.PassiveClock) *Written {
	return &Written{clock: c, claims: map[string]*written{}}
}

// Write has a claim created or updated; write leaves in it what the API server has answered.
func (w *Written) Write(c *v1beta1.EdgeClaim, write func() error) error {
	underway := c.DeepCopy()
	w.change(c.Name, func(e *written) { e.underway = append(e.underway, underway) })
	err := write()
	w.change(c.Name, func(e *written) {
		// Readers may have the slice as it was.
		e.underway = slices.DeleteFunc(slices.Clone(e.underway), func(other *v1beta1.EdgeClaim) bool { return other == underway })
		if v := Version(c.ResourceVersion); err == nil && v > e.shown && v > e.version() {
			e.replaces = e.replaces && e.claim != nil || underway.ResourceVersion != ""
			e.claim, e.deleted, e.until = c.DeepCopy(), false, w.clock.Now().Add(CacheLag)
		}
	})
	return err
}

// Delete has a claim deleted that is stored as given.
func (w *Written) Delete(c *v1beta1.EdgeClaim, remove func() error) error {
	w.change(c.Name, func(e *written) { e.deletions++ })
	err := remove()
	w.change(c.Name, func(e *written) {
		e.deletions--
		if v := Version(c.ResourceVersion); err == nil && v >= e.shown && v >= e.version() {
			e.claim, e.replaces, e.deleted, e.until = c.DeepCopy(), true, true, w.clock.Now().Add(CacheLag)
		}
	})
	return err
}

// Shown enters that the cache shows a claim, or that it is gone, with the last version that is known of it.
func (w *Written) Shown(c *v1beta1.EdgeClaim, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.claims[c.Name]
	if e == nil {
		return
	}
	v := Version(c.ResourceVersion)
	e.shown = max(e.shown, v)
	if e.claim == nil {
		return
	}
	ended := gone && c.UID == e.claim.UID
	if v > e.version() || v == e.version() && !e.deleted || ended {
		e.claim = nil
	}
	w.tidy(c.Name, e)
}

// change changes the entry of a name, and removes it when it says nothing any longer.
func (w *Written) change(name string, f func(*written)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.claims[name]
	if e == nil {
		e = &written{}
		w.claims[name] = e
	}
	f(e)
	w.tidy(name, e)
}

func (w *Written) tidy(name string, e *written) {
	if e.claim == nil && len(e.underway) == 0 && e.deletions == 0 {
		delete(w.claims, name)
	}
}

// version is that of the last write, 0 when none counts.
func (e *written) version() int64 {
	if e.claim == nil {
		return 0
	}
	return Version(e.claim.ResourceVersion)
}

// Get is the claim of a name, nil when there is none: the one in the cache, corrected by what was written here since.
func (w *Written) Get(name string, cached func() (*v1beta1.EdgeClaim, error)) (*v1beta1.EdgeClaim, error) {
	w.mu.Lock()
	e := w.current(name) // before the cache is read: what ends meanwhile the cache shows
	w.mu.Unlock()
	c, err := cached()
	switch {
	case err != nil || e.claim == nil || c != nil && !e.supersedes(c):
		return c, err
	case e.deleted:
		return nil, nil
	default:
		return e.claim, nil
	}
}

// List lists the claims that match: those that the cache lists, corrected by what was written here since. With underway, those
// whose creation or update has not been answered are among them.
func (w *Written) List(
	cached func() ([]*v1beta1.EdgeClaim, error), match func(*v1beta1.EdgeClaim) bool, underway bool,
) ([]*v1beta1.EdgeClaim, error) {
	since := w.since(match, underway) // before the cache is read, as in Get
	claims, err := cached()
	if err != nil || len(since) == 0 {
		return claims, err
	}
	claims = slices.DeleteFunc(claims, func(c *v1beta1.EdgeClaim) bool {
		if e, known := since[c.Name]; known && e.supersedes(c) {
			return true
		}
		delete(since, c.Name)
		return false
	})
	for _, e := range since {
		c := e.claim
		if e.deleted {
			c = nil
		}
		if c == nil && underway && len(e.underway) > 0 {
			c = e.underway[0]
		}
		if c != nil && match(c) {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

// since are the entries that may matter to a list of claims that match.
func (w *Written) since(match func(*v1beta1.EdgeClaim) bool, underway bool) map[string]written {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := map[string]written{}
	for name := range w.claims {
		e := w.current(name)
		if e.claim != nil && (e.replaces || match(e.claim)) || underway && slices.ContainsFunc(e.underway, match) {
			since[name] = e
		}
	}
	return since
}

// current is what counts of a name now. The lock must be held.
func (w *Written) current(name string) written {
	e := w.claims[name]
	if e == nil {
		return written{}
	}
	if e.claim != nil && !e.until.After(w.clock.Now()) {
		e.claim = nil
		w.tidy(name, e)
	}
	return *e
}

// supersedes says whether a write is later than what the cache shows.
func (e *written) supersedes(c *v1beta1.EdgeClaim) bool {
	v := Version(c.ResourceVersion)
	return e.claim != nil && (v < e.version() || e.deleted && v == e.version())
}
