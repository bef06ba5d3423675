package kube

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

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
