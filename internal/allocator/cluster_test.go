package allocator

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// cluster is Facts of what is written down here.
type cluster struct {
	classes    []*v1beta1.StreamIngressClass
	namespaces map[string]labels.Set
	services   map[string]*corev1.Service
	claims     map[claim.Coordinate]*v1beta1.EdgeClaim
	// pools are in the book, which does not change; unread are stored and not in it yet.
	pools, unread []*v1beta1.AddressPool
	book          *addresspool.Book
	// nodes are the addresses of the nodes.
	nodes []netip.Addr
	// moved are Services that list nothing by now, and looked those of which it was asked.
	moved, looked []string
	// maxPorts is how many ports one Service gets of what it shares.
	maxPorts int
	// grace is how long a claim is kept whose holder is gone.
	grace time.Duration

	// asked counts the questions that the cluster may fail to answer. When fails is set, it answers the first so many of them,
	// and then nothing, as kube.Facts does after an error.
	asked   int
	fails   bool
	answers int
}

var _ Facts = &cluster{}

// answer is what is answered to a question.
func answer[T any](c *cluster, is T) T {
	c.asked++
	if c.fails && c.asked > c.answers {
		var none T
		return none
	}
	return is
}

// failAfterEach decides again, once for each question that was asked, with a cluster that fails to answer that one. What is
// decided is dropped then (kube.Decide), but a decision must come.
func (c *cluster) failAfterEach(decide func()) {
	questions := c.asked
	for c.fails, c.answers = true, 0; c.answers < questions; c.answers++ {
		c.asked = 0
		decide()
	}
	c.asked, c.fails = 0, false
}

func (c *cluster) AddressPool(name string) *v1beta1.AddressPool {
	var found *v1beta1.AddressPool
	for _, p := range append(slices.Clone(c.pools), c.unread...) {
		if p.Name == name {
			found = p
		}
	}
	return answer(c, found)
}

func (c *cluster) Held(by claim.Holder) []claim.Coordinate {
	var held []claim.Coordinate
	for at, one := range c.claims {
		if claim.HolderOf(one) == by {
			held = append(held, at)
		}
	}
	slices.SortFunc(held, claim.Compare)
	return answer(c, held)
}

func (c *cluster) Pools() *addresspool.Book {
	if c.book == nil {
		c.book = addresspool.NewBook(c.pools)
	}
	return c.book
}

func (c *cluster) FreeAddress(
	pool *addresspool.Pool, family corev1.IPFamily, points func(netip.Addr) []claim.Coordinate,
) (ip netip.Addr, ok bool) {
	var taken addresspool.Taken
	for {
		ip, ok := pool.Set.FirstFree(family, &taken)
		if !ok || !slices.ContainsFunc(points(ip), c.isTaken) && !c.isListed(ip) {
			return ip, ok
		}
		taken.Add(ip)
	}
}

func (c *cluster) isTaken(at claim.Coordinate) bool {
	for other := range c.claims {
		if other == at || other.Address() == at.Address() && (other.Port() == 0 || at.Port() == 0) {
			return true
		}
	}
	return false
}

// isListed says whether any Service lists an address.
func (c *cluster) isListed(ip netip.Addr) bool {
	for _, svc := range c.services {
		if slices.Contains(loadbalancer.Listed(svc.Status.LoadBalancer.Ingress), ip) {
			return true
		}
	}
	return false
}

func (c *cluster) Listing(ip netip.Addr) []*corev1.Service {
	var listing []*corev1.Service
	for _, svc := range c.services {
		holder := claim.ServiceHolder(svc.Namespace, svc.Name)
		holds := c.claimsWhere(func(at claim.Coordinate) bool {
			return claim.HolderOf(c.claims[at]) == holder && (at.IsNode() || at.Address() == ip)
		})
		if len(holds) == 0 && slices.Contains(loadbalancer.Listed(svc.Status.LoadBalancer.Ingress), ip) {
			listing = append(listing, svc)
		}
	}
	return answer(c, listing)
}

func (c *cluster) ListingOnNodes(at claim.Coordinate) []*corev1.Service {
	var listing []*corev1.Service
	isNode := func(ip netip.Addr) bool { return slices.Contains(c.nodes, ip) }
	for _, svc := range c.services {
		var held []claim.Coordinate
		for at, one := range c.claims {
			if claim.HolderOf(one) == claim.ServiceHolder(svc.Namespace, svc.Name) {
				held = append(held, at)
			}
		}
		if loadbalancer.HasOnNodes(svc, held, at, isNode) {
			listing = append(listing, svc)
		}
	}
	return answer(c, listing)
}

func (c *cluster) HandsOver(from, to claim.Holder) bool {
	svc := c.services[from.Key().String()]
	if svc == nil {
		return answer(c, false)
	}
	heir, named := claim.NamedHeir(svc)
	return answer(c, named && heir == to.Key())
}

func (c *cluster) StillLists(svc *corev1.Service, _ claim.Coordinate) bool {
	c.looked = append(c.looked, svc.Name)
	return answer(c, !slices.Contains(c.moved, svc.Name))
}

func (c *cluster) IsNodeAddress(ip netip.Addr) bool { return answer(c, slices.Contains(c.nodes, ip)) }

func (c *cluster) ClassesOnNodes() []v1beta1.StreamIngressClass {
	var on []v1beta1.StreamIngressClass
	for _, class := range c.classes {
		if class.Spec.Service == nil {
			on = append(on, *class)
		}
	}
	return answer(c, on)
}

func (c *cluster) ReservedNodePorts() loadbalancer.PortRanges {
	return loadbalancer.PortRanges{{From: 22}}
}

func (c *cluster) MaxPorts() int { return c.maxPorts }

func (c *cluster) ClaimedPorts(ip netip.Addr) []*v1beta1.EdgeClaim {
	return answer(c, c.claimsWhere(func(at claim.Coordinate) bool { return at.Address() == ip && at.Port() != 0 }))
}

func (c *cluster) NamespaceLabels(name string) labels.Set { return answer(c, c.namespaces[name]) }

func (c *cluster) Service(key types.NamespacedName) *corev1.Service {
	return answer(c, c.services[key.String()])
}

func (c *cluster) Claim(name string) *v1beta1.EdgeClaim {
	at, err := claim.Parse(name)
	if err != nil {
		panic(err)
	}
	return answer(c, c.claims[at])
}

func (c *cluster) ClaimsOfNamespace(namespace, family string) []*v1beta1.EdgeClaim {
	return answer(c, c.claimsWhere(func(at claim.Coordinate) bool {
		return claim.ScopeFamily(at.Scope()) == family && c.claims[at].Spec.Holder.Namespace == namespace
	}))
}

func (c *cluster) Fronts() []types.NamespacedName {
	var fronts []types.NamespacedName
	for _, class := range c.classes {
		if ref := class.Spec.Service; ref != nil {
			fronts = append(fronts, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return answer(c, fronts)
}

func (c *cluster) claimsWhere(wanted func(claim.Coordinate) bool) []*v1beta1.EdgeClaim {
	var all []*v1beta1.EdgeClaim
	for at, one := range c.claims {
		if wanted(at) {
			all = append(all, one)
		}
	}
	return all
}

// serviceHolds is a Service with labels "tier=<tier>", and its claims on points.
func (c *cluster) serviceHolds(name, tier string, points ...claim.Coordinate) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"tier": tier}}}
	if c.services == nil {
		c.services, c.claims = map[string]*corev1.Service{}, map[claim.Coordinate]*v1beta1.EdgeClaim{}
	}
	c.services["shop/"+name] = svc
	maps.Copy(c.claims, claims(claim.ServiceHolder("shop", name), points...))
	return svc
}

// graceLeft is the same for every claim.
func (c *cluster) graceLeft(*v1beta1.EdgeClaim) time.Duration { return c.grace }

// clusterWith is a cluster with pools, in which namespace shop has the label team=a.
func clusterWith(pools ...*v1beta1.AddressPool) *cluster {
	return &cluster{pools: pools, namespaces: map[string]labels.Set{"shop": {"team": "a"}}}
}

// taken adds the Service shop/<name>, of type LoadBalancer, and its claims on points.
func (c *cluster) taken(name string, points ...claim.Coordinate) *cluster {
	c.serviceHolds(name, "", points...).Spec.Type = corev1.ServiceTypeLoadBalancer
	return c
}
