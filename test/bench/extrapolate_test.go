package main

import (
	"math"
	"testing"
	"time"
)

func TestExtrapolate(t *testing.T) {
	began := time.Now()
	grow := func(a, b float64) (steps []step) {
		for k := 100; k <= 1000; k += 100 {
			seconds := a*float64(k) + b*float64(k)*float64(k)
			steps = append(steps, step{at: began.Add(time.Duration(seconds * float64(time.Second))), done: k})
		}
		return steps
	}
	for name, tc := range map[string]struct {
		steps []step
		want  float64
	}{
		"each write takes the same":   {grow(0.01, 0), 100},
		"each write takes longer":     {grow(0.01, 0.00001), 1100},
		"it seems to get faster":      {grow(0.01, -0.000001), 91},
		"nothing was seen":            {nil, 0},
		"only the start was seen":     {[]step{{at: began}}, 0},
		"only one step, so no growth": {[]step{{at: began.Add(time.Second), done: 100}, {at: began.Add(2 * time.Second), done: 200}}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			got := extrapolate(tc.steps, began, 10000).Seconds()
			if math.Abs(got-tc.want) > 0.05*tc.want {
				t.Errorf("got %v s, want %v s", got, tc.want)
			}
		})
	}
}
