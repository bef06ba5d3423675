package claim

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
//	        grow over all lives of a name, so that late events of an earlier life change nothing. What comes before the
//	        answer is remembered until then. Events may come twice, and in any order.
//	read    What is later counts, the cache or the write.
//
// What came and went while a watch was broken is never told of: an entry lapses after CacheLag, and then nobody looks again for that.
// A restart forgets it all, and by then the cache has it. Claims are shared, and must not be changed.
type Written struct {
	clock clock.PassiveClock
	keys  func(*v1beta1.EdgeClaim) []string

	mu     sync.Mutex
	claims map[string]*written
	// ended counts the entries that have ended.
	ended int
}

// written is what was written under one name.
type written struct {
	// keyed is what was written last; its claim is nil when nothing was that the cache has not shown. deleted: it was deleted.
	keyed
	deleted bool
	until   time.Time
	// underway are the claims whose creation or update the API server has not answered, and deletions how many deletions.
	underway  []keyed
	deletions int
	// shown is the latest version of which an event has told since the first of all that began, and gone what was gone last.
	shown int64
	gone  types.UID
}

// keyed is a claim and the keys that it is listed under.
type keyed struct {
	claim *v1beta1.EdgeClaim
	keys  []string
}

// CacheLag is how long a write counts that no event confirms: longer than a cache lags behind as a rule. If it lags for longer,
// the store refuses what looked free, and nothing is lost but time.
const CacheLag = 10 * time.Second

// NewWritten makes one that knows of no write. keys are those under which a claim is listed.
func NewWritten(c clock.PassiveClock, keys func(*v1beta1.EdgeClaim) []string) *Written {
	return &Written{clock: c, keys: keys, claims: map[string]*written{}}
}

// Write has a claim created or updated; write leaves in it what the API server has answered.
func (w *Written) Write(c *v1beta1.EdgeClaim, write func() error) error {
	underway := w.keyed(c)
	w.change(c.Name, func(e *written) { e.underway = append(e.underway, underway) })
	err := write()
	answer := w.keyed(c)
	w.change(c.Name, func(e *written) {
		e.underway = slices.DeleteFunc(e.underway, func(other keyed) bool { return other.claim == underway.claim })
		if v := Version(c.ResourceVersion); err == nil && v > e.shown && v > e.version() && (c.UID == "" || c.UID != e.gone) {
			e.enter(answer, false, w.clock.Now())
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
		if v := Version(c.ResourceVersion); err == nil && v >= e.shown && v >= e.version() && (c.UID == "" || c.UID != e.gone) {
			e.enter(w.keyed(c), true, w.clock.Now())
		}
	})
	return err
}

func (w *Written) keyed(c *v1beta1.EdgeClaim) keyed { return keyed{c.DeepCopy(), w.keys(c)} }

func (e *written) enter(c keyed, deleted bool, now time.Time) {
	e.keyed, e.deleted, e.until = c, deleted, now.Add(CacheLag)
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
	if gone {
		e.gone = c.UID
	}
	if e.claim != nil && (v > e.version() || v == e.version() && !e.deleted || gone && c.UID == e.claim.UID) {
		w.end(c.Name, e)
	}
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

// end ends what counts of a name. The lock must be held, as for tidy.
func (w *Written) end(name string, e *written) {
	e.keyed = keyed{}
	w.ended++
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

// supersedes says whether a write is later than what the cache shows.
func (e *written) supersedes(c *v1beta1.EdgeClaim) bool {
	v := Version(c.ResourceVersion)
	return e.claim != nil && (v < e.version() || e.deleted && v == e.version())
}

// Get is the claim of a name, nil when there is none: the one in the cache, corrected by what was written here since.
func (w *Written) Get(name string, cached func() (*v1beta1.EdgeClaim, error)) (c *v1beta1.EdgeClaim, err error) {
	w.over(func() bool { c, err = cached(); return err == nil }, func() {
		switch e := w.claims[name]; {
		case e == nil || e.claim == nil || c != nil && !e.supersedes(c):
		case e.deleted:
			c = nil
		default:
			c = e.claim
		}
	})
	return c, err
}

// List lists the claims under a key: those that the cache lists, corrected by what was written here since. With underway, those
// whose creation or update has not been answered are among them.
func (w *Written) List(
	key string, cached func() ([]*v1beta1.EdgeClaim, error), underway bool,
) (claims []*v1beta1.EdgeClaim, err error) {
	w.over(func() bool { claims, err = cached(); return err == nil }, func() {
		if len(w.claims) > 0 {
			claims = w.correct(claims, key, underway)
		}
	})
	return claims, err
}

// correct replaces what a cache lists under a key by what was written later.
func (w *Written) correct(cached []*v1beta1.EdgeClaim, key string, underway bool) []*v1beta1.EdgeClaim {
	later := map[string]bool{} // or as late, by name
	claims := slices.DeleteFunc(cached, func(c *v1beta1.EdgeClaim) bool {
		e := w.claims[c.Name]
		if e != nil && e.supersedes(c) {
			return true
		}
		later[c.Name] = e != nil
		return false
	})
	for name, e := range w.claims {
		if later[name] {
			continue
		}
		if e.claim != nil && !e.deleted {
			if slices.Contains(e.keys, key) {
				claims = append(claims, e.claim)
			}
			continue
		}
		if i := slices.IndexFunc(e.underway, func(k keyed) bool { return slices.Contains(k.keys, key) }); underway && i >= 0 {
			claims = append(claims, e.underway[i].claim)
		}
	}
	return claims
}

// over reads the cache, and then corrects what was read, with the lock held. When a write ends meanwhile, the cache may have been
// read before it showed that write: then it is read again.
func (w *Written) over(read func() (ok bool), correct func()) {
	for {
		w.mu.Lock()
		w.lapse()
		ended := w.ended
		w.mu.Unlock()
		if !read() {
			return
		}
		w.mu.Lock()
		if w.ended == ended {
			correct()
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
	}
}

// lapse ends what no event has confirmed in time. The lock must be held.
func (w *Written) lapse() {
	now := w.clock.Now()
	for name, e := range w.claims {
		if e.claim != nil && !e.until.After(now) {
			w.end(name, e)
		}
	}
}
