package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// fitting finds the pools that may serve a Service as it asks, the first choice first. Those that serve only what names
// them are among them: what a Service has of them it keeps.
func fitting(facts Facts, s *Subject) ([]*addresspool.Pool, refusal.Problems) {
	book := facts.Pools()
	namespace := facts.NamespaceLabels(s.Service.Namespace)
	for _, ip := range s.Addresses {
		if family := addresspool.FamilyOf(ip); len(s.Families) > 0 && !slices.Contains(s.Families, family) {
			return nil, refusal.One(v1beta1.ReasonAddressFamilyMismatch, field.Invalid(s.AddressesPath, ip.String(), fmt.Sprintf(
				"the Service has no %s: its spec.ipFamilies are %s", family, families(s.Families))))
		}
	}
	if s.Pool != "" {
		return namedPool(facts, s, namespace)
	}
	first, problems := ofAddresses(s, book, namespace)
	if len(problems) > 0 {
		return nil, problems
	}
	pools := first
	for _, pool := range book.Pools() {
		if !slices.Contains(first, pool) && unfit(pool, s, namespace) == "" {
			pools = append(pools, pool)
		}
	}
	return pools, nil
}

// namedPool finds the pool that a Service names.
func namedPool(facts Facts, s *Subject, namespace labels.Set) ([]*addresspool.Pool, refusal.Problems) {
	pool, problems := poolNamed(facts, s.Pool, loadbalancer.PoolPath)
	if len(problems) > 0 {
		return nil, problems
	}
	if reason, text := mismatch(pool, s, namespace); text != "" {
		path, value := loadbalancer.PoolPath, s.Pool
		if reason == v1beta1.ReasonSharingMismatch {
			path, value = loadbalancer.SharingPath, string(s.Sharing)
		}
		return nil, refusal.One(reason, field.Invalid(path, value, fmt.Sprintf("AddressPool %s %s", pool.Name, text)))
	}
	for _, ip := range s.Addresses {
		if !loadbalancer.Gives(pool, s.Service, ip) {
			return nil, refusal.One(v1beta1.ReasonAddressNotInPool, field.Invalid(s.AddressesPath, ip.String(),
				fmt.Sprintf("is not an address of AddressPool %s, which has %s", pool.Name, contents(pool))))
		}
	}
	return []*addresspool.Pool{pool}, nil
}

// poolNamed is the pool of a name, which a field has, if it is accepted.
func poolNamed(facts Facts, name string, path *field.Path) (*addresspool.Pool, refusal.Problems) {
	book := facts.Pools()
	verdict, known := book.Verdict(name)
	if !known {
		pool := facts.AddressPool(name)
		if pool == nil {
			return nil, refusal.One(v1beta1.ReasonAddressPoolNotFound, &field.Error{
				Type: field.ErrorTypeNotFound, Field: path.String(), BadValue: name, Detail: there(book.Pools()),
			})
		}
		verdict = book.Judge(pool)
	}
	if !verdict.Accepted() {
		return nil, refusal.One(v1beta1.ReasonAddressPoolNotAllowed, field.Invalid(path, name,
			fmt.Sprintf("AddressPool %s is not accepted: %s", name, verdict.Errors().ToAggregate())))
	}
	return verdict.Pool, nil
}

// there says which pools there are.
func there(all []*addresspool.Pool) string {
	if len(all) == 0 {
		return "there is no AddressPool"
	}
	return "there are the AddressPools " + poolNames(all)
}

func poolNames(pools []*addresspool.Pool) string {
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if len(names) > most {
		names = append(names[:most], "...")
	}
	return strings.Join(names, ", ")
}

const (
	// most is how many pools a text names.
	most = 5
	// suggestions is of how many pools a refusal says what they have, or why they do not serve a Service.
	suggestions = 3
)

// ofAddresses finds the pools that have the addresses that a Service asks for.
func ofAddresses(s *Subject, book *addresspool.Book, namespace labels.Set) ([]*addresspool.Pool, refusal.Problems) {
	var pools []*addresspool.Pool
	for _, ip := range s.Addresses {
		pool := poolOf(s, book, ip)
		if pool == nil {
			return nil, refusal.One(v1beta1.ReasonAddressNotInPool,
				field.Invalid(s.AddressesPath, ip.String(), "is in no AddressPool: "+there(book.Pools())+contentsOf(book.Pools())))
		}
		if reason, text := mismatch(pool, s, namespace); text != "" {
			return nil, refusal.One(reason, field.Invalid(s.AddressesPath, ip.String(),
				fmt.Sprintf("AddressPool %s, which has it, %s", pool.Name, text)))
		}
		if !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	return pools, nil
}

// poolOf is the pool that has an address. Cluster IPs are given all at once: their pool has to have all that is asked for.
func poolOf(s *Subject, book *addresspool.Book, ip netip.Addr) *addresspool.Pool {
	if pool := book.Of(ip); pool != nil {
		return pool
	}
	return firstOf(book.Pools(), func(p *addresspool.Pool) bool {
		return !slices.ContainsFunc(s.Addresses, func(asked netip.Addr) bool { return !loadbalancer.Gives(p, s.Service, asked) })
	})
}

// firstOf is the first of some pools of which something is so, nil for none.
func firstOf(pools []*addresspool.Pool, is func(*addresspool.Pool) bool) *addresspool.Pool {
	if i := slices.IndexFunc(pools, is); i >= 0 {
		return pools[i]
	}
	return nil
}

// giving is the first of some pools that gives an address to a Service, nil for none.
func giving(pools []*addresspool.Pool, svc *corev1.Service, ip netip.Addr) *addresspool.Pool {
	return firstOf(pools, func(p *addresspool.Pool) bool { return loadbalancer.Gives(p, svc, ip) })
}

// unfit says why a pool can't serve a Service, empty if it can.
func unfit(pool *addresspool.Pool, s *Subject, namespace labels.Set) string {
	if _, text := mismatch(pool, s, namespace); text != "" {
		return text
	}
	if pool.SourceOrDefault() == v1beta1.SourceAddresses && len(s.Families) > 0 && !hasFamily(pool, s.Families) {
		return "has no " + families(s.Families) + " addresses"
	}
	if len(s.Addresses) > 0 && pool.SourceOrDefault() != v1beta1.SourceAddresses {
		return "has not the addresses that it asks for" // and gives all it has, or nothing
	}
	return ""
}

// mismatch says why a pool may not serve a Service, whatever addresses it has.
func mismatch(pool *addresspool.Pool, s *Subject, namespace labels.Set) (reason, text string) {
	if !pool.Serves(s.Service.Labels, namespace) {
		which := "its serviceSelector and namespaceSelector do not select it"
		switch {
		case pool.Spec.ServiceSelector == nil:
			which = fmt.Sprintf("its namespaceSelector does not select namespace %q", s.Service.Namespace)
		case addresspool.LabelBytes(s.Service.Labels) > addresspool.MaxLabelBytes:
			which = fmt.Sprintf("its serviceSelector selects no Service whose labels take more than %d bytes", addresspool.MaxLabelBytes)
		case pool.Spec.NamespaceSelector == nil:
			which = "its serviceSelector does not select it"
		}
		return v1beta1.ReasonAddressPoolNotAllowed, "does not serve this Service: " + which
	}
	if sharing := pool.SharingOrDefault(); s.Sharing != "" && s.Sharing != sharing {
		return v1beta1.ReasonSharingMismatch, fmt.Sprintf("has the sharing %s", sharing)
	}
	return "", ""
}

// hasFamily says whether a pool lists addresses of any of some families.
func hasFamily(pool *addresspool.Pool, of []corev1.IPFamily) bool {
	ipv4, ipv6, _ := pool.Set.Size()
	return ipv4 > 0 && slices.Contains(of, corev1.IPv4Protocol) || ipv6 > 0 && slices.Contains(of, corev1.IPv6Protocol)
}

func families(f []corev1.IPFamily) string {
	texts := make([]string, 0, len(f))
	for _, family := range f {
		texts = append(texts, string(family))
	}
	return strings.Join(texts, " and ")
}

// contents says which addresses a pool has.
func contents(pool *addresspool.Pool) string {
	switch pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		return "the addresses of the nodes, all of them: leave the addresses out"
	case v1beta1.SourceClusterIP:
		return "the cluster IPs of each Service: leave the addresses out"
	}
	listed := pool.Spec.Addresses
	if len(listed) > most {
		return strings.Join(listed[:most], ", ") + ", ..."
	}
	return strings.Join(listed, ", ")
}

// contentsOf says which addresses pools have, as far as a text has room.
func contentsOf(all []*addresspool.Pool) string {
	var texts []string
	for _, pool := range all {
		if pool.SourceOrDefault() == v1beta1.SourceAddresses && len(texts) < suggestions {
			texts = append(texts, pool.Name+" has "+contents(pool))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "; " + strings.Join(texts, "; ")
}

// noPool tells a Service that asks for nothing in particular why no pool serves it.
func noPool(facts Facts, s *Subject) refusal.Problems {
	all := facts.Pools().Pools()
	namespace := facts.NamespaceLabels(s.Service.Namespace)
	text := "there is no AddressPool that is accepted: create one with the addresses that Services may have"
	if len(all) > 0 {
		var reasons []string
		for _, pool := range all {
			why := unfit(pool, s, namespace)
			if why == "" {
				why = fmt.Sprintf("has autoAssign false: name it in the annotation %s", v1beta1.AnnotationAddressPool)
			}
			if len(reasons) < suggestions {
				reasons = append(reasons, pool.Name+" "+why)
			}
		}
		text = "no AddressPool serves this Service: " + strings.Join(reasons, "; ")
		if len(all) > suggestions {
			text += fmt.Sprintf("; and %d more", len(all)-suggestions)
		}
	}
	return refusal.One(v1beta1.ReasonNoAddressPool, field.Invalid(loadbalancer.TypePath, string(corev1.ServiceTypeLoadBalancer), text))
}
