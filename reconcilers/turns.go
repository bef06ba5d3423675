package reconcilers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// turns lets one worker at a time look at an object.
type turns struct {
	mu   sync.Mutex
	busy map[types.NamespacedName]*turn
}

type turn struct {
	mu sync.Mutex
	// users are those who have the turn or wait for it.
	users int
}

func newTurns() *turns { return &turns{busy: map[types.NamespacedName]*turn{}} }

// take waits for the turn at an object, and returns what ends it.
func (t *turns) take(key types.NamespacedName) (end func()) {
	t.mu.Lock()
	one := t.busy[key]
	if one == nil {
		one = &turn{}
		t.busy[key] = one
	}
	one.users++
	t.mu.Unlock()
	one.mu.Lock()
	return func() {
		one.mu.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		one.users--
		if one.users == 0 {
			delete(t.busy, key)
		}
	}
}
