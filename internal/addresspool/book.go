package addresspool

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Book is all pools of a cluster as they are read: which of them can be used, and which has an address. It does not
// change.
type Book struct {
	accepted []*Pool
	verdicts map[string]Verdict
	// ranges are those of the accepted pools, sorted and disjoint.
	ranges []owned
}

// Verdict is what there is to say about one pool. A pool is accepted when there are neither flaws nor overlaps.
type Verdict struct {
	*Pool
	// Flaws are what the pool alone has wrong.
	Flaws field.ErrorList
	// Overlaps are the addresses that another pool has already.
	Overlaps []Overlap
}

// Accepted says whether the pool can be used.
func (v Verdict) Accepted() bool { return v.Pool != nil && len(v.Flaws) == 0 && len(v.Overlaps) == 0 }

// Overlap is what an entry of one pool has in common with another pool.
type Overlap struct {
	// Entry is the number of the entry in spec.addresses.
	Entry  int
	Common Range
	With   *Pool
}

type owned struct {
	Range
	pool *Pool
}

// NewBook reads the pools of a cluster. Of two that overlap, the one that was created first has its addresses, and the
// other one none: so a pool that is made later takes nothing away.
func NewBook(pools []*v1beta1.AddressPool) *Book {
	b := &Book{verdicts: make(map[string]Verdict, len(pools))}
	pools = slices.Clone(pools)
	slices.SortFunc(pools, byAge)
	for _, pool := range pools {
		v := b.Judge(pool)
		b.verdicts[pool.Name] = v
		if v.Accepted() {
			b.accept(v.Pool)
		}
	}
	slices.SortFunc(b.accepted, byPriority)
	return b
}

func byAge(a, b *v1beta1.AddressPool) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
}

// byPriority puts the pool first that is to be used first.
func byPriority(a, b *Pool) int {
	return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(a.Name, b.Name))
}

func (b *Book) accept(p *Pool) {
	b.accepted = append(b.accepted, p)
	for _, e := range p.Set.ranges {
		b.ranges = slices.Insert(b.ranges, b.search(e.From), owned{Range: e.Range, pool: p})
	}
}

// search is the place of the first range that begins at an address or above it.
func (b *Book) search(from netip.Addr) int {
	i, _ := slices.BinarySearchFunc(b.ranges, from, func(o owned, from netip.Addr) int { return o.From.Compare(from) })
	return i
}

// Judge reads a pool as if it came last of all, and that of its name in the book were not there. Addresses that are left out
// as buggy overlap, too: nobody expects to find the network address of one pool in another.
func (b *Book) Judge(pool *v1beta1.AddressPool) Verdict {
	v := Verdict{}
	v.Pool, v.Flaws = New(pool)
	for _, e := range v.Set.ranges {
		for _, o := range b.ranges[max(b.search(e.From)-1, 0):] {
			if e.To.Less(o.From) {
				break
			}
			if common, ok := o.intersect(e.Range); ok && o.pool.Name != pool.Name {
				v.Overlaps = append(v.Overlaps, Overlap{Entry: e.index, Common: common, With: o.pool})
				break // one is enough for one entry
			}
		}
	}
	slices.SortFunc(v.Overlaps, func(a, b Overlap) int { return cmp.Compare(a.Entry, b.Entry) })
	return v
}

// Errors are everything that is wrong with the pool.
func (v Verdict) Errors() field.ErrorList {
	errs := slices.Clone(v.Flaws)
	for _, o := range v.Overlaps {
		errs = append(errs, o.Error())
	}
	return errs
}

// Error names the entry and the pool that has its addresses.
func (o Overlap) Error() *field.Error {
	return duplicate(addressesPath.Index(o.Entry), o.Common.String(), fmt.Sprintf(
		"AddressPool %s has these addresses already: an address can be in one pool only", o.With.Name))
}

// Verdict is what there is to say about the pool of a name, ok is false when there is none.
func (b *Book) Verdict(name string) (v Verdict, ok bool) {
	v, ok = b.verdicts[name]
	return v, ok
}

// Pools lists the accepted pools in the order in which they are used: by priority, the highest first, and then by name.
// The result must not be changed.
func (b *Book) Pools() []*Pool { return b.accepted }

// Of is the accepted pool that has an address, nil for none.
func (b *Book) Of(ip netip.Addr) *Pool {
	ip = ip.Unmap()
	i := b.search(ip)
	if i == len(b.ranges) || b.ranges[i].From != ip {
		i--
	}
	if i < 0 || !b.ranges[i].pool.Set.Contains(ip) {
		return nil
	}
	return b.ranges[i].pool
}

// Names lists the names of all pools, accepted or not.
func (b *Book) Names() []string { return slices.Sorted(maps.Keys(b.verdicts)) }
