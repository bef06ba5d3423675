package plot

import "math"

// axis maps values to pixels.
type axis struct {
	log      bool
	low      float64
	high     float64
	from, to float64
}

// axis makes the axis that all points of the chart fit on. A linear one begins at 0, a logarithmic one at a power of ten.
func (c *Chart) axis(log bool, of func(Point) float64, from, to float64) axis {
	a := axis{log: log, low: math.Inf(1), high: math.Inf(-1), from: from, to: to}
	for _, s := range c.Series {
		for _, p := range s.Points {
			if v := of(p); a.has(v) {
				a.low, a.high = min(a.low, v), max(a.high, v)
			}
		}
	}
	if a.low > a.high { // there is nothing
		a.low, a.high = 1, 10
	}
	if log {
		a.low, a.high = math.Pow(10, math.Floor(math.Log10(a.low))), math.Pow(10, math.Ceil(math.Log10(a.high)))
		if a.low == a.high {
			a.high *= 10
		}
		return a
	}
	a.low = min(a.low, 0)
	step := a.step()
	a.high = math.Ceil(a.high/step) * step
	return a
}

// has says whether a value has a place on the axis.
func (a axis) has(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.log || v > 0) }

// at is where a value is.
func (a axis) at(v float64) float64 {
	share := (v - a.low) / (a.high - a.low)
	if a.log {
		share = math.Log10(v/a.low) / math.Log10(a.high/a.low)
	}
	return a.from + share*(a.to-a.from)
}

// step is the distance of the ticks of a linear axis: 1, 2 or 5 times a power of ten, so that there are about five.
func (a axis) step() float64 {
	span := a.high - a.low
	if span <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(span/5)))
	for _, times := range []float64{1, 2, 5} {
		if span/(times*power) <= 6 {
			return times * power
		}
	}
	return 10 * power
}

// ticks are the values that are written at the axis.
func (a axis) ticks() []float64 {
	var ticks []float64
	if a.log {
		for v := a.low; v <= a.high*1.001; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	step := a.step()
	for i := 0; a.low+float64(i)*step <= a.high+step/1000; i++ {
		ticks = append(ticks, a.low+float64(i)*step)
	}
	return ticks
}
