package loadbalancer

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Lot is what a Service has, or is to have, of a pool: an address, ports of one, or ports of the nodes.
type Lot struct {
	Pool *addresspool.Pool
	// Address is the zero Addr for ports of the nodes.
	Address netip.Addr
	// Points are what the Service has to hold of it, all or nothing.
	Points []claim.Coordinate
	// Drawn: any other address would do as well.
	Drawn bool
}

// AddressLot is an address of a pool: the whole of it, or with Ports the ports of a Service.
func AddressLot(pool *addresspool.Pool, ip netip.Addr, sharing v1beta1.AddressSharing, ports []Port) Lot {
	lot := Lot{Pool: pool, Address: ip}
	if sharing != v1beta1.SharingPorts {
		lot.Points = []claim.Coordinate{claim.Address(ip)}
		return lot
	}
	for _, p := range ports {
		lot.Points = append(lot.Points, claim.AddressPort(ip, string(p.Protocol), p.Number))
	}
	return lot
}

// NodeLot is the ports of a Service on all nodes.
func NodeLot(pool *addresspool.Pool, ports []Port) Lot {
	lot := Lot{Pool: pool}
	for _, p := range ports {
		lot.Points = append(lot.Points, claim.NodePort(string(p.Protocol), p.Number))
	}
	return lot
}

// Missing are the points of a lot that are not among those held.
func (l Lot) Missing(held []claim.Coordinate) []claim.Coordinate {
	has := sets.New(held...)
	var missing []claim.Coordinate
	for _, at := range l.Points {
		if !has.Has(at) {
			missing = append(missing, at)
		}
	}
	return missing
}

// Own are the points that are of load balancers: addresses, ports of addresses and of nodes.
func Own(held []claim.Coordinate) []claim.Coordinate {
	var own []claim.Coordinate
	for _, at := range held {
		if at.IsAddress() || at.IsNode() {
			own = append(own, at)
		}
	}
	return own
}
