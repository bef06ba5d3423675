package kube

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// remembered is how long a departure is remembered at least. It matters to claims in their grace only.
const remembered = 5 * time.Minute

// departures remember the StreamIngresses, the Services that ask for an Ingress, an address or a host name, and the Ingresses, that were
// seen stored and then deleted. A name that is created anew while the claim of its former life is still there would else look like two
// creations in flight at once. It is about what others have written: that is why it is not in a claim.Written.
type departures struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	// since is when the first UID of recent came. When it is old, recent becomes past, and what was past is forgotten.
	since        time.Time
	recent, past map[types.UID]bool
}

// newDepartures makes departures that follow a cache.
func newDepartures(ctx context.Context, c cache.Cache) (*departures, error) {
	d := &departures{clock: clock.RealClock{}}
	for _, kind := range []client.Object{&v1beta1.StreamIngress{}, &corev1.Service{}, &networkingv1.Ingress{}} {
		if err := d.follow(ctx, c, kind); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// follow has the departures of a kind remembered from now on.
func (d *departures) follow(ctx context.Context, c cache.Informers, kind client.Object) error {
	_, err := follow(ctx, c, kind, toolscache.ResourceEventHandlerFuncs{UpdateFunc: d.replaced, DeleteFunc: d.deleted})
	return err
}

// replaced notices that an object was deleted and created anew between two looks of the cache.
func (d *departures) replaced(before, after any) {
	was, ok := before.(client.Object)
	is, okay := after.(client.Object)
	if ok && okay && was.GetUID() != is.GetUID() {
		d.deleted(before)
	}
}

func (d *departures) deleted(obj any) {
	gone, ok := objectOf(obj).(client.Object)
	if svc, is := gone.(*corev1.Service); !ok || is && svc.Spec.Type != corev1.ServiceTypeLoadBalancer && len(svc.Annotations) == 0 {
		return
	}
	d.add(gone.GetUID())
}

func (d *departures) add(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.clock.Now(); now.Sub(d.since) > remembered {
		d.since, d.recent, d.past = now, map[types.UID]bool{}, d.recent
	}
	d.recent[uid] = true
}

func (d *departures) has(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recent[uid] || d.past[uid]
}

// Departed says whether a StreamIngress, or a Service that asked for an Ingress or an address, of that UID was seen stored, and then
// deleted, a moment ago.
func (c *Claims) Departed(uid types.UID) bool { return uid != "" && c.departures.has(uid) }

// Seen says whether an object was seen stored: it is in the cache, or was until a moment ago. Only StreamIngresses, Ingresses,
// the Services that ask for an Ingress or an address, and guarded objects are known. What a namespace was promised may be for a change of
// an object that stands: that is over once it is seen at that version.
func (c *Claims) Seen(ctx context.Context, by claim.Claimant) bool {
	if !by.IsNamespace() {
		by.Generation = 0
	}
	return c.Stored(ctx, by)
}

// Stored says whether an object was seen stored at the claimant's generation or a later one: it is in the cache, or was until
// a moment ago. What a Service without a UID is promised is kept for it: a class names it (stream.Front), and it does not exist.
func (c *Claims) Stored(ctx context.Context, by claim.Claimant) bool {
	if by.UID == "" {
		return by.IsService()
	}
	return c.departures.has(by.UID) || c.shows(ctx, by)
}

// shows says whether the cache shows an object at the claimant's generation, or a later one. For a namespace that is the object for which
// it claims a host name or a path, by its version, as for Services. Which it is a claim does not say: then it is one of the namespace's, of
// that UID.
func (c *Claims) shows(ctx context.Context, by claim.Claimant) bool {
	of := by.Holder
	if by.IsNamespace() {
		if of = by.For; of == (claim.Holder{}) {
			return c.hosts.hasStored(ctx, by)
		}
	}
	obj, err := c.holder(ctx, of)
	if err != nil || obj == nil || obj.GetUID() != by.UID {
		return false
	}
	if by.IsNamespace() || by.IsService() {
		return claim.Version(obj.GetResourceVersion()) >= by.Generation
	}
	return obj.GetGeneration() >= by.Generation
}

// holder reads an object that may hold claims, or use host names, from the cache, nil where there is none.
func (c *Claims) holder(ctx context.Context, of claim.Holder) (client.Object, error) {
	switch {
	case of.IsStream():
		return orNone(read[v1beta1.StreamIngress](ctx, c.objects, of.Key()))
	case of.IsService():
		return orNone(read[corev1.Service](ctx, c.objects, of.Key()))
	case of.IsIngress():
		return orNone(read[networkingv1.Ingress](ctx, c.objects, of.Key()))
	case of.Group == gatewayv1.GroupName:
		return c.gateways.holder(ctx, of)
	default:
		return nil, nil
	}
}

// orNone is an object that was read as one of any kind: of none, it is nil itself.
func orNone[T any, P interface {
	*T
	client.Object
}](obj P, err error) (client.Object, error) {
	if obj == nil {
		return nil, err
	}
	return obj, err
}
