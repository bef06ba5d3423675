package kube

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// users are those who hold a key or wait for it.
func (m *KeyMutex[K]) users(key K) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lock := m.keys[key]; lock != nil {
		return lock.users
	}
	return 0
}

// await waits until so many hold a key or wait for it.
func (m *KeyMutex[K]) await(key K, users int) {
	for m.users(key) != users {
		runtime.Gosched()
	}
}

func TestKeyMutex(t *testing.T) {
	web, db := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "db"}
	mutex := &KeyMutex[types.NamespacedName]{}
	lock := func(key types.NamespacedName) (unlock func()) {
		unlock, err := mutex.Lock(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		return unlock
	}
	unlockFirst := lock(web)
	lock(db)() // another key is not locked
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mutex.Lock(done, web); !errors.Is(err, context.Canceled) {
		t.Errorf("who can't wait any longer is told: %v", err)
	}

	got, leave, left := make(chan int), make(chan bool), make(chan bool)
	for i := range 3 {
		go func() {
			unlock := lock(web)
			got <- i
			<-leave
			unlock()
			left <- true
		}()
	}
	mutex.await(web, 4)
	select {
	case i := <-got:
		t.Fatalf("worker %d did not wait", i)
	default:
	}
	unlockFirst()
	for rest := 3; rest > 0; rest-- {
		first := <-got
		if users := mutex.users(web); users != rest {
			t.Errorf("%d hold the key or wait for it, want %d", users, rest)
		}
		select {
		case other := <-got:
			t.Fatalf("workers %d and %d hold the key at once", first, other)
		default:
		}
		leave <- true
		<-left
	}
	if len(mutex.keys) > 0 {
		t.Errorf("it still remembers %v", mutex.keys)
	}
}
