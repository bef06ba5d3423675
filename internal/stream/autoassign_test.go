package stream

import (
	"errors"
	"maps"
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func TestAutoAssign(t *testing.T) {
	errDown := errors.New("down")
	// of offers ports that it had one by one, then any of 20000 to 20004.
	of := func(ports ...int32) func(*PortSet) (Offer, error) {
		return func(lost *PortSet) (Offer, error) {
			for _, port := range ports {
				if !lost.Has(port) {
					return Offer{Port: port}, nil
				}
			}
			free := &PortSet{}
			free.AddRange(20000, 20004)
			free.Subtract(lost)
			return Offer{Free: free}, nil
		}
	}
	never := func(int) (bool, error) { return false, nil }
	for name, tc := range map[string]struct {
		tries, asks int
		offered     func(*PortSet) (Offer, error)
		take        func(tries int) (bool, error)
		first       int32
		err         error
	}{
		"the first choice is free":                 {1, 1, of(), func(int) (bool, error) { return true, nil }, 0, nil},
		"others are faster, twice":                 {3, 1, of(), func(tries int) (bool, error) { return tries == 3, nil }, 0, nil},
		"others are faster at every one":           {5, 2, of(), never, 0, ErrNoFreePort},
		"the ledger is away":                       {2, 1, of(), func(tries int) (bool, error) { return false, map[int]error{2: errDown}[tries] }, 0, errDown},
		"it had one":                               {1, 1, of(20003), func(int) (bool, error) { return true, nil }, 20003, nil},
		"it had one of those that others have now": {5, 4, of(20003, 20002), never, 20003, ErrNoFreePort},
		"what it had can't be read":                {0, 1, func(*PortSet) (Offer, error) { return Offer{}, errDown }, nil, 0, errDown},
		"nothing is free":                          {0, 1, func(*PortSet) (Offer, error) { return Offer{Free: &PortSet{}}, nil }, nil, 0, ErrNoFreePort},
	} {
		t.Run(name, func(t *testing.T) {
			seen, asks := map[claim.Coordinate]bool{}, 0
			offered := func(lost *PortSet) (Offer, error) {
				asks++
				if lost.Len() != len(seen) {
					t.Errorf("it has lost %d after %v", lost.Len(), seen)
				}
				return tc.offered(lost)
			}
			at, err := AutoAssign(sti(isUDP), class("public"), offered, func(at claim.Coordinate) (bool, error) {
				if seen[at] || at.Class() != "public" || at.Protocol() != v1beta1.UDP || at.Port() < 20000 || at.Port() > 20004 {
					t.Fatalf("it tries %v after %v", at, seen)
				}
				if len(seen) == 0 && tc.first != 0 && at.Port() != tc.first {
					t.Errorf("it tries %v first, want %d", at, tc.first)
				}
				seen[at] = true
				return tc.take(len(seen))
			})
			if !errors.Is(err, tc.err) || len(seen) != tc.tries || asks != tc.asks || err == nil && !seen[at] {
				t.Errorf("got %v, %v after %d tries and %d offers", at, err, len(seen), asks)
			}
		})
	}
}

// TestOffered has a stream choose of 20000 to 20003, of which entries of ours stand at some: it gets none that goes to another, and
// others that lead elsewhere only when nothing else is left.
func TestOffered(t *testing.T) {
	const elsewhere = "data/db:5432"
	f := &restored{entries: map[v1beta1.Protocol]Current{v1beta1.TCP: entriesOfOurs(map[int32]string{
		20001: elsewhere, 20002: elsewhere, 20003: "data/new:1", 20009: "shop/db:5432",
	})}}
	f.classes = []*v1beta1.StreamIngressClass{class("public", autoAssign(20000, 20003))}
	f.streams = map[string]*v1beta1.StreamIngress{"data/db": sti(named("data", "db"), leadingTo("", "db", "5432"))}
	f.claims = maps.Clone(claims(claim.StreamHolder("shop", "x"), tcp(20009)))
	free := &PortSet{}
	free.AddRange(20000, 20003)
	lost := &PortSet{}
	for _, want := range [][]int32{{20000}, {20002, 20003}, {20002}, {}} {
		offer := Offered(f, sti(), Request{Class: f.classes[0], Free: free}, lost)
		wanted := &PortSet{}
		for _, port := range want {
			wanted.Add(port)
		}
		if offer.Port != 0 || *offer.Free != *wanted {
			t.Errorf("after %d it is offered %d of them from %d, and %d: want %v",
				lost.Len(), offer.Free.Len(), offer.Free.Next(1), offer.Port, want)
		}
		lost.Add(wanted.Previous(maxPort))
	}
	if free.Len() != 4 {
		t.Error("what was free is changed")
	}
}
