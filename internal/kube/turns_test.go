package kube

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// users are those who have the turn at an object or wait for it.
func (t *Turns[K]) users(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.busy[key]; one != nil {
		return one.users
	}
	return 0
}

// await waits until so many have the turn at an object or wait for it.
func (t *Turns[K]) await(key K, users int) {
	for t.users(key) != users {
		runtime.Gosched()
	}
}

func TestTurns(t *testing.T) {
	web, db := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "db"}
	all := NewTurns[types.NamespacedName]()
	take := func(key types.NamespacedName) (end func()) {
		end, err := all.Take(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		return end
	}
	endFirst := take(web)
	take(db)() // nobody waits for the turn at another object
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all.Take(done, web); !errors.Is(err, context.Canceled) {
		t.Errorf("who can't wait any longer is told: %v", err)
	}

	got, leave, left := make(chan int), make(chan bool), make(chan bool)
	for i := range 3 {
		go func() {
			end := take(web)
			got <- i
			<-leave
			end()
			left <- true
		}()
	}
	all.await(web, 4)
	select {
	case i := <-got:
		t.Fatalf("worker %d did not wait for its turn", i)
	default:
	}
	endFirst()
	for rest := 3; rest > 0; rest-- {
		first := <-got
		if users := all.users(web); users != rest {
			t.Errorf("%d have the turn or wait for it, want %d", users, rest)
		}
		select {
		case other := <-got:
			t.Fatalf("workers %d and %d have the turn at once", first, other)
		default:
		}
		leave <- true
		<-left
	}
	if len(all.busy) > 0 {
		t.Errorf("it still remembers %v", all.busy)
	}
}
