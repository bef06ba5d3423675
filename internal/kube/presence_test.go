package kube

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// mapper is asked for kinds.
type mapper struct {
	meta.RESTMapper
	asked int
	err   error
}

func (m *mapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	m.asked++
	return nil, m.err
}

// TestPresence looks for a kind that is installed later: not more often than every second, and never again once it was
// found.
func TestPresence(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	asked := &mapper{err: &meta.NoKindMatchError{}}
	p := &presence{mapper: asked, clock: clock}
	expect := func(want bool, lookups int) {
		t.Helper()
		if got, err := p.installed(); got != want || err != nil || asked.asked != lookups {
			t.Errorf("installed is %v %v after %d lookups, want %v after %d", got, err, asked.asked, want, lookups)
		}
	}
	expect(false, 1)
	p.lookAgain()
	expect(false, 2) // somebody knows better than to wait
	asked.err = nil
	expect(false, 2)
	clock.SetTime(clock.Now().Add(time.Second))
	expect(true, 3)
	asked.err = errors.New("the API server is away")
	clock.SetTime(clock.Now().Add(time.Hour))
	expect(true, 3)

	p = &presence{mapper: asked, clock: clock}
	if _, err := p.installed(); err == nil {
		t.Error("not to know is told as not to be there")
	}
}
