package kube

import (
	"context"
	"hash/maphash"
	"net/netip"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Claims are read of the cache, corrected by what this replica has written since.

// Claim reads a claim, nil when there is none.
func (o *objects) Claim(ctx context.Context, name string) (*v1beta1.EdgeClaim, error) {
	return o.written.Get(name, func() (*v1beta1.EdgeClaim, error) {
		return read[v1beta1.EdgeClaim](ctx, o, types.NamespacedName{Name: name})
	})
}

// Claims lists claims by what they have in common.
type Claims struct {
	objects    *objects
	addresses  *Addresses
	departures *departures
	gateways   *Gateways
	hosts      *Hosts
}

// Held lists the points that a holder has claims on, in ascending order, but for those that a Service has by naming them alone: what it
// is given as a load balancer does not follow from these.
func (c *Claims) Held(ctx context.Context, by claim.Holder) ([]claim.Coordinate, error) {
	claims, err := c.Of(ctx, by)
	return coordinates(claims), err
}

// HeldLive does the same past the cache. The API server selects by the holder in one line.
func (c *Claims) HeldLive(ctx context.Context, by claim.Holder) ([]claim.Coordinate, error) {
	claims, err := listClaims(ctx, c.objects.live, FieldHolder, by.String())
	return coordinates(ofHolder(claims, by)), err
}

// coordinates are those of claims that can be read, and that are not for external IPs alone, in order.
func coordinates(claims []*v1beta1.EdgeClaim) []claim.Coordinate {
	var held []claim.Coordinate
	for _, c := range claims {
		if at, err := claim.Of(c); err == nil && !c.Spec.ExternalIP {
			held = append(held, at)
		}
	}
	slices.SortFunc(held, claim.Compare)
	return held
}

// Of lists the claims of a holder, those that can't be read, too.
func (c *Claims) Of(ctx context.Context, by claim.Holder) ([]*v1beta1.EdgeClaim, error) {
	claims, err := c.by(ctx, indexHolder, holderKey(by))
	return ofHolder(claims, by), err
}

// holderKeys is how many keys indexHolder has. A key takes some 300 bytes, even of a single claim: with one for each of 12,000 streams,
// the index took 4 MB.
const holderKeys = 2048

// holderSeed keeps anybody from finding names for which all holders have one key.
var holderSeed = maphash.MakeSeed()

// holderKey is the key of a holder in indexHolder, which it has in common with a few others.
func holderKey(by claim.Holder) string {
	return strconv.FormatUint(maphash.Comparable(holderSeed, by)%holderKeys, 36)
}

// ofHolder are those of some claims that are a holder's: not all of one key are, nor all of one line.
func ofHolder(claims []*v1beta1.EdgeClaim, by claim.Holder) []*v1beta1.EdgeClaim {
	return slices.DeleteFunc(claims, func(c *v1beta1.EdgeClaim) bool { return claim.HolderOf(c) != by })
}

// OfClass lists the claims on the ports of a class, by coordinate.
func (c *Claims) OfClass(ctx context.Context, class string) (map[claim.Coordinate]*v1beta1.EdgeClaim, error) {
	list, err := c.in(ctx, claim.StreamScope(class))
	claims := make(map[claim.Coordinate]*v1beta1.EdgeClaim, len(list))
	for _, held := range list {
		if at, err := claim.Parse(held.Name); err == nil {
			claims[at] = held
		}
	}
	return claims, err
}

// Serving lists the claims that Services have for the proxy of a class, by the scope of its ports, or, by the name of the
// claim on a port of the proxy, for that port.
func (c *Claims) Serving(ctx context.Context, name string) ([]*v1beta1.EdgeClaim, error) {
	return c.by(ctx, IndexServed, name)
}

// servedKeys are those under which IndexServed finds a claim.
func servedKeys(c *v1beta1.EdgeClaim) []string {
	if c.Spec.ClassName == "" { // as most are
		return nil
	}
	at, err := claim.Of(c)
	if err != nil {
		return nil
	}
	return []string{claim.StreamScope(c.Spec.ClassName), claim.Stream(c.Spec.ClassName, at.Protocol(), at.Port()).Name()}
}

// in lists the claims of a scope.
func (c *Claims) in(ctx context.Context, scope string) ([]*v1beta1.EdgeClaim, error) {
	return c.by(ctx, IndexScope, scope)
}

// claimIndexes are the indexes of claims: the values under which each finds one.
var claimIndexes = map[string]func(*v1beta1.EdgeClaim) []string{
	indexHolder: func(c *v1beta1.EdgeClaim) []string { return []string{holderKey(claim.HolderOf(c))} },
	IndexScope:  func(c *v1beta1.EdgeClaim) []string { return []string{c.Spec.Scope} },
	IndexHeir:   heirKeys,
	IndexServed: servedKeys,
	IndexShare:  shareKeys,
	IndexBelow:  belowKeys,
}

// newWritten makes what is written to claims of which the cache has these indexes.
func newWritten(c clock.PassiveClock) *claim.Written {
	return claim.NewWritten(c, func(one *v1beta1.EdgeClaim) (keys []string) {
		for index, of := range claimIndexes {
			for _, key := range of(one) {
				keys = append(keys, indexed(index, key))
			}
		}
		return keys
	})
}

func indexed(index, key string) string { return index + " " + key }

func (c *Claims) by(ctx context.Context, index, key string) ([]*v1beta1.EdgeClaim, error) {
	return c.under(ctx, index, key, false)
}

// under lists the claims under a key of an index, with or without those that are being written.
func (c *Claims) under(ctx context.Context, index, key string, underway bool) ([]*v1beta1.EdgeClaim, error) {
	cached := func() ([]*v1beta1.EdgeClaim, error) { return c.cached(ctx, index, key) }
	return c.objects.written.List(indexed(index, key), cached, underway)
}

func (c *Claims) cached(ctx context.Context, index, key string) ([]*v1beta1.EdgeClaim, error) {
	if kept, known := keptUnder[*v1beta1.EdgeClaim](c.objects.stores, index, key); known {
		return kept, nil
	}
	return listClaims(ctx, c.objects.Reader, index, key)
}

func listClaims(ctx context.Context, reader client.Reader, index, key string) ([]*v1beta1.EdgeClaim, error) {
	var list v1beta1.EdgeClaimList
	err := reader.List(ctx, &list, client.MatchingFields{index: key})
	return pointersTo(list.Items), err
}

// OnPorts lists the claims on ports of an address.
func (c *Claims) OnPorts(ctx context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error) {
	return c.in(ctx, claim.PortsScope(ip))
}

// OnSection lists the claims of the routes on a listener.
func (c *Claims) OnSection(ctx context.Context, of claim.Section) ([]*v1beta1.EdgeClaim, error) {
	return c.in(ctx, claim.RouteScope+"/"+of.String())
}

// OnGatewayPaths lists the claims on paths that routes serve on a Gateway.
func (c *Claims) OnGatewayPaths(ctx context.Context, gateway types.NamespacedName) ([]*v1beta1.EdgeClaim, error) {
	return c.in(ctx, claim.GatewayPathsScope(gateway))
}

// OnNodePorts lists the claims on ports of the nodes.
func (c *Claims) OnNodePorts(ctx context.Context) ([]*v1beta1.EdgeClaim, error) {
	return c.in(ctx, claim.NodeScope)
}

// OnAddresses lists the claims on addresses in some ranges, and on ports of these.
func (c *Claims) OnAddresses(ctx context.Context, in ...addresspool.Range) ([]*v1beta1.EdgeClaim, error) {
	var claims []*v1beta1.EdgeClaim
	for _, at := range c.addresses.ClaimedIn(in...) {
		held, err := c.objects.Claim(ctx, at.Name())
		if err != nil {
			return nil, err
		}
		if held != nil {
			claims = append(claims, held)
		}
	}
	return claims, nil
}
