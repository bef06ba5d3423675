// Package doors lists the open doors of a cluster, the points at which something inside answers the outside: whose each is, since when, by
// which way it is open and where it leads. It also finds those that a question is about.
//
// It knows no cluster: a snapshot goes in, doors come out.
package doors

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// Way is how a door is open.
type Way string

// The ways.
const (
	ByEntry        Way = "Entry"
	ByLoadBalancer Way = "LoadBalancer"
	ByNodePort     Way = "NodePort"
	ByExternalIP   Way = "ExternalIP"
	ByIngress      Way = "Ingress"
	ByListener     Way = "Listener"
)

// Door is one open point.
type Door struct {
	// Point is the port, or the host and path.
	Point string `json:"point"`
	Way   Way    `json:"way"`
	// On is what has it open: a ConfigMap, an IngressClass, a Gateway; empty for a Service that is open by itself.
	On string `json:"on,omitempty"`
	// Addresses are those at which it answers, as far as they are known.
	Addresses []string `json:"addresses,omitempty"`
	// Holder is who has the door, and Namespace the one whose it is.
	Holder    string `json:"holder"`
	Namespace string `json:"namespace"`
	// Since is when the holder had it at the earliest. Claimed says that the ledger says so; else it is the age of the object.
	Since   *metav1.Time `json:"since,omitempty"`
	Claimed bool         `json:"claimed,omitempty"`
	// LeadsTo is the Service, and Ready how many ready endpoints it has, nil where that is not known.
	LeadsTo string `json:"leadsTo,omitempty"`
	Ready   *int   `json:"readyEndpoints,omitempty"`

	port       claimPort
	host, path string
	exact      bool
}

// claimPort is a port of the network; the zero value is that of HTTP, by host and path.
type claimPort struct {
	protocol v1beta1.Protocol
	number   int32
}

func (p claimPort) String() string { return fmt.Sprintf("%s/%d", p.protocol, p.number) }

// list is a list of doors that is being made.
type list struct {
	*snapshot.Snapshot
	services map[types.NamespacedName]*corev1.Service
	claims   map[string]*v1beta1.EdgeClaim
	doors    []Door
}

// All are the open doors of a snapshot, by namespace, then by point.
func All(s *snapshot.Snapshot) []Door {
	l := &list{Snapshot: s, services: snapshot.Index(s.Services), claims: make(map[string]*v1beta1.EdgeClaim, len(s.Claims))}
	for _, c := range s.Claims {
		l.claims[c.Name] = c
	}
	l.addEntries()
	l.addServices()
	l.addIngresses()
	l.addListeners()
	slices.SortStableFunc(l.doors, func(a, b Door) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.host, b.host), cmp.Compare(a.port.number, b.port.number),
			cmp.Compare(a.Point, b.Point), cmp.Compare(a.Way, b.Way), cmp.Compare(a.On, b.On))
	})
	return l.doors
}

// Of are the doors of a namespace.
func Of(doors []Door, namespace string) []Door {
	return slices.DeleteFunc(slices.Clone(doors), func(d Door) bool { return d.Namespace != namespace })
}

// add adds a door that an object has, and that leads to a Service, if that is named. A claim on the point says who holds it.
func (l *list) add(d Door, at claim.Coordinate, by metav1.Object, to types.NamespacedName) {
	if created := by.GetCreationTimestamp(); !created.IsZero() {
		d.Since = &created
	}
	if c := l.claims[at.Name()]; c != nil && !at.IsZero() {
		d.Holder, d.Since, d.Claimed = claim.HolderOf(c).String(), &c.CreationTimestamp, true
		if tenant := claim.HolderOf(c).Tenant(); claim.HolderOf(c).IsStream() && tenant != "" {
			d.Namespace = tenant
		}
	}
	if to.Name != "" && l.Knows("EndpointSlice", to.Namespace) {
		ready := l.Ready(to)
		d.Ready = &ready
	}
	l.doors = append(l.doors, d)
}

// addressesOf are the addresses of a Service outside the cluster.
func addressesOf(svc *corev1.Service) (addresses []string) {
	for i := range svc.Status.LoadBalancer.Ingress {
		in := &svc.Status.LoadBalancer.Ingress[i]
		addresses = append(addresses, normal(cmp.Or(in.IP, in.Hostname)))
	}
	for _, ip := range svc.Spec.ExternalIPs {
		addresses = append(addresses, normal(ip))
	}
	slices.Sort(addresses)
	return slices.DeleteFunc(slices.Compact(addresses), func(a string) bool { return a == "" })
}

// normal is an address in its usual spelling, and anything else as it is.
func normal(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(address)
}
