package stream

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// setOf is a set of single ports.
func setOf(ports ...int32) *PortSet {
	s := &PortSet{}
	for _, port := range ports {
		s.Add(port)
	}
	return s
}

// listed are the ports of a set in ascending order, none of no set.
func listed(s *PortSet) []int32 {
	var ports []int32
	if s == nil {
		return nil
	}
	for port := s.Next(1); port != 0; port = s.Next(port + 1) {
		ports = append(ports, port)
	}
	return ports
}

func TestNearest(t *testing.T) {
	for name, tc := range map[string]struct {
		free *PortSet
		port int32
		n    int
		want []int32
	}{
		"on both sides":                    {setOf(78, 79, 81, 82), 80, 3, []int32{78, 79, 81}},
		"the lower one of two equally far": {setOf(79, 81), 80, 1, []int32{79}},
		"the port itself counts":           {setOf(79, 80, 81), 80, 2, []int32{79, 80}},
		"only below":                       {setOf(1, 2, 3), 65535, 2, []int32{2, 3}},
		"only above":                       {setOf(64000, 65535), 1, 3, []int32{64000, 65535}},
		"across words":                     {setOf(63, 64, 127, 128), 100, 4, []int32{63, 64, 127, 128}},
		"far away":                         {setOf(1, 40000), 20000, 1, []int32{1}},
		"none left":                        {setOf(), 80, 3, nil},
		"none wanted":                      {setOf(80), 80, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.free.Nearest(tc.port, tc.n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPortSetRanges(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*PortSet)
		want []int32
	}{
		"a range within a word":          {func(s *PortSet) { s.AddRange(10, 12) }, []int32{10, 11, 12}},
		"a range over the edge of words": {func(s *PortSet) { s.AddRange(63, 65) }, []int32{63, 64, 65}},
		"a range of one":                 {func(s *PortSet) { s.AddRange(64, 64) }, []int32{64}},
		"a range that is upside down":    {func(s *PortSet) { s.AddRange(12, 10) }, nil},
		"a range from below the first":   {func(s *PortSet) { s.AddRange(-100, 2) }, []int32{1, 2}},
		"a range from 0":                 {func(s *PortSet) { s.AddRange(0, 1) }, []int32{1}},
		"a range beyond the last":        {func(s *PortSet) { s.AddRange(65534, 70000) }, []int32{65534, 65535}},
		"a range outside":                {func(s *PortSet) { s.AddRange(65536, 70000) }, nil},
		"a range of nothing":             {func(s *PortSet) { s.AddRange(0, 0) }, nil},
		"a range taken out of another":   {func(s *PortSet) { s.AddRange(62, 67); s.RemoveRange(63, 66) }, []int32{62, 67}},
		"numbers that are no ports":      {func(s *PortSet) { s.Add(0); s.Add(-1); s.Add(65536); s.Remove(0); s.Remove(70000) }, nil},
		"the difference":                 {func(s *PortSet) { s.AddRange(1, 5); s.Subtract(setOf(2, 4, 9)) }, []int32{1, 3, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &PortSet{}
			tc.do(s)
			if diff := cmp.Diff(tc.want, listed(s)); diff != "" {
				t.Error(diff)
			}
			if s.Len() != len(tc.want) {
				t.Errorf("Len() = %d", s.Len())
			}
		})
	}
}

// FuzzPortSet does the same to a set and to a map, four bytes a port and nine a step, and compares all they can say.
func FuzzPortSet(f *testing.F) {
	step := func(op byte, a, b int32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte{op}, uint32(a)), uint32(b))
	}
	f.Add([]byte{}, int32(80))
	f.Add(step(0, 80, 0), int32(80))
	f.Add(slices.Concat(step(2, 1, 65535), step(3, 0, 70000)), int32(0))
	f.Add(slices.Concat(step(2, 60, 130), step(3, 64, 127), step(1, 63, 0)), int32(65535))
	f.Add(slices.Concat(step(2, -5, 3), step(0, 65536, 0), step(2, 65530, 1<<31-1)), int32(-1))
	f.Add(slices.Concat(step(2, 9, 3), step(3, 9, 3), step(2, -1<<31, 1<<31-1)), int32(1<<31-1))
	f.Fuzz(func(t *testing.T, steps []byte, port int32) {
		set, model := &PortSet{}, map[int32]bool{}
		for ; len(steps) >= 9; steps = steps[9:] {
			a, b := int32(binary.BigEndian.Uint32(steps[1:])), int32(binary.BigEndian.Uint32(steps[5:]))
			do(set, model, steps[0]%4, a, b)
		}
		agree(t, set, model, port)
	})
}

// do changes a set and its model in the same way.
func do(set *PortSet, model map[int32]bool, op byte, a, b int32) {
	first, last := max(a, 1), min(b, maxPort)
	switch op {
	case 0:
		set.Add(a)
		last = min(first, maxPort)
		if a != first || a != last {
			return
		}
	case 1:
		set.Remove(a)
		last = min(first, maxPort)
		if a != first || a != last {
			return
		}
	case 2:
		set.AddRange(a, b)
	case 3:
		set.RemoveRange(a, b)
	}
	for port := first; port <= last; port++ {
		if op%2 == 0 {
			model[port] = true
		} else {
			delete(model, port)
		}
	}
}

// agree compares everything that a set says with its model.
func agree(t *testing.T, set *PortSet, model map[int32]bool, port int32) {
	t.Helper()
	var all []int32
	for p := int32(1); p <= maxPort; p++ {
		if model[p] {
			all = append(all, p)
		}
		if set.Has(p) != model[p] {
			t.Fatalf("Has(%d) = %v", p, set.Has(p))
		}
	}
	if set.Has(0) || set.Has(-1) || set.Has(maxPort+1) || set[0]&1 != 0 {
		t.Error("it has what is no port")
	}
	if set.Len() != len(all) {
		t.Errorf("Len() = %d, want %d", set.Len(), len(all))
	}
	next, previous := int32(0), int32(0)
	if i, _ := slices.BinarySearch(all, port); i < len(all) {
		next = all[i]
	}
	if i, found := slices.BinarySearch(all, port); found {
		previous = port
	} else if i > 0 {
		previous = all[i-1]
	}
	if got := set.Next(port); got != next {
		t.Errorf("Next(%d) = %d, want %d", port, got, next)
	}
	if got := set.Previous(port); got != previous {
		t.Errorf("Previous(%d) = %d, want %d", port, got, previous)
	}
	near := min(max(port, 1), maxPort)
	if got, want := set.Nearest(near, 3), nearest(all, near, 3); !slices.Equal(got, want) {
		t.Errorf("Nearest(%d) = %v, want %v", near, got, want)
	}
}

// nearest is the plain way to find the nearest ports: sort all by distance.
func nearest(all []int32, port int32, n int) []int32 {
	byDistance := slices.Clone(all)
	slices.SortStableFunc(byDistance, func(a, b int32) int { return int(abs(a-port) - abs(b-port)) })
	byDistance = byDistance[:min(n, len(byDistance))]
	slices.Sort(byDistance)
	return byDistance
}

func abs(n int32) int32 { return max(n, -n) }

func BenchmarkNearest(b *testing.B) {
	full := &PortSet{}
	full.AddRange(1, 1)
	full.AddRange(65535, 65535)
	for b.Loop() {
		full.Nearest(30000, 3)
	}
}
