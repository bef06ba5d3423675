package loadbalancers

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

const (
	// bridgeTime is how long a Service stays listed at an address that its heir has, and is not listed at.
	bridgeTime = 10 * time.Second
	// bridgePoll is when it is looked at again, should no event of the heir come.
	bridgePoll = time.Second
)

// bridges are the Services that stay listed at an address which their heir has, with when that began. kube-proxy serves either of two that
// list an address, and nobody while none does: so the heir is listed before the giver no longer is. That an heir can't be listed keeps the
// giver there no longer than bridgeTime, or as long from when another replica leads.
type bridges struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

func newBridges() *bridges { return &bridges{since: map[types.NamespacedName]time.Time{}} }

// left is how long a Service stays listed yet.
func (b *bridges) left(key types.NamespacedName) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, known := b.since[key]
	if !known {
		since = time.Now()
		b.since[key] = since
	}
	return max(bridgeTime-time.Since(since), 0)
}

func (b *bridges) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.since, key)
}

// bridge has a Service stay listed at the addresses that it has handed over, until its heir is listed there. It returns when to look again,
// 0 for never.
func (r *loadBalancerReconciler) bridge(ctx context.Context, svc *corev1.Service, o *outcome) (again time.Duration, err error) {
	key := client.ObjectKeyFromObject(svc)
	awaits, err := r.awaitsHeir(ctx, svc, o)
	if err != nil {
		return 0, err
	}
	if len(awaits) == 0 {
		r.bridges.forget(key)
		return 0, nil
	}
	left := r.bridges.left(key)
	if left == 0 {
		log.FromContext(ctx).Info("an address is handed over to a Service that could not be listed there yet", "addresses", texts(awaits))
		return 0, nil
	}
	o.ingress = merged(svc.Status.LoadBalancer.Ingress, o.ingress, awaits)
	return min(left, bridgePoll), nil
}

// handedOver are the addresses in the status of a Service that its heir has. lost are those that somebody else has; of some of them the
// cache may not show yet who that is.
func (r *loadBalancerReconciler) handedOver(ctx context.Context, svc *corev1.Service, lost []allocator.Taken) ([]netip.Addr, error) {
	heir, named := claim.NamedHeir(svc)
	if !named {
		return nil, nil
	}
	isHeirs := func(c *v1beta1.EdgeClaim) bool {
		return claim.HolderOf(c) == claim.ServiceHolder(heir.Namespace, heir.Name)
	}
	handed, err := kube.Decide(ctx, r.View, func(f *kube.Facts) []netip.Addr { return allocator.HandedOver(f, svc) })
	for _, taken := range lost {
		if taken.IsClaimed() && isHeirs(taken.By) && !slices.Contains(handed, taken.Address) {
			handed = append(handed, taken.Address)
		}
	}
	return handed, err
}

// awaitsHeir are the addresses that a Service has handed over, and at which the heir is about to be listed.
func (r *loadBalancerReconciler) awaitsHeir(ctx context.Context, svc *corev1.Service, o *outcome) ([]netip.Addr, error) {
	named, is := claim.NamedHeir(svc)
	if !is || len(o.handed) == 0 || svc.DeletionTimestamp != nil {
		return nil, nil
	}
	heir, err := r.View.Service(ctx, named)
	if err != nil || heir == nil || heir.DeletionTimestamp != nil || !r.View.LoadBalancers.IsOurs(heir) {
		return nil, err
	}
	there := append(loadbalancer.Listed(heir.Status.LoadBalancer.Ingress), loadbalancer.Listed(o.ingress)...)
	return slices.DeleteFunc(slices.Clone(o.handed), func(ip netip.Addr) bool { return slices.Contains(there, ip) }), nil
}

// merged is what a status is to say next, with what it says of some addresses now, in the place where it says so.
func merged(now, next []corev1.LoadBalancerIngress, stay []netip.Addr) []corev1.LoadBalancerIngress {
	all := make([]corev1.LoadBalancerIngress, 0, len(now)+len(next))
	isNext := func(i corev1.LoadBalancerIngress) bool {
		return slices.ContainsFunc(next, func(n corev1.LoadBalancerIngress) bool { return n.IP == i.IP })
	}
	for _, i := range now {
		if ip, err := netip.ParseAddr(i.IP); err == nil && slices.Contains(stay, ip.Unmap()) && !isNext(i) {
			all = append(all, i)
		} else if n := slices.IndexFunc(next, func(n corev1.LoadBalancerIngress) bool { return n.IP == i.IP }); n >= 0 {
			all = append(all, next[n])
		}
	}
	for _, n := range next {
		if !slices.ContainsFunc(now, func(i corev1.LoadBalancerIngress) bool { return n.IP == i.IP }) {
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

// newlyListed looks at those who are listed at an address at which a Service has come to be listed, and do not hold it: they wait for that.
func (r *loadBalancerReconciler) newlyListed(ctx context.Context, before, now *corev1.Service, q watch.Queue) {
	if kube.ServesAlike(before, now) || !r.View.LoadBalancers.IsOurs(now) {
		return
	}
	for _, ip := range goneFrom(now.Status.LoadBalancer.Ingress, before.Status.LoadBalancer.Ingress) {
		listing, err := r.View.LoadBalancers.Listing(ctx, ip)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list who is served at an address", "address", ip)
		}
		for _, other := range listing {
			q.Add(watch.ForObject(other))
		}
	}
}
