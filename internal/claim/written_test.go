package claim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// life is the claim on one port, in one of its lives and versions.
func life(uid types.UID, version int64) *v1beta1.EdgeClaim {
	c := New(Stream("public", v1beta1.TCP, 80), Claimant{Holder: StreamHolder("shop", "a")})
	c.UID, c.ResourceVersion = uid, strconv.FormatInt(version, 10)
	return c
}

// byHolder lists claims by their holders.
func byHolder(c *v1beta1.EdgeClaim) []string { return []string{HolderOf(c).String()} }

// writtenSteps is a Written of one name beside what the cache shows of it.
type writtenSteps struct {
	*Written
	clock  *clocktesting.FakePassiveClock
	cached *v1beta1.EdgeClaim
}

func newWrittenSteps() *writtenSteps {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return &writtenSteps{Written: NewWritten(clock, byHolder), clock: clock}
}

// write has the API server answer with a claim, after something else has happened.
func (s *writtenSteps) write(answer *v1beta1.EdgeClaim, meanwhile ...func()) {
	c := answer.DeepCopy()
	c.ResourceVersion = ""
	_ = s.Write(c, func() error {
		for _, happens := range meanwhile {
			happens()
		}
		answer.DeepCopyInto(c)
		return nil
	})
}

// remove has the API server delete what is stored as c, and something else happen before it answers.
func (s *writtenSteps) remove(c *v1beta1.EdgeClaim, meanwhile ...func()) {
	_ = s.Delete(c, func() error {
		for _, happens := range meanwhile {
			happens()
		}
		return nil
	})
}

// show has the cache show a claim, and an event tell of it.
func (s *writtenSteps) show(c *v1beta1.EdgeClaim) { s.cached = c; s.Shown(c, false) }

// gone has the cache show that there is none, and an event tell of it.
func (s *writtenSteps) gone(c *v1beta1.EdgeClaim) { s.cached = nil; s.Shown(c, true) }

func (s *writtenSteps) pass(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

func (s *writtenSteps) read() string {
	c, err := s.Get(life("", 0).Name, func() (*v1beta1.EdgeClaim, error) { return s.cached, nil })
	if err != nil || c == nil {
		return ""
	}
	return c.ResourceVersion
}

// TestWrittenOfOneName goes through the cases of the protocol. want is the version that is read in the end, "" for none.
func TestWrittenOfOneName(t *testing.T) {
	for name, tc := range map[string]struct {
		steps func(*writtenSteps)
		want  string
		// kept says that an entry is left.
		kept bool
	}{
		"nothing is written":       {steps: func(*writtenSteps) {}},
		"the cache shows one":      {steps: func(s *writtenSteps) { s.show(life("a", 5)) }, want: "5"},
		"created":                  {steps: func(s *writtenSteps) { s.write(life("a", 5)) }, want: "5", kept: true},
		"created and shown":        {steps: func(s *writtenSteps) { s.write(life("a", 5)); s.show(life("a", 5)) }, want: "5"},
		"updated":                  {steps: func(s *writtenSteps) { s.show(life("a", 5)); s.write(life("a", 6)) }, want: "6", kept: true},
		"an older event":           {steps: func(s *writtenSteps) { s.write(life("a", 6)); s.show(life("a", 5)) }, want: "6", kept: true},
		"a newer event":            {steps: func(s *writtenSteps) { s.write(life("a", 5)); s.show(life("a", 6)) }, want: "6"},
		"the event comes first":    {steps: func(s *writtenSteps) { s.write(life("a", 5), func() { s.show(life("a", 5)) }) }, want: "5"},
		"came and went, then told": {steps: func(s *writtenSteps) { s.write(life("a", 5), func() { s.show(life("a", 5)); s.gone(life("a", 6)) }) }},
		"deleted":                  {steps: func(s *writtenSteps) { s.show(life("a", 5)); s.remove(life("a", 5)) }, kept: true},
		"deleted and shown":        {steps: func(s *writtenSteps) { s.show(life("a", 5)); s.remove(life("a", 5)); s.gone(life("a", 6)) }},
		"deleted, a late event":    {steps: func(s *writtenSteps) { s.remove(life("a", 5)); s.show(life("a", 5)) }, kept: true},
		"deleted, told first":      {steps: func(s *writtenSteps) { s.show(life("a", 5)); s.remove(life("a", 5), func() { s.gone(life("a", 6)) }) }},
		"created and deleted here": {steps: func(s *writtenSteps) { s.write(life("a", 5)); s.remove(life("a", 5)) }, kept: true},
		"deleted elsewhere":        {steps: func(s *writtenSteps) { s.write(life("a", 5)); s.gone(life("a", 7)) }},
		"deleted elsewhere, seen late": {steps: func(s *writtenSteps) {
			s.show(life("a", 4))
			s.write(life("a", 6))
			s.gone(life("a", 4)) // of what went unseen the last that was seen is told
		}},
		"created anew elsewhere": {steps: func(s *writtenSteps) { s.remove(life("a", 5)); s.show(life("b", 7)) }, want: "7"},
		"created anew here": {steps: func(s *writtenSteps) {
			s.show(life("a", 5))
			s.remove(life("a", 5))
			s.write(life("b", 7))
			s.Shown(life("a", 6), true)
			s.cached = nil
		}, want: "7", kept: true},
		"the former life is told of late": {steps: func(s *writtenSteps) {
			s.write(life("b", 7))
			s.show(life("a", 5))
			s.gone(life("a", 6))
		}, want: "7", kept: true},
		"an answer out of turn": {steps: func(s *writtenSteps) { s.write(life("a", 5), func() { s.write(life("a", 6)) }) }, want: "6", kept: true},
		"a late answer after a deletion": {steps: func(s *writtenSteps) {
			s.write(life("a", 5), func() { s.remove(life("a", 5)) })
		}, kept: true},
		"gone before the answer, seen late": {steps: func(s *writtenSteps) {
			s.show(life("a", 4))
			s.write(life("a", 6), func() { s.gone(life("a", 4)) })
		}},
		"deleted here, created anew here": {steps: func(s *writtenSteps) {
			s.show(life("a", 5))
			s.remove(life("a", 5))
			s.write(life("b", 7))
		}, want: "7", kept: true},
		"never told of":       {steps: func(s *writtenSteps) { s.write(life("a", 5)); s.pass(CacheLag) }},
		"not told of yet":     {steps: func(s *writtenSteps) { s.write(life("a", 5)); s.pass(CacheLag - 1) }, want: "5", kept: true},
		"the update lapses":   {steps: func(s *writtenSteps) { s.show(life("a", 5)); s.write(life("a", 6)); s.pass(CacheLag) }, want: "5"},
		"the deletion lapses": {steps: func(s *writtenSteps) { s.show(life("a", 5)); s.remove(life("a", 5)); s.pass(CacheLag) }, want: "5"},
		"written again": {steps: func(s *writtenSteps) {
			s.write(life("a", 5))
			s.pass(CacheLag / 2)
			s.write(life("a", 6))
			s.pass(CacheLag / 2)
		},
			want: "6", kept: true},
		"no answer": {steps: func(s *writtenSteps) { _ = s.Write(life("a", 5), func() error { return errors.New("away") }) }},
		"not deleted": {steps: func(s *writtenSteps) {
			s.show(life("a", 5))
			_ = s.Delete(life("a", 5), func() error { return errors.New("conflict") })
		}, want: "5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWrittenSteps()
			tc.steps(s)
			if got := s.read(); got != tc.want {
				t.Errorf("it is read at %q, want %q", got, tc.want)
			}
			if kept := len(s.claims) > 0; kept != tc.kept {
				t.Errorf("an entry is kept: %v, want %v", kept, tc.kept)
			}
		})
	}
}

// on is a claim of an object on a port.
func on(port int32, name string, version int64) *v1beta1.EdgeClaim {
	c := New(Stream("public", v1beta1.TCP, port), Claimant{Holder: StreamHolder("shop", name)})
	c.UID, c.ResourceVersion = types.UID(name), strconv.FormatInt(version, 10)
	return c
}

// TestWrittenList corrects a list of one holder's claims by what was written, and by what is being written.
func TestWrittenList(t *testing.T) {
	w := NewWritten(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), byHolder)
	done := func() error { return nil }
	cached := []*v1beta1.EdgeClaim{on(1, "a", 1), on(2, "a", 2), on(3, "a", 3), on(4, "a", 20)}
	_ = w.Delete(on(1, "a", 1), done)
	_ = w.Write(on(2, "b", 12), done) // it has another holder now
	_ = w.Write(on(4, "a", 14), done) // and has been updated since
	_ = w.Write(on(5, "a", 15), done)
	_ = w.Write(on(6, "b", 16), done)
	list := func(underway bool) (names []string) {
		claims, err := w.List(StreamHolder("shop", "a").String(), func() ([]*v1beta1.EdgeClaim, error) { return slices.Clone(cached), nil }, underway)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claims {
			names = append(names, fmt.Sprint(c.Name, "@", c.ResourceVersion))
		}
		slices.Sort(names)
		return names
	}
	want := []string{"stream.public.tcp.3@3", "stream.public.tcp.4@20", "stream.public.tcp.5@15"}
	if got := list(false); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_ = w.Write(on(3, "a", 0), func() error {
		return w.Write(on(7, "a", 0), func() error {
			if got := list(false); !slices.Equal(got, want) {
				t.Errorf("while others are written, got %v, want %v", got, want)
			}
			if got := list(true); !slices.Equal(got, append(want, "stream.public.tcp.7@0")) {
				t.Errorf("with those that are being written, got %v", got)
			}
			return errors.New("refused")
		})
	})
	if got := list(true); !slices.Equal(got, want) {
		t.Errorf("after a refusal, got %v, want %v", got, want)
	}
	broken := errors.New("broken")
	if _, err := w.List("", func() ([]*v1beta1.EdgeClaim, error) { return nil, broken }, false); !errors.Is(err, broken) {
		t.Error(err)
	}
}
