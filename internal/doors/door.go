// Package doors lists the open doors of a cluster, the points at which something inside answers the outside: whose each is, since when, by
// which way it is open and where it leads. It also finds those that a question is about.
//
// It knows no cluster: a snapshot goes in, doors come out.
package doors

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Way is how a door is open.
type Way string

// The ways.
const (
	ByEntry        Way = "Entry"
	ByLoadBalancer Way = "LoadBalancer"
	ByNodePort     Way = "NodePort"
	ByExternalIP   Way = "ExternalIP"
	ByClusterIP    Way = "ClusterIP"
	ByIngress      Way = "Ingress"
	ByListener     Way = "Listener"
	ByRoute        Way = "Route"
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

	// held is the claim of the holder where that has a port of the class at.Class(), nil elsewhere.
	held *v1beta1.EdgeClaim
	at   claim.Coordinate

	port stream.PortKey // of the network, zero for that of HTTP, by host and path
	// nodes are the addresses of all nodes where the door is open on these. They are not told at each of thousands of doors.
	nodes map[string]bool
	// named says that the door is one of a host, or of all if that is empty. It is of one path there, unless that is empty.
	named      bool
	host, path string
	kind       pathKind
}

// Points are what a door is, as findings write what they are about: its point, that at an address, an address, a host, or, behind what
// has it, a listener.
func (d *Door) Points() []string {
	points := []string{d.Point}
	for _, address := range d.Addresses {
		points = append(points, address, address+" "+d.Point)
	}
	if d.host != "" {
		points = append(points, d.host)
	}
	if on, listener, has := strings.Cut(d.On, ", "); has && d.Way == ByRoute {
		points = append(points, d.On, on+", "+cmp.Or(d.host, claim.AllHosts)+" on "+listener)
	}
	return points
}

// pathKind says for which paths a path answers: those below it, only itself, or those that a pattern fits.
type pathKind int

const (
	below pathKind = iota
	exactly
	pattern
)

// list is a list of doors that is being made.
type list struct {
	*snapshot.Snapshot
	services map[types.NamespacedName]*corev1.Service
	claims   map[string]*v1beta1.EdgeClaim
	classes  map[types.NamespacedName]*v1beta1.StreamIngressClass
	nodes    map[string]bool
	doors    []Door
}

// All are the open doors of a snapshot, by namespace, then by point.
func All(s *snapshot.Snapshot) []Door {
	l := &list{
		Snapshot: s, services: snapshot.Index(s.Services), claims: make(map[string]*v1beta1.EdgeClaim, len(s.Claims)),
		classes: snapshot.Index(s.Classes),
	}
	for _, c := range s.Claims {
		l.claims[c.Name] = c
	}
	l.nodes = addressesOfNodes(s)
	l.addEntries()
	l.addServices()
	l.addIngresses()
	l.addListeners()
	l.addRoutes()
	slices.SortStableFunc(l.doors, func(a, b Door) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.host, b.host), cmp.Compare(a.port.Port, b.port.Port),
			cmp.Compare(a.Point, b.Point), cmp.Compare(a.Way, b.Way), cmp.Compare(a.On, b.On))
	})
	return l.doors
}

// Of are the doors of a namespace.
func Of(doors []Door, namespace string) []Door {
	return slices.DeleteFunc(slices.Clone(doors), func(d Door) bool { return d.Namespace != namespace })
}

// add adds a door that an object has, and that leads to Services, if any are named. A claim on the point says who holds it: the object, or
// whoever has had it made.
func (l *list) add(d Door, at claim.Coordinate, by metav1.Object, to ...types.NamespacedName) {
	if created := by.GetCreationTimestamp(); !created.IsZero() {
		d.Since = &created
	}
	if port := l.ofClass(&d, by); l.claims[port.Name()] != nil {
		at = port
	}
	c := l.claims[at.Name()]
	if c != nil && !at.IsZero() && (at.IsStream() || d.Holder == claim.HolderOf(c).String() || isMadeBy(by, c)) {
		d.Holder, d.Since, d.Claimed = claim.HolderOf(c).String(), &c.CreationTimestamp, true
		if at.IsStream() {
			d.held, d.at = c, at
		}
		if tenant := claim.HolderOf(c).Tenant(); claim.HolderOf(c).IsStream() && tenant != "" {
			d.Namespace = tenant
		}
	}
	l.doors = append(l.doors, l.leading(d, to))
}

// ofClass is the port of a class that a door is which Portcullis has made for a stream: with a Service of a class without a proxy, or with
// a listener or a route of a class in front of a Gateway. It is the zero value for any other door: a label alone, which anybody may set,
// tells of none.
func (l *list) ofClass(d *Door, by metav1.Object) claim.Coordinate {
	class := l.classes[types.NamespacedName{Name: by.GetLabels()[v1beta1.LabelClass]}]
	if class == nil {
		return claim.Coordinate{}
	}
	at := claim.Stream(class.Name, d.port.Protocol, d.port.Port)
	pool, gateway := class.Spec.AddressPool, class.Spec.Gateway
	isOf := false
	switch d.Way {
	case ByLoadBalancer:
		isOf = pool != nil && pool.Namespace == by.GetNamespace()
	case ByListener:
		isOf = gateway != nil && gateway.Namespace == by.GetNamespace() && !d.named
	case ByRoute:
		c := l.claims[at.Name()]
		isOf = gateway != nil && !d.named && c != nil && claim.HolderOf(c).IsStream() && claim.HolderOf(c).Namespace == by.GetNamespace()
	}
	if !isOf {
		return claim.Coordinate{}
	}
	return at
}

// isMadeBy says whether the holder of a claim controls an object.
func isMadeBy(obj metav1.Object, c *v1beta1.EdgeClaim) bool {
	owner, holder := metav1.GetControllerOf(obj), claim.HolderOf(c)
	return owner != nil && owner.Kind == holder.Kind && owner.Name == holder.Name && obj.GetNamespace() == holder.Namespace
}

// leading is a door with how many ready endpoints the Services have that it leads to, if that is known of all.
func (l *list) leading(d Door, to []types.NamespacedName) Door {
	ready, leads := 0, false
	for _, key := range to {
		if key.Name == "" {
			continue
		}
		if !l.Knows("EndpointSlice", key.Namespace) {
			return d
		}
		ready, leads = ready+l.Ready(key), true
	}
	if leads {
		d.Ready = &ready
	}
	return d
}

// addressesOfNodes are those of all nodes.
func addressesOfNodes(s *snapshot.Snapshot) map[string]bool {
	addresses := map[string]bool{}
	for _, node := range s.Nodes {
		for _, a := range node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				addresses[snapshot.Address(a.Address)] = true
			}
		}
	}
	return addresses
}

// addressesOf are the addresses of a Service outside the cluster.
func addressesOf(svc *corev1.Service) []string {
	addresses := snapshot.AddressesOf(svc)
	for _, ip := range svc.Spec.ExternalIPs {
		addresses = append(addresses, snapshot.Address(ip))
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}
