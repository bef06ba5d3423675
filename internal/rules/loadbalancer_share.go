package rules

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// limits say why a Service may not have what is new to it of a lot, beside others that it is to have: it has too many
// ports, or its namespace has as much of the pool as one gets.
func (a *allotment) limits(ctx context.Context, beside []loadbalancer.Lot, lot loadbalancer.Lot) (refusal.Problems, error) {
	tooMany := a.tooManyPorts(lot)
	if !tooMany && lot.Pool.Spec.MaxPerNamespace == 0 || len(lot.Missing(a.Held)) == 0 {
		return nil, nil
	}
	fronts, err := a.view.Fronts(ctx)
	if err != nil || slices.Contains(fronts, a.Holder().Key()) {
		return nil, err
	}
	if tooMany {
		return refusal.One(v1beta1.ReasonTooManyPorts, &field.Error{
			Type: field.ErrorTypeTooMany, Field: loadbalancer.PortsPath.String(), BadValue: len(lot.Points),
			Detail: fmt.Sprintf("a Service gets at most %d ports where it shares addresses with others, as in AddressPool %s: "+
				"spread them over several Services, or have an address to itself from a pool with the sharing %s",
				a.view.MaxPorts(), lot.Pool.Name, v1beta1.SharingNone),
		}), nil
	}
	return a.poolLimit(ctx, append(slices.Clone(beside), lot), fronts)
}

// tooManyPorts says whether a Service would have more ports of an address that it shares, or of the nodes, than one gets.
func (a *allotment) tooManyPorts(lot loadbalancer.Lot) bool {
	if len(lot.Points) <= a.view.MaxPorts() || lot.Points[0].Port() == 0 {
		return false
	}
	ports := refusal.Share{Limit: a.view.MaxPorts(), Wanted: len(lot.Points), Added: len(lot.Missing(a.Held))}
	for _, at := range a.Held {
		if at.Port() != 0 && at.Address() == lot.Address {
			ports.Own++
		}
	}
	ports.All = ports.Own
	return ports.Exceeded()
}

// poolLimit refuses a Service the last of some lots, where its namespace would have more of the pool than one gets. What
// the Services in front of proxies have does not count.
func (a *allotment) poolLimit(ctx context.Context, lots []loadbalancer.Lot, fronts []types.NamespacedName) (refusal.Problems, error) {
	lot := lots[len(lots)-1]
	of := refusal.Share{Limit: int(lot.Pool.Spec.MaxPerNamespace)}
	for _, l := range lots {
		if l.Pool.Name == lot.Pool.Name {
			of.Wanted += len(l.Points)
			of.Added += len(l.Missing(a.Held))
		}
	}
	claims, err := a.view.ClaimsOfNamespace(ctx, a.Service.Namespace, claim.ScopeFamily(lot.Points[0].Scope()))
	if err != nil {
		return nil, err
	}
	claims = slices.DeleteFunc(claims, func(c *v1beta1.EdgeClaim) bool {
		at, err := claim.Of(c)
		return err != nil || at.IsAddress() && !lot.Pool.Set.Contains(at.Address()) || slices.Contains(fronts, claim.HolderOf(c).Key())
	})
	of.All = len(claims)
	for _, c := range claims {
		if claim.HolderOf(c) == a.Holder() {
			of.Own++
		}
	}
	if !of.Exceeded() {
		return nil, nil
	}
	leaving := max(of.Own-of.Wanted, 0)
	for _, c := range claims {
		leaves, err := isLeavingBalancer(ctx, a.view, claim.HolderOf(c))
		if err != nil {
			return nil, err
		}
		if leaves && claim.HolderOf(c) != a.Holder() {
			leaving++
		}
	}
	return a.poolLimitText(lot, of, leaving), nil
}

func (a *allotment) poolLimitText(lot loadbalancer.Lot, of refusal.Share, leaving int) refusal.Problems {
	what, path, value := "address(es)", a.AddressesPath, lot.Address.String()
	if lot.Points[0].Port() != 0 {
		what = "port(s)"
	}
	_, asked := a.Address(addresspool.FamilyOf(lot.Address))
	switch {
	case what == "port(s)" && len(lot.Missing(a.Held)) < len(lot.Points):
		path, value = loadbalancer.PortsPath, fmt.Sprint(len(lot.Points))
	case !asked || !lot.Address.IsValid():
		path, value = a.drawnBy()
	}
	more := ""
	if of.Added > 1 {
		more = fmt.Sprintf(", and this Service asks for %d more", of.Added)
	}
	return refusal.One(v1beta1.ReasonNamespaceLimitReached, field.Invalid(path, value, fmt.Sprintf(
		"AddressPool %s gives at most %d %s to one namespace (spec.maxPerNamespace), and namespace %q has %d%s%s, or choose another pool",
		lot.Pool.Name, of.Limit, what, a.Service.Namespace, of.All, more, refusal.WayOut(leaving, "a Service that has one"))))
}
