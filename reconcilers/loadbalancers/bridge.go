package loadbalancers

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

const (
	// DefaultHandOverWait is how long a Service stays listed at an address that another has by now, and is not listed at.
	DefaultHandOverWait = 10 * time.Second
	// bridgePoll is when it is looked at again, should no event of the heir come.
	bridgePoll = time.Second
)

// bridges are the addresses at which Services stay listed that others have by now, with when that began. kube-proxy serves either of two
// that list an address, and nobody while none does: so the heir is listed before the giver no longer is. That an heir can't be listed keeps
// the giver there no longer than time, or as long from when another replica leads.
type bridges struct {
	time  time.Duration
	mu    sync.Mutex
	since map[types.NamespacedName]map[netip.Addr]time.Time
}

func newBridges(wait time.Duration) *bridges {
	return &bridges{time: wait, since: map[types.NamespacedName]map[netip.Addr]time.Time{}}
}

// left is how long a Service stays listed at an address yet.
func (b *bridges) left(key types.NamespacedName, ip netip.Addr) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, known := b.since[key][ip]
	if !known {
		since = time.Now()
		if b.since[key] == nil {
			b.since[key] = map[netip.Addr]time.Time{}
		}
		b.since[key][ip] = since
	}
	return max(b.time-time.Since(since), 0)
}

// at are the Services that stay listed at an address.
func (b *bridges) at(ip netip.Addr) (keys []types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, since := range b.since {
		if _, stays := since[ip]; stays {
			keys = append(keys, key)
		}
	}
	return keys
}

// keep forgets of a Service all addresses but some.
func (b *bridges) keep(key types.NamespacedName, some []netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.since[key], func(ip netip.Addr, _ time.Time) bool { return !slices.Contains(some, ip) })
	if len(b.since[key]) == 0 {
		delete(b.since, key)
	}
}

// bridge has a Service stay listed at the addresses that it has handed over, until who has them is listed there. It returns when to look
// again, 0 for never. That the giver no longer names its heir, or is being deleted, ends nothing: the address is the heir's all the same.
func (r *loadBalancerReconciler) bridge(ctx context.Context, svc *corev1.Service, o *outcome) (again time.Duration, err error) {
	key := client.ObjectKeyFromObject(svc)
	awaits, err := r.awaitsHeirs(ctx, svc, o)
	if err != nil {
		return 0, err
	}
	r.bridges.keep(key, awaits)
	var stay, late []netip.Addr
	for _, ip := range awaits {
		if left := r.bridges.left(key, ip); left > 0 {
			stay, again = append(stay, ip), watch.Soonest(again, min(left, bridgePoll))
		} else {
			late = append(late, ip)
		}
	}
	if len(late) > 0 {
		log.FromContext(ctx).Info("an address is handed over to a Service that could not be listed there yet", "addresses", texts(late))
	}
	if len(stay) > 0 {
		o.ingress = merged(svc.Status.LoadBalancer.Ingress, o.ingressBeside(stay), stay)
	}
	return again, nil
}

// ingressBeside is what the status of a Service is to say next, beside addresses at which it stays listed: what it is given in place of one
// of those waits, as several of a family are taken for those of nodes.
func (o *outcome) ingressBeside(stay []netip.Addr) []corev1.LoadBalancerIngress {
	return slices.DeleteFunc(slices.Clone(o.ingress), func(i corev1.LoadBalancerIngress) bool {
		ip, err := netip.ParseAddr(i.IP)
		return err == nil && slices.ContainsFunc(stay, func(stays netip.Addr) bool { return stays.BitLen() == ip.Unmap().BitLen() })
	})
}

// handedOver are the addresses in the status of a Service that its heir has. lost are those that somebody else has; of some of them the
// cache may not show yet who that is.
func (r *loadBalancerReconciler) handedOver(ctx context.Context, svc *corev1.Service, lost []allocator.Taken) ([]netip.Addr, error) {
	heir, named := claim.NamedHeir(svc)
	if !named {
		return nil, nil
	}
	by := claim.ServiceHolder(heir.Namespace, heir.Name)
	handed, err := kube.Decide(ctx, r.View, func(f *kube.Facts) []netip.Addr { return allocator.HandedOver(f, svc) })
	for _, taken := range lost {
		if taken.IsClaimed() && claim.HolderOf(taken.By) == by && !slices.Contains(handed, taken.Address) {
			handed = append(handed, taken.Address)
		}
	}
	return handed, err
}

// awaitsHeirs are the addresses that a Service lists, and is to list no longer, as others have them that are about to be listed there, or
// to have endpoints.
func (r *loadBalancerReconciler) awaitsHeirs(ctx context.Context, svc *corev1.Service, o *outcome) (awaits []netip.Addr, err error) {
	next := loadbalancer.Listed(o.ingress)
	for _, ip := range loadbalancer.Listed(svc.Status.LoadBalancer.Ingress) {
		if o.foreign || slices.Contains(next, ip) {
			continue
		}
		heir, err := r.successor(ctx, svc, o, ip)
		if err != nil {
			return nil, err
		}
		if heir == nil {
			continue
		}
		waits := !slices.Contains(loadbalancer.Listed(heir.Status.LoadBalancer.Ingress), ip)
		if !waits {
			if waits, err = r.awaitsEndpoints(ctx, svc, heir); err != nil {
				return nil, err
			}
		}
		if waits {
			awaits = append(awaits, ip)
		}
	}
	return awaits, nil
}

// awaitsEndpoints says whether an heir has no endpoint that is ready yet, and the giver has one: nodes refuse connections to an address of
// a Service without any, and those of one that was created a moment ago come after its status lists the address.
func (r *loadBalancerReconciler) awaitsEndpoints(ctx context.Context, giver, heir *corev1.Service) (bool, error) {
	has, err := r.View.LoadBalancers.HasEndpoints(ctx, giver)
	if err != nil || !has {
		return false, err
	}
	ready, err := r.View.LoadBalancers.HasEndpoints(ctx, heir)
	return !ready, err
}

// successor is the Service that has an address, or ports of it, in place of one that lists it, and asks for it by name, as all do to whom
// an address is handed over; nil for none that is about to be listed there.
func (r *loadBalancerReconciler) successor(ctx context.Context, svc *corev1.Service, o *outcome, ip netip.Addr) (*corev1.Service, error) {
	by, err := kube.Decide(ctx, r.View, func(f *kube.Facts) claim.Holder { return allocator.BridgedTo(f, svc, ip) })
	if err != nil {
		return nil, err
	}
	for _, taken := range o.entering.Lost { // the cache may not show yet who has it
		at, err := claim.Of(taken.By)
		if err == nil && taken.Address == ip && taken.IsClaimed() && by == (claim.Holder{}) && claim.IsHandable(taken.By) &&
			allocator.IsBridged(svc, ip, at) {
			by = claim.HolderOf(taken.By)
		}
	}
	if by == (claim.Holder{}) {
		return nil, nil
	}
	heir, err := r.View.Service(ctx, by.Key())
	if err != nil || heir == nil || heir.DeletionTimestamp != nil || !r.View.LoadBalancers.IsOurs(heir) {
		return nil, err
	}
	if request, problems := loadbalancer.RequestOf(heir); len(problems) > 0 || !slices.Contains(request.Addresses, ip) {
		return nil, nil
	}
	return heir, nil
}

// merged is what a status is to say next, with what it says of some addresses now, in the place where it says so.
func merged(now, next []corev1.LoadBalancerIngress, stay []netip.Addr) []corev1.LoadBalancerIngress {
	all := make([]corev1.LoadBalancerIngress, 0, len(now)+len(next))
	place := func(in []corev1.LoadBalancerIngress, of corev1.LoadBalancerIngress) int {
		return slices.IndexFunc(in, func(i corev1.LoadBalancerIngress) bool { return i.IP == of.IP })
	}
	for _, i := range now {
		if n := place(next, i); n >= 0 {
			all = append(all, next[n])
		} else if ip, err := netip.ParseAddr(i.IP); err == nil && slices.Contains(stay, ip.Unmap()) {
			all = append(all, i)
		}
	}
	for _, n := range next {
		if place(now, n) < 0 {
			all = append(all, n)
		}
	}
	return all
}

// heirChanged finds the Service to which another one comes to hand over what it has: it may wait for that.
func heirChanged(before, now *corev1.Service) (heir types.NamespacedName, changed bool) {
	heir, named := claim.NamedHeir(now)
	was, had := claim.NamedHeir(before)
	return heir, named && (!had || was != heir)
}

// newlyListed looks at those who stay listed at an address at which a Service has come to be listed: they wait for that. Who is about to
// wait sees that it is listed, or looks again soon.
func (r *loadBalancerReconciler) newlyListed(before, now *corev1.Service, q watch.Queue) {
	if kube.ServesAlike(before, now) || !r.View.LoadBalancers.IsOurs(now) {
		return
	}
	for _, ip := range goneFrom(now.Status.LoadBalancer.Ingress, before.Status.LoadBalancer.Ingress) {
		for _, key := range r.bridges.at(ip) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
}
