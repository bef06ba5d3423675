package allocator

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// limits say why a Service may not have what is new to it of an allocation, beside others that it is to have: it has too many
// ports, or its namespace has as much of the pool as one gets.
func (a *allocator) limits(beside []Allocation, allocation Allocation) refusal.Problems {
	tooMany := a.tooManyPorts(allocation)
	if !tooMany && allocation.Pool.Spec.MaxPerNamespace == 0 || len(allocation.Missing(a.Held)) == 0 {
		return nil
	}
	fronts := a.facts.Fronts()
	if slices.Contains(fronts, a.Holder().Key()) {
		return nil
	}
	if tooMany {
		return refusal.One(v1beta1.ReasonTooManyPorts, &field.Error{
			Type: field.ErrorTypeTooMany, Field: loadbalancer.PortsPath.String(), BadValue: len(allocation.Points),
			Detail: fmt.Sprintf("a Service gets at most %d ports where it shares addresses with others, as in AddressPool %s: "+
				"spread them over several Services, or have an address to itself from a pool with the sharing %s",
				a.facts.MaxPorts(), allocation.Pool.Name, v1beta1.SharingNone),
		})
	}
	return a.poolLimit(append(slices.Clone(beside), allocation), fronts)
}

// tooManyPorts says whether a Service would have more ports of an address that it shares, or of the nodes, than one gets.
func (a *allocator) tooManyPorts(allocation Allocation) bool {
	if len(allocation.Points) <= a.facts.MaxPorts() || allocation.Points[0].Port() == 0 {
		return false
	}
	ports := refusal.Share{Limit: a.facts.MaxPorts(), Wanted: len(allocation.Points), Added: len(allocation.Missing(a.Held))}
	for _, at := range a.Held {
		if at.Port() != 0 && at.Address() == allocation.Address {
			ports.Own++
		}
	}
	ports.All = ports.Own
	return ports.Exceeded()
}

// poolLimit refuses a Service the last of some allocations, where its namespace would have more of the pool than one gets. What
// the Services in front of proxies have does not count.
func (a *allocator) poolLimit(allocations []Allocation, fronts []types.NamespacedName) refusal.Problems {
	allocation := allocations[len(allocations)-1]
	of := refusal.Share{Limit: int(allocation.Pool.Spec.MaxPerNamespace)}
	for _, l := range allocations {
		if l.Pool.Name == allocation.Pool.Name {
			of.Wanted += len(l.Points)
			of.Added += len(l.Missing(a.Held))
		}
	}
	wanted := sets.New[claim.Coordinate]()
	for _, l := range allocations {
		wanted.Insert(l.Missing(a.Held)...)
	}
	claims := a.facts.ClaimsOfNamespace(a.Service.Namespace, claim.ScopeFamily(allocation.Points[0].Scope()))
	claims = slices.DeleteFunc(claims, func(c *v1beta1.EdgeClaim) bool {
		at, err := claim.Of(c)
		// What is handed over to the Service, by another of its namespace or with a promise, is not one more for the namespace.
		becomesOurs := wanted.Has(at) && claim.HolderOf(c) != a.Holder() && a.isHanded(at, c)
		return err != nil || at.IsAddress() && !allocation.Pool.Set.Contains(at.Address()) ||
			slices.Contains(fronts, claim.HolderOf(c).Key()) || becomesOurs
	})
	of.All = len(claims)
	for _, c := range claims {
		if claim.HolderOf(c) == a.Holder() {
			of.Own++
		}
	}
	if !of.Exceeded() {
		return nil
	}
	leaving := max(of.Own-of.Wanted, 0)
	for _, c := range claims {
		if holder := claim.HolderOf(c); holder != a.Holder() && isLeaving(a.facts, c) {
			leaving++
		}
	}
	return a.poolLimitText(allocation, of, leaving)
}

func (a *allocator) poolLimitText(allocation Allocation, of refusal.Share, leaving int) refusal.Problems {
	what, path, value := "address(es)", a.AddressesPath, allocation.Address.String()
	if allocation.Points[0].Port() != 0 {
		what = "port(s)"
	}
	_, asked := a.Address(addresspool.FamilyOf(allocation.Address))
	switch {
	case what == "port(s)" && len(allocation.Missing(a.Held)) < len(allocation.Points):
		path, value = loadbalancer.PortsPath, fmt.Sprint(len(allocation.Points))
	case !asked || !allocation.Address.IsValid():
		path, value = a.anyAddressField()
	}
	more := ""
	if of.Added > 1 {
		more = fmt.Sprintf(", and this Service asks for %d more", of.Added)
	}
	return refusal.One(v1beta1.ReasonNamespaceLimitReached, field.Invalid(path, value, fmt.Sprintf(
		"AddressPool %s gives at most %d %s to one namespace (spec.maxPerNamespace), and namespace %q has %d%s%s, or choose another pool",
		allocation.Pool.Name, of.Limit, what, a.Service.Namespace, of.All, more, refusal.WayOut(leaving, "a Service that has one"))))
}
