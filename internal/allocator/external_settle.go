package allocator

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// ExternalLoss is what is wrong with an address that a stored Service names: kube-proxy forwards its ports there all the same.
type ExternalLoss struct {
	Service *corev1.Service
	// Reason and Text say what it is. Key says whether two losses are the same to whom they are told.
	Reason, Text, Key string
	// At is the point that somebody else has, zero where it is not about one. Claimed says that the Service has a claim on it, beside which
	// the other one can't be; see claim.Ledger.Confirm.
	At      claim.Coordinate
	Claimed bool
	// Listed says that the other one has no claim either, but is served there by its status.
	Listed bool
}

// SettleExternal says what is to be entered of the Services that name an address, and what is wrong with any. What is claimed stays
// claimed; of two that have a port, the older one has it, then the first by name. A claim that is about to be released is nobody's loss.
// An address that no pool gives to a Service is the Service's in the ledger, too: it has the traffic, and nobody is to be given it beside.
func SettleExternal(
	facts ExternalFacts, ip netip.Addr, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) (enter []claim.Entry, lost []ExternalLoss) {
	planned := map[claim.Coordinate]*v1beta1.EdgeClaim{}
	naming := slices.Clone(facts.Naming(ip))
	slices.SortFunc(naming, loadbalancer.ByAge)
	for _, svc := range naming {
		e := newExternal(facts, svc, graceLeft)
		path := loadbalancer.ExternalIPsPath.Index(max(slices.Index(loadbalancer.ExternalIPs(svc), ip), 0)).String()
		if over := e.tooMuch(); over != nil {
			lost = append(lost, ExternalLoss{Service: svc, Reason: v1beta1.ReasonTooManyPorts, Text: over.Error(), Key: over.Field})
			continue
		}
		if e.poolOf(ip) == nil && !e.isFront {
			lost = append(lost, ExternalLoss{
				Service: svc, Reason: v1beta1.ReasonAddressNotInPool, Text: path + ": " + e.ungiven(ip), Key: "pool " + ip.String(),
			})
		}
		for _, at := range loadbalancer.ExternalPoints(svc, ip) {
			held, claimed := e.standing(at)
			held = cmp.Or(held, planned[at])
			switch {
			case held == nil && !claimed:
				by := ExternalClaimant(svc)
				enter, planned[at] = append(enter, claim.Entry{By: by, At: at}), claim.New(at, by)
			case held != nil && !isLeaving(facts, held):
				lost = append(lost, ExternalLoss{
					Service: svc, Reason: v1beta1.ReasonAddressConflict, Key: at.String() + " " + held.Spec.HeldBy, At: at, Claimed: claimed,
					Listed: planned[at] == nil && held.ResourceVersion == "",
					Text:   fmt.Sprintf("%s: port %s of %s is %s", path, at.Point(), ip, refusal.Held(held, false, 0)),
				})
			}
		}
	}
	return enter, lost
}

// standing is the claim of somebody else beside which the Service can't have a point, nil for none; claimed says that it has one itself.
func (e *external) standing(at claim.Coordinate) (held *v1beta1.EdgeClaim, claimed bool) {
	a := &allocator{facts: e.facts, graceLeft: e.graceLeft, Subject: &Subject{Service: e.svc}}
	own := e.facts.Claim(at.Name())
	whole := e.facts.Claim(claim.Address(at.Address()).Name())
	if whole != nil && claim.HolderOf(whole) == a.Holder() && whole.Spec.Heir != nil && claim.HeirOf(whole) != a.Holder() {
		return claim.AsHeirs(whole), own != nil && claim.HolderOf(own) == a.Holder() // which has all of it soon
	}
	return a.heldByOther(at), own != nil && claim.HolderOf(own) == a.Holder()
}
