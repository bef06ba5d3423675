package kube

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is what is read: each read ends when the test says so, and finds what was stored when it began.
type shelf struct {
	mu     sync.Mutex
	stored int
	begun  int
	end    chan error
}

func (s *shelf) store(value int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = value
}

func (s *shelf) read(ctx context.Context) (int, error) {
	s.mu.Lock()
	s.begun++
	value := s.stored
	s.mu.Unlock()
	select {
	case err := <-s.end:
		return value, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// told is what one who asks is told.
type told struct {
	value int
	err   error
}

// ask asks for a key in the background. What is told is there once the test has waited.
func (s *shelf) ask(ctx context.Context, reads *sharedReads[int], key string) *told {
	answer := &told{value: -1}
	go func() { answer.value, answer.err = reads.get(ctx, key, s.read) }()
	synctest.Wait()
	return answer
}

// TestSharedReadsAreNoOlderThanTheQuestion: who asks is told what was stored then, or later, and many are told by one read.
func TestSharedReadsAreNoOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads := &shelf{stored: 1, end: make(chan error)}, &sharedReads[int]{}
		first := s.ask(t.Context(), reads, "a")
		s.store(2)
		var those []*told
		for range 20 {
			those = append(those, s.ask(t.Context(), reads, "a"))
		}
		s.store(3)
		those = append(those, s.ask(t.Context(), reads, "a"))
		if s.begun != 1 {
			t.Fatalf("%d reads of one key are in flight", s.begun)
		}
		another := &shelf{stored: 7, end: make(chan error, 1)}
		another.end <- nil
		other := another.ask(t.Context(), reads, "b") // does not wait for reads of the first key
		s.end <- nil
		synctest.Wait()
		if *first != (told{value: 1}) || *other != (told{value: 7}) {
			t.Errorf("told %+v and %+v", *first, *other)
		}
		s.end <- nil
		synctest.Wait()
		for i, answer := range those {
			if *answer != (told{value: 3}) {
				t.Errorf("%d of those who asked during the first read is told %+v", i, *answer)
			}
		}
		if s.begun != 2 {
			t.Errorf("%d reads", s.begun)
		}
	})
}

// TestSharedReadsOutliveWhoBegan: a read goes on for those who wait, though who asked first has gone; one who goes waits no longer.
func TestSharedReadsOutliveWhoBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads := &shelf{stored: 1, end: make(chan error)}, &sharedReads[int]{}
		ctx, leave := context.WithCancel(t.Context())
		running := s.ask(t.Context(), reads, "a")
		began := s.ask(ctx, reads, "a")
		joined := s.ask(t.Context(), reads, "a")
		leave()
		synctest.Wait()
		if !errors.Is(began.err, context.Canceled) {
			t.Errorf("who has gone is told %+v", *began)
		}
		s.end <- nil
		s.end <- nil
		synctest.Wait()
		if *running != (told{value: 1}) || *joined != (told{value: 1}) {
			t.Errorf("told %+v and %+v", *running, *joined)
		}
	})
}

// TestSharedReadsForgetErrors: an error is told to those who waited for it, and who asks later has another read; one that never ends
// keeps nobody for long.
func TestSharedReadsForgetErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads, broken := &shelf{stored: 1, end: make(chan error)}, &sharedReads[int]{}, errors.New("broken")
		first := s.ask(t.Context(), reads, "a")
		s.end <- broken
		synctest.Wait()
		if first.value != 0 || !errors.Is(first.err, broken) {
			t.Errorf("told %+v", *first)
		}
		hangs := s.ask(t.Context(), reads, "a")
		time.Sleep(sharedReadTimeout / 2)
		next := s.ask(t.Context(), reads, "a")
		time.Sleep(sharedReadTimeout / 2)
		synctest.Wait()
		if !errors.Is(hangs.err, context.DeadlineExceeded) {
			t.Errorf("a read that hangs is told %+v", *hangs)
		}
		s.end <- nil
		synctest.Wait()
		if *next != (told{value: 1}) {
			t.Errorf("the next read is told %+v", *next)
		}
	})
}
