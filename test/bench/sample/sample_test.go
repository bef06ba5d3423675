package sample

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestAt(t *testing.T) {
	var s Sample
	if got := s.At(50); got != 0 {
		t.Errorf("of nothing the median is %v", got)
	}
	for i := range 100 {
		s.Add(time.Duration(100-i) * time.Millisecond)
	}
	for p, want := range map[float64]float64{0: 1, 1: 1, 50: 50, 99: 99, 100: 100} {
		if got := s.At(p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
}

func TestMeasure(t *testing.T) {
	var s Sample
	var seen [100]atomic.Int32
	if err := s.Measure(7, len(seen), func(_, i int) error {
		seen[i].Add(1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Errorf("%d was called %d times", i, n)
		}
	}
	if s.Len() != len(seen) || s.Rate() <= 0 || s.Seconds() <= 0 {
		t.Errorf("%d calls, %v/s, %v s", s.Len(), s.Rate(), s.Seconds())
	}
	failure := errors.New("no")
	if err := s.Measure(2, 1000, func(int, int) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
