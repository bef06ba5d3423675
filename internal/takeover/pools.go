package takeover

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// PoolsOf are AddressPools for MetalLB's pools. Addresses that Services share are in a pool of their own, for their namespaces, and
// one that stays with another controller is in none.
func PoolsOf(c *Cluster) (docs []Document) {
	var pools []*metalLBPool
	words := Document{}
	for _, u := range c.MetalLB {
		p, err := readMetalLB(u)
		if err != nil {
			words.decide("IPAddressPool %s can't be read, and is left out: %v", snapshot.Key(u), err)
			continue
		}
		pools = append(pools, p)
	}
	if len(words.Decisions) > 0 {
		docs = append(docs, words)
	}
	slices.SortStableFunc(pools, func(a, b *metalLBPool) int {
		return cmp.Or(compareRanks(a, b), strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace))
	})
	priority := int32(0)
	names := map[string]bool{}
	for i := len(pools) - 1; i >= 0; i-- { // the last has the lowest priority
		if i < len(pools)-1 && compareRanks(pools[i], pools[i+1]) != 0 {
			priority++
		}
		docs = append(docs, c.pool(pools[i], priority, names)...)
	}
	slices.SortStableFunc(docs, func(a, b Document) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return docs
}

func nameOf(d Document) string {
	if d.Object == nil {
		return ""
	}
	return d.Object.GetName()
}

// pool is the AddressPool of an IPAddressPool, and one of the addresses that Services share.
func (c *Cluster) pool(p *metalLBPool, priority int32, names map[string]bool) (docs []Document) {
	a := p.Spec.ServiceAllocation
	d := Document{Object: newPool(poolName(p, "", names))}
	pool := d.Object.(*v1beta1.AddressPool)
	d.note("IPAddressPool %s/%s of MetalLB", p.Namespace, p.Name)
	pool.Spec.AutoAssign, pool.Spec.AvoidBuggyIPs, pool.Spec.Priority = p.Spec.AutoAssign, p.Spec.AvoidBuggyIPs, priority
	if p.isForNone() {
		pool.Spec.AutoAssign = new(bool)
		d.note("autoAssign: false, as its serviceAllocation names no Services, and MetalLB gives none an address of it unasked")
	}
	if !c.Knows("Service", "") {
		d.Hold("not all Services could be read, so nothing says which of its addresses they share, or stay with another controller: " +
			"import again with the right to list Services in all namespaces")
	}
	var isToday bool
	var problem string
	if pool.Spec.NamespaceSelector, isToday, problem = c.namespaceSelector(a); problem != "" {
		d.Hold("%s", problem)
	} else if isToday {
		d.decide("the namespaces are those that it is for today: name those that come later, or write one selector for all")
	}
	if pool.Spec.ServiceSelector, problem = a.serviceSelector(); problem != "" {
		d.Hold("%s", problem)
	}
	pool.Spec.Addresses = p.addressesOf()
	whole, errs := addresspool.New(pool)
	for _, err := range errs {
		d.Hold("%v", err)
	}
	if len(errs) > 0 {
		return append(docs, d)
	}
	sharing := c.divide(&d, whole)
	if len(pool.Spec.Addresses) > 0 {
		c.besideThere(&d)
	}
	if len(sharing) > 0 {
		shared := c.sharedPool(p, pool, sharing, names)
		if d.Held {
			shared.Hold("AddressPool %s, of whose addresses these are, waits for a decision: this one has to be for the same Services", pool.Name)
		}
		docs = append(docs, shared)
	}
	if len(pool.Spec.Addresses) == 0 {
		d.Object = nil
		d.note("all its addresses are shared, or stay where they are: there is no other pool of it")
	}
	return append(docs, d)
}

// divide takes out of a pool the addresses that Services share, which it returns with these, and those that stay with another controller.
func (c *Cluster) divide(d *Document, whole *addresspool.Pool) map[netip.Addr][]*corev1.Service {
	sharing := map[netip.Addr][]*corev1.Service{}
	var out []netip.Addr
	for ip, services := range c.listing() {
		if !whole.Set.Contains(ip) {
			continue
		}
		if i := slices.IndexFunc(services, isOthers); i >= 0 {
			d.decide("%s is left out, as Service %s has it of its loadBalancerClass %s, and stays with that controller; "+
				"add it when that has gone", ip, snapshot.Key(services[i]), quoted(*services[i].Spec.LoadBalancerClass))
			out = append(out, ip)
		} else if svc, why := leftAlone(services); svc != nil {
			d.decide("%s is left out, as Service %s has it, and is left alone: %s; add it when that is mended", ip, snapshot.Key(svc), why)
			out = append(out, ip)
		} else if len(services) > 1 {
			sharing[ip] = services
			out = append(out, ip)
		}
	}
	slices.Sort(d.Decisions)
	slices.SortFunc(out, netip.Addr.Compare)
	pool := d.Object.(*v1beta1.AddressPool)
	var kept []string
	for _, text := range pool.Spec.Addresses {
		kept = append(kept, without(text, out)...)
	}
	pool.Spec.Addresses = kept
	return sharing
}

// listing are the Services that list each address.
func (c *Cluster) listing() map[netip.Addr][]*corev1.Service {
	by := map[netip.Addr][]*corev1.Service{}
	for _, svc := range c.Services {
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		for _, ip := range loadbalancer.Listed(svc.Status.LoadBalancer.Ingress) {
			if !slices.Contains(by[ip], svc) {
				by[ip] = append(by[ip], svc)
			}
		}
	}
	return by
}

// isOthers says whether a Service of type LoadBalancer stays with another controller.
func isOthers(svc *corev1.Service) bool {
	class := svc.Spec.LoadBalancerClass
	return class != nil && *class != v1beta1.LoadBalancerClass && *class != v1beta1.StreamLoadBalancerClass
}

// leftAlone is one of some Services whose addresses Portcullis would not take over, whatever pools there are, and why; nil for none.
func leftAlone(services []*corev1.Service) (svc *corev1.Service, why string) {
	for _, svc := range services {
		if svc.Spec.LoadBalancerClass != nil {
			continue
		}
		if why := whyAlone(svc, loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)); why != "" {
			return svc, why
		}
	}
	return nil, ""
}

// without is an entry of a pool without some addresses, which are in ascending order.
func without(text string, out []netip.Addr) (texts []string) {
	set, errs := addresspool.Parse(&v1beta1.AddressPoolSpec{Addresses: []string{text}})
	if len(errs) > 0 || !slices.ContainsFunc(out, set.Contains) {
		return []string{text}
	}
	for _, r := range set.Ranges() {
		for _, ip := range out {
			if !r.Contains(ip) {
				continue
			}
			if r.From.Less(ip) {
				texts = append(texts, addresspool.Range{From: r.From, To: ip.Prev()}.String())
			}
			r.From = ip.Next()
		}
		if r.From.IsValid() && !r.To.Less(r.From) {
			texts = append(texts, r.String())
		}
	}
	return texts
}

// sharedPool is the pool of the addresses that Services share.
func (c *Cluster) sharedPool(
	p *metalLBPool, of *v1beta1.AddressPool, sharing map[netip.Addr][]*corev1.Service, names map[string]bool,
) Document {
	pool := newPool(poolName(p, "-shared", names))
	pool.Spec.Sharing, pool.Spec.AutoAssign = v1beta1.SharingPorts, new(bool)
	pool.Spec.Priority, pool.Spec.ServiceSelector = of.Spec.Priority, of.Spec.ServiceSelector
	d := Document{Object: pool}
	d.note("the addresses of IPAddressPool %s/%s of MetalLB that several Services have", p.Namespace, p.Name)
	var in []string
	ips := make([]netip.Addr, 0, len(sharing))
	for ip, services := range sharing {
		ips = append(ips, ip)
		for _, svc := range services {
			in = append(in, svc.Namespace)
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	for _, ip := range ips {
		pool.Spec.Addresses = append(pool.Spec.Addresses, ip.String())
		d.note("%s is shared by %s", ip, keysOf(sharing[ip]))
	}
	pool.Spec.NamespaceSelector = named(in)
	const question = "MetalLB has those share an address that name one key; here those share it that this pool is for and that ask for it " +
		"by name, each with ports of its own: "
	if slices.ContainsFunc(in, func(namespace string) bool { return namespace != in[0] }) {
		d.Hold(question + "are all these namespaces to share all these addresses? If not, write a pool for each")
	} else {
		d.decide(question + "is it meant that anything in this namespace may?")
	}
	c.besideThere(&d)
	return d
}

// keysOf are Services, in order.
func keysOf(services []*corev1.Service) string {
	var keys []string
	for _, svc := range slices.SortedFunc(slices.Values(services), byKey) {
		keys = append(keys, "Service "+snapshot.Key(svc).String())
	}
	return strings.Join(keys, ", ")
}

// besideThere has a pool wait that would change one that is there.
func (c *Cluster) besideThere(d *Document) {
	pool := d.Object.(*v1beta1.AddressPool)
	for _, there := range c.Pools {
		if there.Name == pool.Name && !equality.Semantic.DeepEqual(stored(there), stored(pool)) {
			d.Hold("AddressPool %s is there, and says something else", there.Name)
		}
	}
}

// stored is the spec of a pool as it is stored.
func stored(pool *v1beta1.AddressPool) v1beta1.AddressPoolSpec {
	spec := *pool.Spec.DeepCopy()
	automatic := pool.AutoAssigns()
	spec.Source, spec.AutoAssign, spec.Sharing = pool.SourceOrDefault(), &automatic, pool.SharingOrDefault()
	return spec
}

func newPool(name string) *v1beta1.AddressPool {
	return &v1beta1.AddressPool{TypeMeta: typeOf("AddressPool"), ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// poolName is a name that no other pool of the import has: that of the IPAddressPool if possible.
func poolName(p *metalLBPool, suffix string, names map[string]bool) string {
	name := p.Name + suffix
	if names[name] || len(name) > validation.DNS1123LabelMaxLength {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(p.Namespace + "/" + p.Name))
		end := fmt.Sprintf("-%08x%s", sum.Sum32(), suffix)
		name = p.Name[:min(len(p.Name), validation.DNS1123LabelMaxLength-len(end))] + end
	}
	names[name] = true
	return name
}
