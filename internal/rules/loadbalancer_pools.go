package rules

import (
	"context"
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
func fitting(ctx context.Context, v LoadBalancerView, b *Balance) ([]*addresspool.Pool, refusal.Problems, error) {
	book := v.Pools()
	namespace, err := v.NamespaceLabels(ctx, b.Service.Namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, ip := range b.Addresses {
		if family := addresspool.FamilyOf(ip); len(b.Families) > 0 && !slices.Contains(b.Families, family) {
			return nil, refusal.One(v1beta1.ReasonAddressFamilyMismatch, field.Invalid(b.AddressesPath, ip.String(), fmt.Sprintf(
				"the Service has no %s: its spec.ipFamilies are %s", family, families(b.Families)))), nil
		}
	}
	if b.Pool != "" {
		return namedPool(ctx, v, b, book, namespace)
	}
	first, problems := ofAddresses(b, book, namespace)
	if len(problems) > 0 {
		return nil, problems, nil
	}
	pools := first
	for _, pool := range book.Pools() {
		if !slices.Contains(first, pool) && unfit(pool, b, namespace) == "" {
			pools = append(pools, pool)
		}
	}
	return pools, nil, nil
}

// namedPool finds the pool that a Service names.
func namedPool(
	ctx context.Context, v LoadBalancerView, b *Balance, book *addresspool.Book, namespace labels.Set,
) ([]*addresspool.Pool, refusal.Problems, error) {
	pool, problems, err := poolNamed(ctx, v, b, book)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	if reason, text := mismatch(pool, b, namespace); text != "" {
		path, value := loadbalancer.PoolPath, b.Pool
		if reason == v1beta1.ReasonSharingMismatch {
			path, value = loadbalancer.SharingPath, string(b.Sharing)
		}
		return nil, refusal.One(reason, field.Invalid(path, value, fmt.Sprintf("AddressPool %s %s", pool.Name, text))), nil
	}
	for _, ip := range b.Addresses {
		if !gives(pool, b.Service, ip) {
			return nil, refusal.One(v1beta1.ReasonAddressNotInPool, field.Invalid(b.AddressesPath, ip.String(),
				fmt.Sprintf("is not an address of AddressPool %s, which has %s", pool.Name, contents(pool)))), nil
		}
	}
	return []*addresspool.Pool{pool}, nil, nil
}

func poolNamed(ctx context.Context, v LoadBalancerView, b *Balance, book *addresspool.Book) (*addresspool.Pool, refusal.Problems, error) {
	verdict, known := book.Verdict(b.Pool)
	if !known {
		pool, err := v.AddressPool(ctx, b.Pool)
		if err != nil {
			return nil, nil, err
		}
		if pool == nil {
			return nil, refusal.One(v1beta1.ReasonAddressPoolNotFound, &field.Error{
				Type: field.ErrorTypeNotFound, Field: loadbalancer.PoolPath.String(), BadValue: b.Pool, Detail: there(book.Pools()),
			}), nil
		}
		verdict = book.Judge(pool)
	}
	if !verdict.Accepted() {
		return nil, refusal.One(v1beta1.ReasonAddressPoolNotAllowed, field.Invalid(loadbalancer.PoolPath, b.Pool,
			fmt.Sprintf("AddressPool %s is not accepted: %s", b.Pool, verdict.Errors().ToAggregate()))), nil
	}
	return verdict.Pool, nil, nil
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

// most is how many pools a text names.
const most = 5

// ofAddresses finds the pools that have the addresses that a Service asks for.
func ofAddresses(b *Balance, book *addresspool.Book, namespace labels.Set) ([]*addresspool.Pool, refusal.Problems) {
	var pools []*addresspool.Pool
	for _, ip := range b.Addresses {
		pool := poolOf(b, book, ip)
		if pool == nil {
			return nil, refusal.One(v1beta1.ReasonAddressNotInPool,
				field.Invalid(b.AddressesPath, ip.String(), "is in no AddressPool: "+there(book.Pools())+contentsOf(book.Pools())))
		}
		if reason, text := mismatch(pool, b, namespace); text != "" {
			return nil, refusal.One(reason, field.Invalid(b.AddressesPath, ip.String(), fmt.Sprintf("AddressPool %s, which has it, %s", pool.Name, text)))
		}
		if !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	return pools, nil
}

// poolOf is the pool that has an address. Cluster IPs are given all at once: their pool has to have all that is asked for.
func poolOf(b *Balance, book *addresspool.Book, ip netip.Addr) *addresspool.Pool {
	if pool := book.Of(ip); pool != nil {
		return pool
	}
	hasAll := func(p *addresspool.Pool) bool {
		return !slices.ContainsFunc(b.Addresses, func(asked netip.Addr) bool { return !gives(p, b.Service, asked) })
	}
	if i := slices.IndexFunc(book.Pools(), hasAll); i >= 0 {
		return book.Pools()[i]
	}
	return nil
}

// unfit says why a pool can't serve a Service, empty if it can.
func unfit(pool *addresspool.Pool, b *Balance, namespace labels.Set) string {
	if _, text := mismatch(pool, b, namespace); text != "" {
		return text
	}
	if pool.SourceOrDefault() == v1beta1.SourceAddresses && len(b.Families) > 0 && !hasFamily(pool, b.Families) {
		return "has no " + families(b.Families) + " addresses"
	}
	if len(b.Addresses) > 0 && pool.SourceOrDefault() != v1beta1.SourceAddresses {
		return "has not the addresses that it asks for" // and gives all it has, or nothing
	}
	return ""
}

// mismatch says why a pool may not serve a Service, whatever addresses it has.
func mismatch(pool *addresspool.Pool, b *Balance, namespace labels.Set) (reason, text string) {
	if !pool.Serves(b.Service.Labels, namespace) {
		which := "its serviceSelector and namespaceSelector do not select it"
		switch {
		case pool.Spec.ServiceSelector == nil:
			which = fmt.Sprintf("its namespaceSelector does not select namespace %q", b.Service.Namespace)
		case addresspool.LabelBytes(b.Service.Labels) > addresspool.MaxLabelBytes:
			which = fmt.Sprintf("its serviceSelector selects no Service whose labels take more than %d bytes", addresspool.MaxLabelBytes)
		case pool.Spec.NamespaceSelector == nil:
			which = "its serviceSelector does not select it"
		}
		return v1beta1.ReasonAddressPoolNotAllowed, "does not serve this Service: " + which
	}
	if sharing := pool.SharingOrDefault(); b.Sharing != "" && b.Sharing != sharing {
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
func noPool(ctx context.Context, v LoadBalancerView, b *Balance) (refusal.Problems, error) {
	all := v.Pools().Pools()
	namespace, err := v.NamespaceLabels(ctx, b.Service.Namespace)
	if err != nil {
		return nil, err
	}
	text := "there is no AddressPool that is accepted: create one with the addresses that Services may have"
	if len(all) > 0 {
		var reasons []string
		for _, pool := range all {
			why := unfit(pool, b, namespace)
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
	return refusal.One(v1beta1.ReasonNoAddressPool, field.Invalid(loadbalancer.TypePath, string(corev1.ServiceTypeLoadBalancer), text)), nil
}
