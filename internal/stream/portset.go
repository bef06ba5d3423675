package stream

import "math/bits"

const maxPort = 65535

// PortSet is a set of ports, 1 to 65535, as bits. The zero value is the empty set.
type PortSet [(maxPort + 1) / 64]uint64

// Add adds a port. Numbers that are no port are left out.
func (s *PortSet) Add(port int32) {
	if port >= 1 && port <= maxPort {
		s[port/64] |= 1 << (port % 64)
	}
}

// Remove removes a port.
func (s *PortSet) Remove(port int32) {
	if port >= 1 && port <= maxPort {
		s[port/64] &^= 1 << (port % 64)
	}
}

// Has says whether the port is in the set.
func (s *PortSet) Has(port int32) bool {
	return port >= 1 && port <= maxPort && s[port/64]&(1<<(port%64)) != 0
}

// Len is the number of ports in the set.
func (s *PortSet) Len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// AddRange adds the ports from..to, both included.
func (s *PortSet) AddRange(from, to int32) {
	from, to = max(from, 1), min(to, maxPort)
	for word := from / 64; word <= to/64; word++ {
		s[word] |= mask(word, from, to)
	}
}

// RemoveRange removes the ports from..to, both included.
func (s *PortSet) RemoveRange(from, to int32) {
	from, to = max(from, 1), min(to, maxPort)
	for word := from / 64; word <= to/64; word++ {
		s[word] &^= mask(word, from, to)
	}
}

// mask has the bits of one word that lie in from..to.
func mask(word, from, to int32) uint64 {
	m := ^uint64(0)
	if low := from - word*64; low > 0 {
		m &= ^uint64(0) << low
	}
	if high := to - word*64; high < 63 {
		m &= ^uint64(0) >> (63 - high)
	}
	return m
}

// Subtract removes the ports that are in other.
func (s *PortSet) Subtract(other *PortSet) {
	for i := range s {
		s[i] &^= other[i]
	}
}

// Next is the lowest port of the set that is at least from, 0 when there is none.
func (s *PortSet) Next(from int32) int32 {
	from = max(from, 1)
	if from > maxPort {
		return 0
	}
	word := from / 64
	if rest := s[word] >> (from % 64); rest != 0 {
		return from + int32(bits.TrailingZeros64(rest)) //nolint:gosec // at most 63
	}
	for word++; word < int32(len(s)); word++ {
		if s[word] != 0 {
			return word*64 + int32(bits.TrailingZeros64(s[word])) //nolint:gosec // at most 63
		}
	}
	return 0
}

// Previous is the highest port of the set that is at most from, 0 when there is none.
func (s *PortSet) Previous(from int32) int32 {
	from = min(from, maxPort)
	if from < 1 {
		return 0
	}
	word := from / 64
	if rest := s[word] << (63 - from%64); rest != 0 {
		return from - int32(bits.LeadingZeros64(rest)) //nolint:gosec // at most 63
	}
	for word--; word >= 0; word-- {
		if s[word] != 0 {
			return word*64 + 63 - int32(bits.LeadingZeros64(s[word])) //nolint:gosec // at most 63
		}
	}
	return 0
}

// Nearest lists up to n ports of the set by their distance from a port, in ascending order.
func (s *PortSet) Nearest(port int32, n int) []int32 {
	below, above := s.Previous(port), s.Next(port+1)
	var lower, upper []int32
	for len(lower)+len(upper) < n && (below != 0 || above != 0) {
		if above == 0 || below != 0 && port-below <= above-port {
			lower = append([]int32{below}, lower...)
			below = s.Previous(below - 1)
		} else {
			upper = append(upper, above)
			above = s.Next(above + 1)
		}
	}
	return append(lower, upper...)
}
