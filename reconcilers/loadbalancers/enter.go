package loadbalancers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// enter claims what a Service has by its status alone, before it is given anything: the ledger was lost, and the Service is served there.
// One that another controller may have served is adopted instead.
func (r *loadBalancerReconciler) enter(ctx context.Context, o *outcome) (err error) {
	s := o.subject
	o.entering, err = kube.Decide(ctx, r.View, func(f *kube.Facts) (e allocator.Entering) {
		if allocator.IsServed(f, s.Service) {
			e = allocator.Enter(f, s)
		}
		return e
	})
	if err != nil {
		return err
	}
	for _, a := range o.entering.Allocations {
		if err := r.enterAllocation(ctx, o, a); err != nil {
			return err
		}
	}
	if o.entering.All() {
		o.problems = append(o.problems, ungiven(o.entering)...)
		return r.stayIn(ctx, o)
	}
	return nil
}

// enterAllocation claims all of an allocation that a Service has by its status, or notes who was faster. What an error keeps from being
// claimed the next look claims: the Service lists it still.
func (r *loadBalancerReconciler) enterAllocation(ctx context.Context, o *outcome, a allocator.Allocation) error {
	s := o.subject
	made, err := r.claimWith(ctx, s, r.Ledger.ClaimAll, a.Missing(s.Held))
	if held, ok := errors.AsType[*claim.HeldError](err); ok {
		o.entering.Lost = append(o.entering.Lost, takenFrom(s, a, held.Claim)...)
		return r.withdraw(ctx, s, made)
	}
	o.made = append(o.made, made...)
	return err
}

// takenFrom are the addresses of an allocation that a Service lists and somebody else has a claim on: with ports of the nodes, all of them.
func takenFrom(s *allocator.Subject, a allocator.Allocation, by *v1beta1.EdgeClaim) (taken []allocator.Taken) {
	for _, ip := range loadbalancer.Listed(s.Service.Status.LoadBalancer.Ingress) {
		if ip == a.Address || !a.Address.IsValid() {
			taken = append(taken, allocator.Taken{Address: ip, By: by})
		}
	}
	return taken
}

// stayIn has the status of a Service list, of what it lists already, what no pool gives it and nobody else has, and what it holds that a
// pool gives it. The rest goes: what others have, what is of none of its families, and what it holds that no pool gives it any longer.
func (r *loadBalancerReconciler) stayIn(ctx context.Context, o *outcome) error {
	retained, err := kube.Decide(ctx, r.View, func(f *kube.Facts) []allocator.Allocation { return allocator.Retained(f, o.subject) })
	o.ingress = o.ingressOnly(func(ip netip.Addr) bool {
		return slices.Contains(o.entering.Stays, ip) || slices.Contains(o.entering.Leaves, ip) ||
			slices.ContainsFunc(retained, func(a allocator.Allocation) bool { return a.Address == ip })
	})
	return err
}

// besideIngress is what stays of it beside what the Service has in the place of the addresses that it leaves.
func (o *outcome) besideIngress() []corev1.LoadBalancerIngress {
	return o.ingressOnly(func(ip netip.Addr) bool { return slices.Contains(o.entering.Stays, ip) })
}

// ingressOnly is what the status of a Service says of some of its addresses.
func (o *outcome) ingressOnly(stays func(netip.Addr) bool) []corev1.LoadBalancerIngress {
	return slices.DeleteFunc(slices.Clone(o.subject.Service.Status.LoadBalancer.Ingress), func(i corev1.LoadBalancerIngress) bool {
		ip, err := netip.ParseAddr(i.IP)
		return err != nil || !stays(ip.Unmap())
	})
}

// ungiven tells a Service that no pool gives addresses that it lists.
func ungiven(e allocator.Entering) refusal.Problems {
	text := fmt.Sprintf("no AddressPool gives it %s, at which it is served and which no one else gets; it is claimed when one does; "+
		"to have another address, ask for it", texts(e.Stays))
	return refusal.One(v1beta1.ReasonAddressNotInPool, field.Invalid(loadbalancer.TypePath, string(corev1.ServiceTypeLoadBalancer), text))
}

// lostText says who has an address that a Service has listed.
func lostText(t allocator.Taken) string {
	if !t.IsClaimed() {
		return fmt.Sprintf("%s stays with %s, which lists it, too, and is older", t.Address, claim.HolderOf(t.By))
	}
	return fmt.Sprintf("%s is %s", t.Address, refusal.Held(t.By, false, 0))
}
