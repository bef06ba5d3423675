package claim

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// writtenModel is an API server, a cache that lags behind it, handlers that lag behind the cache, and what was written here.
type writtenModel struct {
	*testing.T
	rng     *rand.Rand
	clock   *clocktesting.FakePassiveClock
	written *Written
	version int64
	// stored is what the API server has, cached what the cache has, and coming what it will.
	stored, cached map[string]*v1beta1.EdgeClaim
	coming         []writtenEvent
	// told are the events that handlers have not been given yet, and handed the latest version that one was given of a name.
	told   []writtenEvent
	handed map[string]int64
	// promised are the writes of ours that were answered.
	promised map[string]*v1beta1.EdgeClaim
	depth    int
}

type writtenEvent struct {
	claim *v1beta1.EdgeClaim
	gone  bool
}

var errLost = errors.New("the answer is lost")

func newWrittenModel(t *testing.T, seed uint64) *writtenModel {
	m := &writtenModel{
		T: t, rng: rand.New(rand.NewPCG(seed, 1)), clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		stored: map[string]*v1beta1.EdgeClaim{}, cached: map[string]*v1beta1.EdgeClaim{},
		handed: map[string]int64{}, promised: map[string]*v1beta1.EdgeClaim{},
	}
	m.written = NewWritten(m.clock, byHolder)
	return m
}

var holders = []Holder{StreamHolder("shop", "a"), StreamHolder("shop", "b"), StreamHolder("shop", "c")}

func nameAt(port int32) string { return Stream("public", v1beta1.TCP, port).Name() }

// next is a claim at the next version.
func (m *writtenModel) next(c *v1beta1.EdgeClaim) *v1beta1.EdgeClaim {
	m.version++
	c = c.DeepCopy()
	c.ResourceVersion = strconv.FormatInt(m.version, 10)
	if c.UID == "" {
		c.UID = types.UID("life-" + c.ResourceVersion)
	}
	return c
}

// meanwhile lets other things happen before an answer comes.
func (m *writtenModel) meanwhile() {
	m.depth++
	if m.depth < 4 {
		for range m.rng.IntN(4) {
			m.step()
		}
	}
	m.depth--
}

// write creates or updates the claim on a port, here or by another replica.
func (m *writtenModel) write(port int32, here bool) {
	c := New(Stream("public", v1beta1.TCP, port), Claimant{Holder: holders[m.rng.IntN(len(holders))]})
	if before := m.stored[c.Name]; before != nil {
		c.UID = before.UID
	}
	var stored *v1beta1.EdgeClaim
	store := func() {
		stored = m.next(c)
		m.stored[c.Name] = stored
		m.coming = append(m.coming, writtenEvent{claim: stored})
	}
	if !here {
		store()
		return
	}
	err := m.written.Write(c, func() error {
		store()
		m.meanwhile()
		if m.rng.IntN(5) == 0 {
			return errLost
		}
		stored.DeepCopyInto(c)
		return nil
	})
	if before := m.promised[c.Name]; err == nil && (before == nil || Version(before.ResourceVersion) < Version(stored.ResourceVersion)) {
		m.promised[c.Name] = stored
	}
}

// remove deletes the claim on a port. Whoever does, read it as it is stored.
func (m *writtenModel) remove(port int32, here bool) {
	c := m.stored[nameAt(port)]
	if c == nil {
		return
	}
	remove := func() {
		delete(m.stored, c.Name)
		m.coming = append(m.coming, writtenEvent{m.next(c), true})
	}
	if !here {
		remove()
		return
	}
	if err := m.written.Delete(c, func() error {
		remove()
		m.meanwhile()
		if m.rng.IntN(5) == 0 {
			return errLost
		}
		return nil
	}); err == nil && m.stored[c.Name] == nil {
		if got := m.read(c.Name); got != nil && got.UID == c.UID {
			m.Fatalf("%s was deleted here, and is read at %s", c.Name, got.ResourceVersion)
		}
	}
}

func (m *writtenModel) read(name string) *v1beta1.EdgeClaim {
	c, err := m.written.Get(name, func() (*v1beta1.EdgeClaim, error) {
		is := m.cached[name]
		m.between()
		return is, nil
	})
	if err != nil {
		m.Fatal(err)
	}
	return c
}

// between lets the cache and the handlers go on while somebody reads.
func (m *writtenModel) between() {
	for range m.rng.IntN(4) {
		if m.rng.IntN(2) == 0 {
			m.show()
		} else if len(m.told) > 0 {
			e := m.told[0]
			m.told = m.told[1:]
			m.written.Shown(e.claim, e.gone)
		}
	}
}

// list reads the claims of a holder.
func (m *writtenModel) list(by Holder) map[string]string {
	claims, err := m.written.List(by.String(), func() (cached []*v1beta1.EdgeClaim, _ error) {
		for _, c := range m.cached {
			if HolderOf(c) == by {
				cached = append(cached, c)
			}
		}
		m.between()
		return cached, nil
	}, false)
	if err != nil {
		m.Fatal(err)
	}
	all := map[string]string{}
	for _, c := range claims {
		if _, twice := all[c.Name]; twice || HolderOf(c) != by {
			m.Fatalf("%v has %v, %v", by, all, c)
		}
		all[c.Name] = c.ResourceVersion
	}
	return all
}

// show has the cache take in the next event.
func (m *writtenModel) show() {
	if len(m.coming) == 0 {
		return
	}
	e := m.coming[0]
	m.coming = m.coming[1:]
	m.take(e)
}

func (m *writtenModel) take(e writtenEvent) {
	if e.gone {
		delete(m.cached, e.claim.Name)
	} else {
		m.cached[e.claim.Name] = e.claim
	}
	m.told = append(m.told, e)
}

// relist has a watch break: what the cache has not taken in yet it never will, and it lists all.
func (m *writtenModel) relist() {
	m.coming = nil
	for _, name := range slices.Sorted(maps.Keys(m.stored)) {
		m.take(writtenEvent{claim: m.stored[name]})
	}
	for name, last := range maps.Clone(m.cached) {
		if m.stored[name] == nil {
			m.take(writtenEvent{last, true})
		}
	}
}

// hand gives a handler any of the events that it has not been given yet: there are several handlers, side by side. It looks at
// what the event is about, and must not see what was before.
func (m *writtenModel) hand() {
	if len(m.told) == 0 {
		return
	}
	i := m.rng.IntN(len(m.told))
	e := m.told[i]
	if m.rng.IntN(3) > 0 {
		m.told = slices.Delete(m.told, i, i+1)
	}
	m.written.Shown(e.claim, e.gone)
	name, v := e.claim.Name, Version(e.claim.ResourceVersion)
	if got := m.read(name); got != nil {
		if is := Version(got.ResourceVersion); is < v || e.gone && is == v {
			m.Fatalf("a handler is told that %s is at %d (gone: %v), and reads it at %d", name, v, e.gone, is)
		}
	}
}

func (m *writtenModel) step() {
	port, here := int32(m.rng.IntN(4)+1), m.rng.IntN(2) == 0
	switch m.rng.IntN(14) {
	case 0, 1, 2:
		m.write(port, here)
	case 3, 4:
		m.remove(port, here)
	case 5:
		if m.rng.IntN(4) == 0 {
			m.relist()
		}
	case 6, 7, 8, 9:
		m.hand()
	default:
		m.show()
	}
}

// check holds that what was written here and answered is read, as of that version or later, while it is stored in that life.
func (m *writtenModel) check() {
	m.Helper()
	for name, promised := range m.promised {
		known, stored := m.read(name), m.stored[name]
		switch {
		case stored == nil || stored.UID != promised.UID:
			delete(m.promised, name)
		case known == nil || Version(known.ResourceVersion) < Version(promised.ResourceVersion):
			m.Fatalf("%s was written here at %s, is stored, and is read as %v", name, promised.ResourceVersion, known)
		}
	}
	for _, by := range holders {
		listed := m.list(by)
		for name, promised := range m.promised {
			if m.stored[name] == promised && HolderOf(promised) == by && listed[name] != promised.ResourceVersion {
				m.Fatalf("%s was written here at %s, is stored, and is listed at %q", name, promised.ResourceVersion, listed[name])
			}
			if m.stored[name] == promised && HolderOf(promised) != by && listed[name] != "" {
				m.Fatalf("%s was written here for %v, is stored, and is listed for %v", name, HolderOf(promised), by)
			}
		}
	}
}

// TestWrittenModel goes through random histories of writes, lost and late answers, deletions, broken watches, and events that handlers
// are given late, twice, and out of order.
func TestWrittenModel(t *testing.T) {
	for seed := range uint64(500) {
		m := newWrittenModel(t, seed)
		for range 120 {
			m.step()
			m.check()
		}
		for len(m.coming) > 0 {
			m.show()
			m.check()
		}
		for len(m.told) > 0 {
			m.hand()
			m.check()
		}
		m.clock.SetTime(m.clock.Now().Add(CacheLag))
		for port := int32(1); port <= 4; port++ {
			got, want := m.read(nameAt(port)), m.stored[nameAt(port)]
			if got != want && (got == nil || want == nil || got.ResourceVersion != want.ResourceVersion) {
				t.Fatalf("seed %d: %s is read as %v, and stored as %v", seed, nameAt(port), got, want)
			}
		}
		if len(m.written.claims) > 0 {
			t.Fatalf("seed %d: %d entries are left", seed, len(m.written.claims))
		}
	}
}
