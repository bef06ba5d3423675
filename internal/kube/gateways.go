package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

const (
	// IndexListener finds the ListenerSets of ours by the names of the claims on the ports that they have a listener for.
	IndexListener = "listener"
	// IndexAttached finds ListenerSets by the namespace/name of their Gateway, and by that with a port: see attachedTo.
	IndexAttached = "attached"
)

// Gateways reads what the Gateway API has. Its kinds may be installed later, or never: then nothing is there. Nothing is read before
// Ask, so that who has no class with a Gateway keeps nothing of it, nor do replicas that do not lead.
type Gateways struct {
	objects *objects
	// Guarded are the kinds of which the listeners of others are guarded.
	Guarded    guard.Actions
	departures *departures
	// ask closes asked.
	ask   func()
	asked chan struct{}

	mu      sync.Mutex
	indexer client.FieldIndexer
	indexed map[string]bool
	// missing are the guarded kinds that were found not to be installed a moment ago.
	missing *utilcache.Expiring
	// unread is since when a kind is yet to be read, as far as anybody has asked; zero while none is.
	unread time.Time
}

func newGateways(o *objects, d *departures) *Gateways {
	g := &Gateways{objects: o, departures: d, asked: make(chan struct{}), indexed: map[string]bool{}, missing: utilcache.NewExpiring()}
	g.ask = sync.OnceFunc(func() { close(g.asked) })
	return g
}

// Ask has the Gateway API read from now on. It may be called any number of times.
func (g *Gateways) Ask() { g.ask() }

// Asked is closed once the Gateway API is read.
func (g *Gateways) Asked() <-chan struct{} { return g.asked }

func (g *Gateways) isAsked() bool {
	select {
	case <-g.asked:
		return true
	default:
		return false
	}
}

// IndexBy says who indexes the cache.
func (g *Gateways) IndexBy(indexer client.FieldIndexer) { g.indexer = indexer }

// Prepare makes sure that ListenerSets are indexed. The error is one that meta.IsNoMatchError knows while the API server does not know
// the kind.
func (g *Gateways) Prepare(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, keys := range map[string]func(*gatewayv1.ListenerSet) []string{
		IndexListener: listenerNames,
		IndexAttached: attachedTo,
		IndexListens:  listensAt,
	} {
		if g.indexed[name] || name == IndexListens && !g.Guarded.Guards(guard.Listeners()...) {
			continue
		}
		if err := addIndexes(ctx, g.indexer, indexOf(&gatewayv1.ListenerSet{}, name, keys)); err != nil {
			return err
		}
		g.indexed[name] = true
	}
	return nil
}

// UnreadError says that a kind of the Gateway API is installed, and is yet to be read: a moment ago it was not, or Portcullis may not list
// it.
type UnreadError struct {
	// Kind is the kind, in plural.
	Kind string
}

// Error names the kind.
func (e *UnreadError) Error() string {
	return fmt.Sprintf("the %s of the cluster are yet to be read", e.Kind)
}

// IsUnread says whether a kind of the Gateway API is yet to be read.
func IsUnread(err error) bool {
	_, is := errors.AsType[*UnreadError](err)
	return is
}

// lateKinds are the kinds of the Gateway API that classes with a Gateway need, and what they are called.
var lateKinds = []struct {
	kind   client.Object
	plural string
}{
	{&gatewayv1.Gateway{}, "Gateways"}, {&gatewayv1.GatewayClass{}, "GatewayClasses"}, {&gatewayv1.ListenerSet{}, "ListenerSets"},
	{&gatewayv1.TCPRoute{}, "TCPRoutes"}, {&gatewayv1.UDPRoute{}, "UDPRoutes"},
}

// isKnown says whether the API server knows a kind. The error is an *UnreadError while it does and the cache has yet to read it: nobody
// waits for that.
func (g *Gateways) isKnown(ctx context.Context, kind client.Object) (bool, error) {
	informer, err := g.objects.informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	switch {
	case meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %T: %w", kind, err)
	case informer.HasSynced():
		return true, nil
	}
	plural := "routes" // of a kind that no class needs
	for _, late := range lateKinds {
		if reflect.TypeOf(late.kind) == reflect.TypeOf(kind) {
			plural = late.plural
		}
	}
	return true, &UnreadError{plural}
}

// get reads an object of the Gateway API from the cache; found is false where there is none, or the API server does not know the kind.
func (g *Gateways) get(ctx context.Context, key types.NamespacedName, into client.Object) (found bool, err error) {
	if known, err := g.isKnown(ctx, into); !known || err != nil {
		return false, err
	}
	return g.objects.get(ctx, key, into)
}

// State reads the Gateway of a class, and its GatewayClass.
func (g *Gateways) State(ctx context.Context, class *v1beta1.StreamIngressClass) (state stream.GatewayState, err error) {
	for _, late := range lateKinds {
		known, err := g.isKnown(ctx, late.kind)
		switch {
		case IsUnread(err):
			state.Unread = append(state.Unread, late.plural)
		case err != nil:
			return state, err
		case !known:
			state.Missing = append(state.Missing, late.plural)
		}
	}
	state.UnreadFor = g.unreadFor(len(state.Unread) > 0)
	if len(state.Missing) > 0 || len(state.Unread) > 0 {
		return state, nil
	}
	return g.state(ctx, class, g.objects.Reader, state)
}

// unreadFor is for how long a kind is yet to be read, if any is.
func (g *Gateways) unreadFor(isUnread bool) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !isUnread:
		g.unread = time.Time{}
		return 0
	case g.unread.IsZero():
		g.unread = time.Now()
	}
	return time.Since(g.unread)
}

// Now does the same past the cache.
func (g *Gateways) Now(ctx context.Context, class *v1beta1.StreamIngressClass) (state stream.GatewayState, err error) {
	nothing := types.NamespacedName{Namespace: class.Spec.Gateway.Namespace, Name: "none"}
	for _, late := range lateKinds {
		err := g.objects.live.Get(ctx, nothing, emptyOf(late.kind))
		switch {
		case meta.IsNoMatchError(err):
			state.Missing = append(state.Missing, late.plural)
		case client.IgnoreNotFound(err) != nil:
			return state, err
		}
	}
	if len(state.Missing) > 0 {
		return state, nil
	}
	return g.state(ctx, class, g.objects.live, state)
}

// state goes on with the Gateway of a class, where all kinds are there.
func (g *Gateways) state(
	ctx context.Context, class *v1beta1.StreamIngressClass, reader client.Reader, state stream.GatewayState,
) (stream.GatewayState, error) {
	gateway := &gatewayv1.Gateway{}
	if err := reader.Get(ctx, keyOf(*class.Spec.Gateway), gateway); err != nil {
		return state, client.IgnoreNotFound(err)
	}
	state.Gateway = gateway
	var err error
	if state.Labels, err = g.objects.NamespaceLabels(ctx, gateway.Namespace); err != nil {
		return state, err
	}
	of := &gatewayv1.GatewayClass{}
	if err := reader.Get(ctx, types.NamespacedName{Name: string(gateway.Spec.GatewayClassName)}, of); err != nil {
		return state, client.IgnoreNotFound(err)
	}
	state.Class = of
	return state, nil
}
