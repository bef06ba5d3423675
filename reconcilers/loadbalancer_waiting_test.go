package reconcilers

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestWaiting(t *testing.T) {
	w := newWaiting()
	web, db := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "db"}
	pause := func(what string, key types.NamespacedName, want time.Duration) {
		t.Helper()
		if got := w.pause(key); got != want {
			t.Errorf("%s: pause %s, want %s", what, got, want)
		}
	}
	pause("it does not wait", web, 0)
	w.set(web, true)
	pause("it waits", web, 2*settle)
	w.set(web, true) // it was looked at, and still waits
	pause("for longer", web, 4*settle)
	pause("another does not", db, 0)
	w.set(db, true)
	pause("another waits", db, 2*settle)
	for range 20 {
		w.pause(web)
	}
	pause("it waits for long", web, refusedRetry)
	if keys := w.wake(); len(keys) != 2 || !slices.Contains(keys, web) || !slices.Contains(keys, db) {
		t.Errorf("those that wait are %v", keys)
	}
	pause("there was news", web, 2*settle)
	w.set(web, false)
	w.remove(db)
	pause("it has all", web, 0)
	if keys := w.wake(); len(keys) > 0 {
		t.Errorf("%v still wait", keys)
	}
	pause("nobody was woken", db, 0)
}
