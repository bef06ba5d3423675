// Package hostname has the rules for whose a host name is, in whatever kind of object it is used: HostPolicies say which namespaces may use
// it, and whether it is one namespace's alone.
//
// It knows no cluster: values go in, values come out. Admission and reconciliation call the same rules.
package hostname

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Policy is a HostPolicy that is read.
type Policy struct {
	*v1beta1.HostPolicy
	// selector is nil where no namespace can be selected.
	selector labels.Selector
}

// Shares says whether namespaces may share the names.
func (p *Policy) Shares() bool { return p.Spec.Sharing != v1beta1.ShareNamespace }

// Allows says whether a namespace with these labels may use the names.
func (p *Policy) Allows(has labels.Set) bool { return p.selector != nil && p.selector.Matches(has) }

// String is how refusals name a policy.
func (p *Policy) String() string { return "HostPolicy " + p.Name }

// Book are the policies of a cluster, to be looked up by host names. It is not changed once it is made.
type Book struct {
	// exact are the policies by names, and below by what is behind the *. of their hosts.
	exact, below map[string]*Policy
	// conflicts are the hosts of policies that older ones have, by the name of the policy.
	conflicts map[string][]Conflicting
	// owns says that some policy gives names to namespaces.
	owns bool
}

// Conflicting is a host of a policy that an older one has.
type Conflicting struct {
	// Index is the place of the host in the list of the policy.
	Index int
	Host  string
	Older *Policy
}

// NewBook reads policies. Where two have the same host, that of the older one counts, and of two as old that of the lesser name.
func NewBook(policies []*v1beta1.HostPolicy) *Book {
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b *v1beta1.HostPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	b := &Book{exact: map[string]*Policy{}, below: map[string]*Policy{}, conflicts: map[string][]Conflicting{}}
	for _, one := range policies {
		p := Read(one)
		b.owns = b.owns || !p.Shares()
		for i, host := range one.Spec.Hosts {
			at, key := b.place(host)
			switch older := at[key]; {
			case older == nil:
				at[key] = p
			case older.Name != p.Name:
				b.conflicts[p.Name] = append(b.conflicts[p.Name], Conflicting{i, host, older})
			}
		}
	}
	return b
}

// Read reads a policy.
func Read(policy *v1beta1.HostPolicy) *Policy {
	p := &Policy{HostPolicy: policy, selector: labels.Everything()}
	if policy.Spec.NamespaceSelector != nil {
		p.selector, _ = metav1.LabelSelectorAsSelector(policy.Spec.NamespaceSelector) // nil for one that can't be read
	}
	return p
}

// place is where a host of a policy is looked up.
func (b *Book) place(host string) (at map[string]*Policy, key string) {
	if suffix, wild := strings.CutPrefix(host, "*."); wild {
		return b.below, suffix
	}
	return b.exact, host
}

// Conflicts are those hosts of a policy that older ones have.
func (b *Book) Conflicts(policy string) []Conflicting { return b.conflicts[policy] }

// Beside are those hosts of a new policy, or of a new version of one, that others have, whatever their age.
func (b *Book) Beside(policy *v1beta1.HostPolicy) (conflicts []Conflicting) {
	for i, host := range policy.Spec.Hosts {
		at, key := b.place(host)
		if other := at[key]; other != nil && other.Name != policy.Name {
			conflicts = append(conflicts, Conflicting{i, host, other})
		}
	}
	return conflicts
}

// IsEmpty says whether there are no policies that count.
func (b *Book) IsEmpty() bool { return len(b.exact)+len(b.below) == 0 }

// Owns says whether some policy gives names to namespaces.
func (b *Book) Owns() bool { return b.owns }

// For is the policy that speaks of a host name, the most specific one; nil for none. A wildcard is one of the names below its own suffix.
func (b *Book) For(host string) *Policy {
	if p := b.exact[host]; p != nil {
		return p
	}
	for {
		_, rest, found := strings.Cut(host, ".")
		if !found {
			return nil
		}
		if p := b.below[rest]; p != nil {
			return p
		}
		host = rest
	}
}

// Owner is the policy that gives a host name to one namespace, nil where none does.
func (b *Book) Owner(host string) *Policy {
	if p := b.For(host); p != nil && !p.Shares() {
		return p
	}
	return nil
}

// Limits says whether a policy gives a namespace no more than so many names of which one is host.
func (b *Book) Limits(host string) bool {
	p := b.Owner(host)
	return p != nil && p.Spec.MaxPerNamespace != nil
}

// Above are the wildcards that stand for a host name, and that the same policy is about: nobody has the one beside the other.
func (b *Book) Above(host string) (points []claim.Coordinate) {
	p := b.Owner(host)
	if p == nil {
		return nil
	}
	for _, suffix := range claim.Suffixes(host) {
		if wildcard := "*." + suffix; wildcard != host && b.For(wildcard) == p {
			points = append(points, claim.Hostname(wildcard))
		}
	}
	return points
}
