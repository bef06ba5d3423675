package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// IndexListens finds ListenerSets by the points of their listeners, on the Gateway that they name.
const IndexListens = "listens"

// listensAt are the keys of a ListenerSet in IndexListens.
func listensAt(set *gatewayv1.ListenerSet) (points []string) {
	of := GatewayOf(set)
	for _, l := range guard.OfListenerSet(set, of).Listeners {
		for _, at := range l.Points(of) {
			points = append(points, at.String())
		}
	}
	return points
}

// Guard has the listeners of others guarded: the Gateway API is read from now on.
func (g *Gateways) Guard(actions guard.Actions) {
	g.Guarded = actions
	if actions.Guards() {
		g.Ask()
	}
}

// CheckRead is a check of readiness: whether all is read of what guarded kinds are decided by.
func (g *Gateways) CheckRead(req *http.Request) error {
	if !g.Guarded.Guards() {
		return nil
	}
	err := g.Read(req.Context())
	if g.unreadFor(IsUnread(err)) > readPatience {
		return nil
	}
	return err
}

// readPatience is how long a replica waits for guarded kinds to be read before it answers without: what else it decides does not wait for
// kinds that can't be read.
const readPatience = time.Minute

// Read is an error until all is read of what guarded kinds are decided by.
func (g *Gateways) Read(ctx context.Context) error {
	for _, kind := range []client.Object{&gatewayv1.Gateway{}, &gatewayv1.ListenerSet{}} {
		if _, err := g.isKnown(ctx, kind); err != nil {
			return err
		}
	}
	if _, err := g.prepared(ctx); err != nil {
		return err
	}
	return g.followed(ctx)
}

// followed makes sure that departures of guarded objects are remembered.
func (g *Gateways) followed(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, kind := range []client.Object{&gatewayv1.Gateway{}, &gatewayv1.ListenerSet{}} {
		name := fmt.Sprintf("%T", kind)
		if known, err := g.isKnown(ctx, kind); err != nil || !known || g.indexed[name] {
			continue
		}
		told := toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
			if gone, ok := objectOf(obj).(client.Object); ok {
				g.departures.add(gone.GetUID())
			}
		}}
		if _, err := follow(ctx, g.objects.informers, kind, told); err != nil {
			return err
		}
		g.indexed[name] = true
	}
	return nil
}

// Start reads what guarded kinds are decided by as soon as they are installed, until the context ends.
func (g *Gateways) Start(ctx context.Context) error {
	if !g.Guarded.Guards() {
		return nil
	}
	for {
		if err := g.Read(ctx); err != nil && !IsUnread(err) && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("could not read what is guarded, trying again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(readEvery):
		}
	}
}

// readEvery is how often it is looked whether guarded kinds are installed by now, and read.
const readEvery = 2 * time.Second

// NeedLeaderElection says that every replica reads: all of them answer admission requests.
func (g *Gateways) NeedLeaderElection() bool { return false }

// All are all Gateways, none while they are not installed or yet to be read.
func (g *Gateways) All(ctx context.Context) ([]gatewayv1.Gateway, error) {
	if known, err := g.isKnown(ctx, &gatewayv1.Gateway{}); !known || err != nil {
		if IsUnread(err) {
			err = nil
		}
		return nil, err
	}
	var list gatewayv1.GatewayList
	err := g.objects.Reader.List(ctx, &list)
	return list.Items, err
}

// isStored says whether a Gateway or a ListenerSet is in the cache at the claimant's generation, or a later one.
func (g *Gateways) isStored(ctx context.Context, by claim.Claimant) bool {
	var obj client.Object = &gatewayv1.ListenerSet{}
	if by.Holder == claim.GatewayHolder(by.Namespace, by.Name) {
		obj = &gatewayv1.Gateway{}
	}
	found, err := g.get(ctx, by.Key(), obj)
	return err == nil && found && obj.GetUID() == by.UID && obj.GetGeneration() >= by.Generation
}

// Request is what an object asks for that has listeners on a Gateway.
func (g *Gateways) Request(ctx context.Context, o guard.Opener, on *gatewayv1.Gateway, before []guard.Listener) (*guard.Request, error) {
	scopes, classes, err := g.Reach(ctx, on)
	return &guard.Request{Opener: o, Before: before, Scopes: scopes, Classes: classes}, err
}

// Reach is where the listeners of a Gateway have to be alone, and the classes whose streams are there, too.
func (g *Gateways) Reach(
	ctx context.Context, gateway *gatewayv1.Gateway,
) (scopes []types.NamespacedName, classes []*v1beta1.StreamIngressClass, err error) {
	var others []gatewayv1.Gateway
	if addresses := stream.GatewayAddresses(gateway); len(addresses) > 0 {
		if others, err = g.All(ctx); err != nil {
			return nil, nil, err
		}
	}
	all, err := g.objects.Classes(ctx)
	scopes = guard.Scopes(gateway, others)
	return scopes, guard.Classes(all, scopes, stream.GatewayAddresses(gateway)), err
}

// Openers are all who have listeners on a Gateway, in the order in which an implementation serves them. Those that Portcullis has made for
// a class are not among them: their ports are their streams'.
func (g *Gateways) Openers(ctx context.Context, gateway *gatewayv1.Gateway) ([]guard.Opener, error) {
	openers, err := g.attached(ctx, gateway, client.MatchingFields{IndexAttached: client.ObjectKeyFromObject(gateway).String()})
	openers = append(openers, guard.OfGateway(gateway))
	slices.SortFunc(openers, guard.CompareOpeners)
	return openers, err
}

// attached are the openers among the ListenerSets that an index has under a key: those that the Gateway lets attach, but for those that
// Portcullis has made.
func (g *Gateways) attached(ctx context.Context, gateway *gatewayv1.Gateway, by client.MatchingFields) ([]guard.Opener, error) {
	if known, err := g.prepared(ctx); !known || err != nil {
		return nil, err
	}
	var list gatewayv1.ListenerSetList
	if err := g.objects.Reader.List(ctx, &list, by); err != nil {
		return nil, err
	}
	var openers []guard.Opener
	for i := range list.Items {
		set := &list.Items[i]
		opens, err := g.opens(ctx, gateway, set)
		if err != nil {
			return nil, err
		}
		if opens {
			openers = append(openers, guard.OfListenerSet(set, client.ObjectKeyFromObject(gateway)))
		}
	}
	return openers, nil
}

// opens says whether a Gateway lets a ListenerSet attach that names it, and that Portcullis has not made.
func (g *Gateways) opens(ctx context.Context, gateway *gatewayv1.Gateway, set *gatewayv1.ListenerSet) (bool, error) {
	if own, err := g.IsOwn(ctx, set); err != nil || own {
		return false, err
	}
	return g.Attaches(ctx, gateway, set)
}

// IsOwn says whether a ListenerSet is one that Portcullis has made for a class that exists, where those of the class are.
func (g *Gateways) IsOwn(ctx context.Context, set *gatewayv1.ListenerSet) (bool, error) {
	if !IsListenerSet(set) {
		return false, nil
	}
	class, err := g.objects.Class(ctx, set.Labels[v1beta1.LabelClass])
	return err == nil && class != nil && IsHere(class, set) && GatewayOf(set) == keyOf(*class.Spec.Gateway), err
}

// IsOwnNow says the same at admission, where the class may have been made a moment ago.
func (g *Gateways) IsOwnNow(ctx context.Context, set *gatewayv1.ListenerSet) (bool, error) {
	if !IsListenerSet(set) || !isName(set.Labels[v1beta1.LabelClass]) {
		return false, nil
	}
	if own, err := g.IsOwn(ctx, set); err != nil || own {
		return own, err
	}
	class, err := readBy[v1beta1.StreamIngressClass](ctx, g.objects.tenants, types.NamespacedName{Name: set.Labels[v1beta1.LabelClass]})
	return err == nil && class != nil && IsHere(class, set) && GatewayOf(set) == keyOf(*class.Spec.Gateway), err
}

// Gateway is a Gateway, as the cache has it; nil for none.
func (g *Gateways) Gateway(ctx context.Context, key types.NamespacedName) (*gatewayv1.Gateway, error) {
	gateway := &gatewayv1.Gateway{}
	found, err := g.get(ctx, key, gateway)
	if err != nil || !found {
		return nil, err
	}
	return gateway, nil
}

// Letting is the Gateway of a key that lets the ListenerSets of a namespace attach, nil for none. One that the cache does not have, or that
// does not let them there, is looked for past it, and so are the labels of the namespace: any may have been made, or changed, a moment ago.
func (g *Gateways) Letting(ctx context.Context, key types.NamespacedName, namespace string, has labels.Set) (*gatewayv1.Gateway, error) {
	gateway, err := g.Gateway(ctx, key)
	if err != nil || key.Name == "" || !isName(key.Name) {
		return nil, err
	}
	if gateway != nil && stream.AllowsListeners(gateway, namespace, has) {
		return gateway, nil
	}
	if gateway, err = readBy[gatewayv1.Gateway](ctx, g.objects.tenants, key); err != nil || gateway == nil {
		return nil, err
	}
	ns := NamespaceObject()
	if err := g.objects.live.Get(ctx, types.NamespacedName{Name: namespace}, ns); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !stream.AllowsListeners(gateway, namespace, ns.Labels) {
		return nil, nil
	}
	return gateway, nil
}

// Standing is what is stored of the listeners of a Gateway, as one decision asks for it: most questions find nothing, and those cost a look
// into an index. Its zero value is that of a Gateway that is not there.
type Standing struct {
	gateways *Gateways
	gateway  *gatewayv1.Gateway
	own      guard.Opener
	// sets are the ListenerSets, nil for where they are not to be looked up but by the client of the cache.
	sets toolscache.Indexer
	// others are the same of the Gateways that have an address in common with it.
	others []Standing
}

// Standing is what is stored of the listeners of a Gateway.
func (g *Gateways) Standing(ctx context.Context, of types.NamespacedName) (Standing, error) {
	gateway, err := g.Gateway(ctx, of)
	if err != nil || gateway == nil {
		return Standing{}, err
	}
	s, err := g.standing(ctx, gateway)
	if err != nil || len(gateway.Status.Addresses) == 0 {
		return s, err
	}
	all, err := g.All(ctx)
	for i := range all {
		if all[i].UID == gateway.UID || !stream.HaveInCommon(gateway, &all[i]) {
			continue
		}
		other, err := g.standing(ctx, &all[i])
		if err != nil {
			return Standing{}, err
		}
		s.others = append(s.others, other)
	}
	return s, err
}

func (g *Gateways) standing(ctx context.Context, gateway *gatewayv1.Gateway) (Standing, error) {
	s := Standing{gateways: g, gateway: gateway, own: guard.OfGateway(gateway)}
	if known, err := g.prepared(ctx); !known || err != nil {
		return s, err
	}
	informer, err := g.objects.informers.GetInformer(ctx, &gatewayv1.ListenerSet{}, cache.BlockUntilSynced(false))
	if indexed, ok := informer.(toolscache.SharedIndexInformer); ok {
		s.sets = indexed.GetIndexer()
	}
	return s, err
}

// at are those with a listener at a point, or, at a whole port, with any there.
func (s Standing) at(ctx context.Context, at claim.Coordinate) ([]guard.Opener, error) {
	if s.gateway == nil {
		return nil, nil
	}
	index, key := IndexListens, at.String()
	if at.IsHosts() {
		index, key = IndexAttached, at.Gateway().String()+onPort(stream.PortKey{Protocol: v1beta1.TCP, Port: at.Port()})
	}
	var openers []guard.Opener
	if s.has(index, key) {
		var err error
		if openers, err = s.gateways.attached(ctx, s.gateway, client.MatchingFields{index: key}); err != nil {
			return nil, err
		}
	}
	if s.own.Stands(at) {
		openers = append(openers, s.own)
	}
	openers = slices.DeleteFunc(openers, func(o guard.Opener) bool { return !o.Stands(at) })
	for _, other := range s.others {
		theirs, err := other.at(ctx, guard.On(client.ObjectKeyFromObject(other.gateway), at))
		if err != nil {
			return nil, err
		}
		openers = append(openers, theirs...)
	}
	return openers, nil
}

// listens says whether anybody has a listener on a port.
func (s Standing) listens(ctx context.Context, port stream.PortKey) (bool, error) {
	if s.gateway == nil {
		return false, nil
	}
	for _, l := range s.own.Listeners {
		if slices.Contains(stream.PortsOf(l.Port, l.Protocol), port) {
			return true, nil
		}
	}
	// Whether those are let attach does not matter for what is suggested, and there may be thousands.
	key := client.ObjectKeyFromObject(s.gateway).String() + onPort(port)
	if there, known := s.lookUp(IndexAttached, key); known && there {
		return true, nil
	} else if !known {
		openers, err := s.gateways.attached(ctx, s.gateway, client.MatchingFields{IndexAttached: key})
		if err != nil || len(openers) > 0 {
			return len(openers) > 0, err
		}
	}
	for _, other := range s.others {
		if there, err := other.listens(ctx, port); err != nil || there {
			return there, err
		}
	}
	return false, nil
}

// has says whether an index may have something under a key.
func (s Standing) has(index, key string) bool {
	there, known := s.lookUp(index, key)
	return there || !known
}

// lookUp says whether an index has something under a key; known is false if that can't be told here.
func (s Standing) lookUp(index, key string) (there, known bool) {
	if s.sets == nil {
		return false, false
	}
	found, err := s.sets.IndexKeys(fieldIndex+index, allNamespaces+key)
	return len(found) > 0, err == nil
}

// Listens finds, past any cache, the claim of somebody who listens at a port of the Gateway of a class, or of one that has an address in
// common with it; nil for none, or where nobody is guarded.
func (g *Gateways) Listens(
	ctx context.Context, ledger *claim.Ledger, class *v1beta1.StreamIngressClass, at claim.Coordinate,
) (*v1beta1.EdgeClaim, error) {
	if class.Spec.Gateway == nil || !g.Guarded.Guards() {
		return nil, nil
	}
	scopes := []types.NamespacedName{keyOf(*class.Spec.Gateway)}
	gateway, err := g.Gateway(ctx, scopes[0])
	switch {
	case IsUnread(err): // the ledger is read past any cache
	case err != nil || gateway == nil:
		return nil, err
	default:
		if scopes, _, err = g.Reach(ctx, gateway); err != nil {
			return nil, err
		}
	}
	var listening *v1beta1.EdgeClaim
	for range looksAtListeners {
		if listening, err = g.listening(ctx, ledger, scopes, at); err != nil || listening == nil || !ledger.IsFresh(listening) {
			break
		}
		select {
		case <-ctx.Done():
			return listening, nil
		case <-time.After(looksApart):
		}
	}
	return listening, err
}

// A listener that was claimed a moment ago may be given back: who claims one looks for streams then, and gives way. So a stream looks a few
// times before it gives way itself, or often neither would have the port.
const (
	looksAtListeners = 5
	looksApart       = 20 * time.Millisecond
)

func (g *Gateways) listening(
	ctx context.Context, ledger *claim.Ledger, scopes []types.NamespacedName, at claim.Coordinate,
) (*v1beta1.EdgeClaim, error) {
	for _, scope := range scopes {
		for _, protocol := range guard.Protocols(at.Protocol()) {
			found, err := ledger.HeldAt(ctx, claim.Listener(scope, protocol, at.Port()), claim.Holder{}, "")
			if err != nil || found != nil {
				return found, err
			}
		}
	}
	return nil, nil
}

// HostClaims are the claims on host names at a port of a Gateway.
func (c *Claims) HostClaims(ctx context.Context, hosts claim.Coordinate) ([]*v1beta1.EdgeClaim, error) {
	return c.in(ctx, hosts.HostsScope())
}

// OfGateway lists the claims on whole ports of a Gateway.
func (c *Claims) OfGateway(ctx context.Context, gateway types.NamespacedName) ([]*v1beta1.EdgeClaim, error) {
	return c.in(ctx, claim.GatewayScope+"/"+gateway.String())
}

// guardReader answers what is asked of the listeners of others.
type guardReader interface {
	Standing(ctx context.Context, gateway types.NamespacedName) (Standing, error)
}

// HostClaims are the claims on host names at a port of a Gateway.
func (f *Facts) HostClaims(hosts claim.Coordinate) []*v1beta1.EdgeClaim {
	return once(f, func(ctx context.Context) ([]*v1beta1.EdgeClaim, error) { return f.ask.claims.HostClaims(ctx, hosts) })
}

// Standing are those that are stored with a listener at a point, or, at a whole port, with any there.
func (f *Facts) Standing(at claim.Coordinate) []guard.Opener {
	on := f.standing.of(f, at.Gateway(), f.ask.guard.Standing)
	return once(f, func(ctx context.Context) ([]guard.Opener, error) { return on.at(ctx, at) })
}

// Listens says whether anybody is stored with a listener on a port of a Gateway.
func (f *Facts) Listens(gateway types.NamespacedName, port stream.PortKey) bool {
	on := f.standing.of(f, gateway, f.ask.guard.Standing)
	return once(f, func(ctx context.Context) (bool, error) { return on.listens(ctx, port) })
}

var _ guard.Facts = &Facts{}
