package kube

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// KeyMutex locks keys, each apart from all others. Who waits for one gets it in the order of asking. In its zero value no key is locked.
//
// Unlike k8s.io/utils/keymutex, which hashes all keys to a fixed number of locks, it ends the wait of a request whose context ends,
// and no tenant can choose a name that shares the lock of somebody else's.
type KeyMutex[K comparable] struct {
	mu   sync.Mutex
	keys map[K]*keyLock
}

type keyLock struct {
	held *semaphore.Weighted
	// users are those who hold the lock or wait for it. The last of them removes it from the map.
	users int
}

// Lock waits until nobody else holds a key, and returns what releases it. It returns the error of ctx when that is done before.
func (m *KeyMutex[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	m.mu.Lock()
	lock := m.keys[key]
	if lock == nil {
		if m.keys == nil {
			m.keys = map[K]*keyLock{}
		}
		lock = &keyLock{held: semaphore.NewWeighted(1)}
		m.keys[key] = lock
	}
	lock.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		lock.users--
		if lock.users == 0 {
			delete(m.keys, key)
		}
	}
	if err := lock.held.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err
	}
	return func() {
		lock.held.Release(1)
		leave()
	}, nil
}
