package takeover

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// The annotations by which Services ask other controllers.
var (
	otherAddresses = []string{
		"metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs", "lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips",
	}
	otherPools = []string{"metallb.io/address-pool", "metallb.universe.tf/address-pool"}
	otherKeys  = []string{
		"metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip", "lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-sharing-key",
	}
)

// balancers is a look at all Services of type LoadBalancer.
type balancers struct {
	*Cluster
	// pools are those that there are, or will be, and held are those that wait.
	pools, held []*addresspool.Pool
	// made are the names of those that there will be, and needed those of them that Services need.
	made, needed map[string]bool
	listing      map[netip.Addr][]*corev1.Service
	Document
	keep int
}

// ServicesOf says of Services of type LoadBalancer what is to be done for them, and which stay as they are. Nothing of a Service is
// written, as it keeps what its status lists. made are the pools that there will be.
func ServicesOf(c *Cluster, options Options, made []Document) Document {
	b := &balancers{Cluster: c, listing: c.listing(), made: map[string]bool{}, needed: map[string]bool{}}
	b.addPools(made)
	for _, svc := range slices.SortedFunc(slices.Values(c.Services), byKey) {
		isIn := options.Namespace == "" || svc.Namespace == options.Namespace
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || !isIn {
			continue
		}
		switch {
		case svc.Spec.LoadBalancerClass == nil:
			b.classless(svc)
		case isOthers(svc) && len(svc.Status.LoadBalancer.Ingress) > 0:
			b.decide("Service %s has the loadBalancerClass %s, which can't be changed: it stays with that controller, "+
				"or is to be made again without, or with the class %s",
				snapshot.Key(svc), quoted(*svc.Spec.LoadBalancerClass), v1beta1.LoadBalancerClass)
		}
	}
	if b.keep > 0 {
		what := "there is nothing to apply for that"
		if len(b.needed) > 0 {
			what = "for that, apply of --only pools: " + strings.Join(slices.Sorted(maps.Keys(b.needed)), ", ")
		}
		b.note("%s without a loadBalancerClass: Portcullis with --default-load-balancer takes over what each lists in its status, once the "+
			"controller that has served it has stopped; %s", plural(b.keep, "Service", "Services"), what)
	}
	return b.Document
}

// addPools adds those that there are, and those that are made.
func (b *balancers) addPools(made []Document) {
	for _, there := range b.Pools {
		if pool, errs := addresspool.New(there); len(errs) == 0 {
			b.pools = append(b.pools, pool)
		}
	}
	isThere := func(name string) bool {
		return slices.ContainsFunc(b.Pools, func(there *v1beta1.AddressPool) bool { return there.Name == name })
	}
	for i := range made {
		p, is := made[i].Object.(*v1beta1.AddressPool)
		if !is {
			continue
		}
		pool, errs := addresspool.New(p)
		switch {
		case len(errs) > 0:
		case made[i].Held:
			b.held = append(b.held, pool)
		case !isThere(p.Name):
			b.pools, b.made[p.Name] = append(b.pools, pool), true
		}
	}
}

func byKey(a, b *corev1.Service) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// classless says what becomes of a Service that another controller has served, or will.
func (b *balancers) classless(svc *corev1.Service) {
	key, ingress := snapshot.Key(svc), svc.Status.LoadBalancer.Ingress
	asked, from, readable := askedOf(svc)
	if !readable {
		b.decide("Service %s asks by %s for %s, which is no address, or several of one IP family: "+
			"ask by the annotation %s for one of each family", key, from, quoted(valueOf(svc, from)), v1beta1.AnnotationAddresses)
		asked = nil
	}
	listed := loadbalancer.Listed(ingress)
	switch {
	case len(listed) == 0 && loadbalancer.IsAddressed(ingress):
		b.note("Service %s has a host name of its load balancer, as clouds give: no AddressPool gives that, and it is left alone", key)
	case len(listed) == 0:
		b.waiting(svc, asked)
	default:
		if why := b.whyNot(svc, listed); why != "" {
			b.decide("Service %s stays where it is, at %s, and is left alone: %s", key, texts(listed), why)
			return
		}
		b.keep++
		for _, ip := range listed {
			if name := poolOf(b.pools, b.Cluster, svc, ip).Name; b.made[name] {
				b.needed[name] = true
			}
		}
		if lacks := slices.DeleteFunc(slices.Clone(asked), func(ip netip.Addr) bool { return slices.Contains(listed, ip) }); len(lacks) > 0 {
			b.decide("Service %s asks by %s for %s and has %s, which it keeps; to have it move there: %s",
				key, from, texts(asked), texts(listed), annotate(svc, v1beta1.AnnotationAddresses, texts(asked)))
		}
		b.shares(svc, listed)
	}
}

// waiting says how a Service without addresses is to ask for what it has asked the other controller for.
func (b *balancers) waiting(svc *corev1.Service, asked []netip.Addr) {
	if len(asked) > 0 && svc.Spec.LoadBalancerIP == "" && svc.Annotations[v1beta1.AnnotationAddresses] == "" {
		b.decide("Service %s has no address yet; to have it ask Portcullis for what it asks for: %s",
			snapshot.Key(svc), annotate(svc, v1beta1.AnnotationAddresses, texts(asked)))
	}
	if _, pool := firstOf(svc, otherPools); pool != "" && len(validation.IsDNS1123Subdomain(pool)) == 0 &&
		svc.Annotations[v1beta1.AnnotationAddressPool] == "" {
		b.decide("Service %s has no address yet; to have it ask Portcullis for the pool that it asks for: %s",
			snapshot.Key(svc), annotate(svc, v1beta1.AnnotationAddressPool, pool))
	}
}

// annotate is a command that has a Service ask for something. What is in it are names and addresses, in which no shell sees anything.
func annotate(svc *corev1.Service, name, value string) string {
	return fmt.Sprintf("kubectl annotate service -n %s %s %s=%s", svc.Namespace, svc.Name, name, value)
}

// whyNot says why Portcullis does not take over the addresses that a Service lists, empty if it does.
func (b *balancers) whyNot(svc *corev1.Service, listed []netip.Addr) string {
	if why := whyAlone(svc, listed); why != "" {
		return why
	}
	request, _ := loadbalancer.RequestOf(svc)
	for _, ip := range listed {
		pool := poolOf(b.pools, b.Cluster, svc, ip)
		if pool == nil {
			return b.whyNoPool(svc, ip)
		}
		for _, other := range b.listing[ip] {
			switch {
			case other == svc || isOthers(other):
			case pool.SharingOrDefault() != v1beta1.SharingPorts:
				return fmt.Sprintf("Service %s has %s, too, and AddressPool %s shares no addresses", snapshot.Key(other), ip, pool.Name)
			case slices.ContainsFunc(request.Ports, func(p loadbalancer.Port) bool {
				return slices.ContainsFunc(other.Spec.Ports, func(o corev1.ServicePort) bool {
					return o.Port == p.Number && cmp.Or(o.Protocol, corev1.ProtocolTCP) == p.Protocol
				})
			}):
				return fmt.Sprintf("Service %s has %s, too, with a port that both have: one of the two gets it", snapshot.Key(other), ip)
			}
		}
	}
	return ""
}

// whyAlone says why Portcullis does not take over the addresses that a Service lists, whatever pools there are; empty if it may.
func whyAlone(svc *corev1.Service, listed []netip.Addr) string {
	request, problems := loadbalancer.RequestOf(svc)
	switch {
	case len(problems) > 0:
		return problems[0].Err.Error()
	case slices.ContainsFunc(listed, func(ip netip.Addr) bool { return loadbalancer.IsOneOfSeveral(listed, ip) }):
		return "it has several addresses of one IP family"
	case slices.ContainsFunc(request.Addresses, func(ip netip.Addr) bool { return !slices.Contains(listed, ip) }):
		return fmt.Sprintf("it asks for %s by %s", texts(request.Addresses), request.AddressesPath)
	}
	return ""
}

// whyNoPool says why no pool gives a Service an address.
func (b *balancers) whyNoPool(svc *corev1.Service, ip netip.Addr) string {
	if pool := poolOf(b.held, b.Cluster, svc, ip); pool != nil {
		return fmt.Sprintf("AddressPool %s of --only pools would give it %s, and waits for a decision", pool.Name, ip)
	}
	if !b.Knows("IPAddressPool", "") || !b.Knows("AddressPool", "") {
		return fmt.Sprintf("nothing says which AddressPool would give it %s, as not all pools could be read", ip)
	}
	return fmt.Sprintf("no AddressPool gives it %s; make one that does", ip)
}

// poolOf is the one of some pools that gives a Service an address, nil for none.
func poolOf(pools []*addresspool.Pool, c *Cluster, svc *corev1.Service, ip netip.Addr) *addresspool.Pool {
	i := slices.IndexFunc(pools, func(p *addresspool.Pool) bool {
		return p.Serves(svc.Labels, c.NamespaceLabels(svc.Namespace)) && loadbalancer.Gives(p, svc, ip)
	})
	if i < 0 {
		return nil
	}
	return pools[i]
}

// shares says what becomes of a key for sharing that nobody shares by today.
func (b *balancers) shares(svc *corev1.Service, listed []netip.Addr) {
	name, key := firstOf(svc, otherKeys)
	if key == "" {
		return
	}
	for _, ip := range listed {
		if pool := poolOf(b.pools, b.Cluster, svc, ip); len(b.listing[ip]) == 1 && pool.SharingOrDefault() != v1beta1.SharingPorts {
			b.decide("Service %s may share %s by %s, and nobody does today: AddressPool %s gives it the address alone; "+
				"to have others share it, move the address to a pool with sharing: Ports first", snapshot.Key(svc), ip, name, pool.Name)
		}
	}
}

// askedOf are the addresses for which a Service asks, and by what; readable is false for what is none.
func askedOf(svc *corev1.Service) (asked []netip.Addr, from string, readable bool) {
	name, text := firstOf(svc, otherAddresses)
	if text == "" {
		name, text = "spec.loadBalancerIP", svc.Spec.LoadBalancerIP
	}
	if text == "" {
		return nil, "", true
	}
	like := &corev1.Service{}
	like.Annotations = map[string]string{v1beta1.AnnotationAddresses: text}
	request, errs := loadbalancer.Read(like)
	return request.Addresses, name, len(errs) == 0
}

func valueOf(svc *corev1.Service, from string) string {
	return cmp.Or(svc.Annotations[from], svc.Spec.LoadBalancerIP)
}

// firstOf is the first of some annotations that a Service has.
func firstOf(svc *corev1.Service, names []string) (name, value string) {
	for _, name := range names {
		if value := strings.TrimSpace(svc.Annotations[name]); value != "" {
			return name, value
		}
	}
	return "", ""
}
