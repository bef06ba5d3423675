package allocator

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// Allocation is what a Service has, or is to have, of a pool: an address, ports of one, or ports of the nodes.
type Allocation struct {
	Pool *addresspool.Pool
	// Address is the zero Addr for ports of the nodes.
	Address netip.Addr
	// Points are what the Service has to hold of it, all or nothing.
	Points []claim.Coordinate
	// AutoAssigned: any other address would do as well.
	AutoAssigned bool
}

// AddressAllocation is an address of a pool: the whole of it, or with Ports the ports of a Service.
func AddressAllocation(pool *addresspool.Pool, ip netip.Addr, sharing v1beta1.AddressSharing, ports []loadbalancer.Port) Allocation {
	allocation := Allocation{Pool: pool, Address: ip}
	if sharing != v1beta1.SharingPorts {
		allocation.Points = []claim.Coordinate{claim.Address(ip)}
		return allocation
	}
	for _, p := range ports {
		allocation.Points = append(allocation.Points, claim.AddressPort(ip, string(p.Protocol), p.Number))
	}
	return allocation
}

// NodeAllocation is the ports of a Service on all nodes.
func NodeAllocation(pool *addresspool.Pool, ports []loadbalancer.Port) Allocation {
	allocation := Allocation{Pool: pool}
	for _, p := range ports {
		allocation.Points = append(allocation.Points, claim.NodePort(string(p.Protocol), p.Number))
	}
	return allocation
}

// Missing are the points of an allocation that are not among those held.
func (a Allocation) Missing(held []claim.Coordinate) []claim.Coordinate {
	return slices.DeleteFunc(slices.Clone(a.Points), sets.New(held...).Has)
}
