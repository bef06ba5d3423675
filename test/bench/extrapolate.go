package main

import "time"

// extrapolate computes when n ports would be programmed, from how far it was at some times. Each write takes a time that
// grows with what is there already, so that the time for k ports is a·k + b·k²; a and b are those that come closest to
// what was seen.
func extrapolate(steps []step, began time.Time, n int) time.Duration {
	var k2, k3, k4, tk, tk2 float64
	for _, s := range steps {
		k, t := float64(s.done), s.at.Sub(began).Seconds()
		k2, k3, k4 = k2+k*k, k3+k*k*k, k4+k*k*k*k
		tk, tk2 = tk+t*k, tk2+t*k*k
	}
	det := k2*k4 - k3*k3
	if det <= 0 {
		return 0
	}
	a, b := (tk*k4-tk2*k3)/det, (tk2*k2-tk*k3)/det
	if b < 0 { // nothing says that it gets slower
		a, b = tk/k2, 0
	}
	return time.Duration((a*float64(n) + b*float64(n)*float64(n)) * float64(time.Second))
}
