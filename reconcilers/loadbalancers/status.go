package loadbalancers

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// The states of a Service of type LoadBalancer, beside stateServed and stateRefused.
const (
	statePending = "pending"
	stateForeign = "foreign"
)

// ingressOf is what the status of a Service is to say when it has allocations.
func (r *loadBalancerReconciler) ingressOf(
	ctx context.Context, svc *corev1.Service, s *allocator.Subject, allocations []allocator.Allocation,
) ([]corev1.LoadBalancerIngress, refusal.Problems, error) {
	var addresses []netip.Addr
	mode := corev1.LoadBalancerIPModeVIP
	for _, a := range allocations {
		switch a.Pool.SourceOrDefault() {
		case v1beta1.SourceNodeIP:
			nodes, err := r.View.LoadBalancers.NodeAddresses(ctx, a.Pool, svc)
			if err != nil {
				return nil, nil, err
			}
			if len(nodes) == 0 {
				return nil, noNode(svc, a.Pool), nil
			}
			addresses = append(addresses, nodes...)
			continue
		case v1beta1.SourceClusterIP:
			mode = corev1.LoadBalancerIPModeProxy // kube-proxy has it already
		}
		addresses = append(addresses, a.Address)
	}
	byFamily := func(ip netip.Addr) int { return slices.Index(svc.Spec.IPFamilies, addresspool.FamilyOf(ip)) }
	slices.SortStableFunc(addresses, func(a, b netip.Addr) int { return cmp.Compare(byFamily(a), byFamily(b)) })
	return loadbalancer.Served(addresses, mode, s.Ports), nil, nil
}

func noNode(svc *corev1.Service, pool *addresspool.Pool) refusal.Problems {
	text := fmt.Sprintf("no node of AddressPool %s takes traffic: none is ready, has an address of the families of the Service, "+
		"and is not excluded by the label %s", pool.Name, corev1.LabelNodeExcludeBalancers)
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		text += ", and, as externalTrafficPolicy is Local, has an endpoint that is ready"
	}
	return refusal.Problems{{Reason: v1beta1.ReasonNoReadyNode, Err: field.Invalid(loadbalancer.TypePath, string(svc.Spec.Type), text)}}
}

// publish writes the status of a Service, if it says anything else, and tells what has changed.
func (r *loadBalancerReconciler) publish(ctx context.Context, svc *corev1.Service, o *outcome) error {
	if r.isNews(svc, o) {
		if err := r.mayTakeAway(ctx, svc, o); err != nil {
			return err
		}
		lost, err := r.lost(ctx, svc, o)
		if err != nil {
			return err
		}
		if err := r.writeIngress(ctx, svc, o.ingress); err != nil {
			return err
		}
		r.emitLost(svc, lost, o)
	}
	if svc.DeletionTimestamp != nil { // who waits for it to be gone is told nothing of what it can't have
		r.forgetNews(client.ObjectKeyFromObject(svc))
		return nil
	}
	r.report(svc, o)
	return nil
}

// isNews says whether the status of a Service is to say anything else than it does.
func (r *loadBalancerReconciler) isNews(svc *corev1.Service, o *outcome) bool {
	return !o.foreign && !equality.Semantic.DeepEqual(svc.Status.LoadBalancer.Ingress, o.ingress)
}

// confirm makes sure that a Service has what its status is about to list.
func (r *loadBalancerReconciler) confirm(ctx context.Context, svc *corev1.Service, o *outcome) error {
	if !r.isNews(svc, o) {
		return nil
	}
	at, err := r.unconfirmed(ctx, o)
	if err != nil || at.IsZero() {
		return err
	}
	return r.loses(ctx, svc, o, at)
}

// mayTakeAway returns an error if a Service is about to lose an address, for another reason than that a node is lost, while
// pools and claims may be absent because Portcullis is being uninstalled.
func (r *loadBalancerReconciler) mayTakeAway(ctx context.Context, svc *corev1.Service, o *outcome) error {
	remaining := loadbalancer.Listed(o.ingress)
	for _, ip := range loadbalancer.Listed(svc.Status.LoadBalancer.Ingress) {
		if slices.Contains(remaining, ip) {
			continue
		}
		withNode, err := r.wentWithNode(ctx, o, ip)
		if err != nil {
			return err
		}
		if !withNode {
			_, err := r.Kinds.Check(ctx)
			return err
		}
	}
	return nil
}

// wentWithNode says whether an address that a Service had was that of a node that takes no traffic any more. The address
// of one that does may go because its pool does.
func (r *loadBalancerReconciler) wentWithNode(ctx context.Context, o *outcome, ip netip.Addr) (bool, error) {
	byNodes := slices.ContainsFunc(o.allocations, func(a allocator.Allocation) bool {
		return a.Pool.SourceOrDefault() == v1beta1.SourceNodeIP
	})
	if !byNodes || loadbalancer.HoldsOf(o.subject.Held, ip) {
		return false, nil
	}
	stays, err := r.View.LoadBalancers.TakesTrafficAt(ctx, ip)
	return !stays, err
}

// lost are the addresses that a Service is about to lose because no pool gives them to it any longer: of those that it holds, and of those
// that it has by its status alone.
func (r *loadBalancerReconciler) lost(ctx context.Context, svc *corev1.Service, o *outcome) ([]netip.Addr, error) {
	remaining := loadbalancer.Listed(o.ingress)
	gone := slices.DeleteFunc(loadbalancer.Listed(svc.Status.LoadBalancer.Ingress), func(ip netip.Addr) bool {
		has := loadbalancer.HoldsOf(o.subject.Held, ip) || slices.Contains(o.entering.Stays, ip) || slices.Contains(o.entering.Leaves, ip)
		return !has || slices.Contains(remaining, ip)
	})
	return kube.Decide(ctx, r.View, func(f *kube.Facts) []netip.Addr {
		return slices.DeleteFunc(gone, func(ip netip.Addr) bool { return allocator.Gives(f, svc, ip) })
	})
}

// emitLost tells a Service of the addresses that it lists no longer: those that no pool gives it, and those that others have.
func (r *loadBalancerReconciler) emitLost(svc *corev1.Service, ungiven []netip.Addr, o *outcome) {
	var parts []string
	if len(ungiven) > 0 {
		parts = append(parts, fmt.Sprintf("no AddressPool gives %s to this Service any longer", texts(ungiven)))
	}
	lost := slices.DeleteFunc(slices.Clone(o.entering.Lost), func(taken allocator.Taken) bool {
		return slices.Contains(o.handed, taken.Address) // of which HandedOver has told
	})
	for _, taken := range lost {
		parts = append(parts, lostText(taken))
	}
	if len(parts) == 0 {
		return
	}
	addressesLost.Add(float64(len(ungiven) + len(lost)))
	if now := loadbalancer.Listed(o.ingress); len(now) > 0 {
		parts = append(parts, "now it has "+texts(now))
	}
	r.emit(svc, corev1.EventTypeWarning, v1beta1.ReasonAddressLost, strings.Join(parts, "; "))
}

// report tells what keeps a Service from having what it asks for, or that nothing does any longer, and notes its state.
func (r *loadBalancerReconciler) report(svc *corev1.Service, o *outcome) {
	state, news, reason := report.StateServed, "", ""
	if len(o.problems) > 0 {
		news, reason = textOf(o.problems), o.problems[0].Reason
	}
	switch {
	case o.foreign:
		state, reason = stateForeign, v1beta1.ReasonForeignLoadBalancer
		news = "another controller has given it its addresses, and they are left alone: " + news
	case len(o.problems) > 0 && len(loadbalancer.Listed(o.ingress)) == 0 && loadbalancer.IsPending(o.problems):
		state = statePending
	case len(o.problems) > 0 && len(loadbalancer.Listed(o.ingress)) == 0:
		state = report.StateRefused
	}
	r.reported.RecordState(svc, "", state)
	r.waiting.set(client.ObjectKeyFromObject(svc), len(o.problems) > 0 || o.awaitsFamily, o.entering.All())
	before := r.reported.Record(svc, report.TopicAddress, news)
	switch {
	case before == news:
	case o.foreign || reason == v1beta1.ReasonHandedOver:
		r.emit(svc, corev1.EventTypeNormal, reason, news)
	case news != "":
		r.emit(svc, corev1.EventTypeWarning, reason, news)
	default:
		r.emit(svc, corev1.EventTypeNormal, v1beta1.ReasonAddressAssigned, "it is served at "+texts(loadbalancer.Listed(o.ingress)))
	}
}

func (r *loadBalancerReconciler) emit(svc *corev1.Service, kind, reason, message string) {
	report.Emit(r.Events, svc, nil, kind, reason, "Balance", message)
}

// textOf is what problems say. What is wrong with no field in particular is told without one.
func textOf(problems refusal.Problems) string {
	parts := make([]string, 0, len(problems))
	for _, p := range problems {
		if p.Err.Field == loadbalancer.TypePath.String() {
			parts = append(parts, p.Err.Detail)
		} else {
			parts = append(parts, p.Err.Error())
		}
	}
	return strings.Join(parts, "; ")
}

func texts(addresses []netip.Addr) string {
	parts := make([]string, 0, len(addresses))
	for _, ip := range addresses {
		parts = append(parts, ip.String())
	}
	return strings.Join(parts, ", ")
}
