// Package kube connects the pure packages to a cluster: it shows the rules what the caches hold, keeps claims in the
// API server, and knows which fields are indexed. Admission and reconciliation share it.
//
// Objects that it returns come from shared caches and must not be changed.
package kube

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// View shows the rules what a cache holds: single objects itself, and what only one feature asks for by a reader of that feature.
type View struct {
	*objects
	// Occupancy knows which ports have a claim.
	Occupancy *Occupancy
	// Addresses knows which addresses have a claim.
	Addresses     *Addresses
	Claims        *Claims
	Streams       *Streams
	Targets       *Targets
	Gateways      *Gateways
	Consents      *Consents
	Ingresses     *Ingresses
	LoadBalancers *LoadBalancers
	ExternalIPs   *ExternalIPs
	Hosts         *Hosts
	Pods          *Pods
	// Endpoints knows where the Services of streams lead to. It is nil where nothing asks for that.
	Endpoints *Endpoints

	grants grantLooks
	// heirs reads whom holders name.
	heirs sharedReads[namedHeir]
	warm  func() bool
}

// tenantReads is how many objects of tenants are read past the cache at a time, for requests. Reconcilers have a limit of their
// own: whoever floods the one keeps nothing in the other waiting.
const tenantReads = 8

// NewView makes a view of a cache, and begins to fill it. What the cache leaves out is read live.
func NewView(ctx context.Context, cached cache.Cache, live client.Reader) (*View, error) {
	occupancy, occupancyErr := NewOccupancy(ctx, cached)
	balancers := &LoadBalancers{}
	addresses, addressesErr := newAddresses(ctx, cached, balancers.IsOurs)
	pools, poolsErr := newBook(ctx, cached, &v1beta1.AddressPool{}, addresspool.NewBook)
	written, writtenErr := writtenTo(ctx, cached)
	kept, warm, fillErr := fill(ctx, cached)
	departures, departuresErr := newDepartures(ctx, cached)
	policies, policiesErr := newBook(ctx, cached, &v1beta1.HostPolicy{}, hostname.NewBook)
	if err := cmp.Or(policiesErr, occupancyErr, addressesErr, poolsErr, writtenErr, fillErr, departuresErr); err != nil {
		return nil, err
	}
	o := &objects{Reader: cached, live: live, tenants: LimitInFlight(live, tenantReads), informers: cached, stores: kept, written: written}
	gateways := newGateways(o, departures)
	claims := &Claims{objects: o, addresses: addresses, departures: departures, gateways: gateways}
	ingresses := &Ingresses{objects: o}
	claims.hosts = &Hosts{
		objects: o, claims: claims, gateways: gateways, http: ingresses, policies: policies, stored: newStoredLooks(),
		Entering: &KeyMutex[string]{},
	}
	balancers.objects, balancers.pools, balancers.addresses, balancers.claims = o, pools, addresses, claims
	return &View{
		objects: o, Occupancy: occupancy, Addresses: addresses,
		Claims:        claims,
		Streams:       &Streams{objects: o, occupancy: occupancy},
		Targets:       &Targets{objects: o, gateways: gateways, named: map[string][]Target{}, watched: map[Target]watchedTarget{}},
		Gateways:      gateways,
		Consents:      newConsents(cached),
		Ingresses:     ingresses,
		Hosts:         claims.hosts,
		LoadBalancers: balancers,
		ExternalIPs:   &ExternalIPs{objects: o},
		Pods:          &Pods{objects: o},
		grants:        newGrantLooks(), warm: warm,
	}, nil
}

// Synced says whether everything that decisions are made from has been read. Before that, every port would look free.
func (v *View) Synced() bool {
	return v.warm() && v.Occupancy.Synced() && v.Addresses.Synced() && v.LoadBalancers.pools.synced() &&
		v.Hosts.policies.synced()
}

// syncPoll is how often AwaitSync looks.
const syncPoll = 10 * time.Millisecond

// AwaitSync returns when Synced, or with the error of ctx when that is done before.
func (v *View) AwaitSync(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return v.Synced(), nil })
}
