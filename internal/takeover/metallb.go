package takeover

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/internal/addresspool"
)

// metalLBPool is an IPAddressPool of MetalLB (metallb.io/v1beta1).
type metalLBPool struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Addresses         []string           `json:"addresses"`
		AutoAssign        *bool              `json:"autoAssign"`
		AvoidBuggyIPs     bool               `json:"avoidBuggyIPs"`
		ServiceAllocation *metalLBAllocation `json:"serviceAllocation"`
	} `json:"spec"`
}

// metalLBAllocation says which Services a pool is for: those of one of the namespaces, if any are named or selected, which one of the
// Service selectors selects, if there are any.
type metalLBAllocation struct {
	// Priority orders the pools that are for a Service: the lowest number comes first, and 0 last.
	Priority           int64                  `json:"priority"`
	Namespaces         []string               `json:"namespaces"`
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors"`
	ServiceSelectors   []metav1.LabelSelector `json:"serviceSelectors"`
}

// readMetalLB reads an IPAddressPool.
func readMetalLB(u *unstructured.Unstructured) (*metalLBPool, error) {
	p := &metalLBPool{}
	return p, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p)
}

// isForNone says whether MetalLB gives no Service an address of the pool unless it asks for that: it is for some, and says for none.
func (p *metalLBPool) isForNone() bool {
	a := p.Spec.ServiceAllocation
	return a != nil && len(a.Namespaces)+len(a.NamespaceSelectors)+len(a.ServiceSelectors) == 0
}

// rank orders pools as MetalLB does: those for some Services come before those for all, and among these the lowest priority, with 0 last.
// One that it gives nobody unasked is behind all.
func (p *metalLBPool) rank() []int64 {
	a := p.Spec.ServiceAllocation
	if a == nil {
		return []int64{number(false), number(true), number(true), 0}
	}
	return []int64{number(p.isForNone()), number(false), number(a.Priority == 0), a.Priority}
}

// compareRanks is negative where the first of two pools comes first.
func compareRanks(a, b *metalLBPool) int { return slices.Compare(a.rank(), b.rank()) }

// number orders what is not before what is.
func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// namespaceSelector is one selector for the namespaces of a pool, nil for all. In the place of several it names the
// namespaces that they select today, and isToday is true. problem says why it can't be said.
func (c *Cluster) namespaceSelector(a *metalLBAllocation) (selector *metav1.LabelSelector, isToday bool, problem string) {
	switch {
	case a == nil || len(a.Namespaces)+len(a.NamespaceSelectors) == 0:
		return nil, false, ""
	case len(a.NamespaceSelectors) == 0:
		return named(a.Namespaces), false, ""
	case len(a.NamespaceSelectors) == 1 && len(a.Namespaces) == 0:
		return &a.NamespaceSelectors[0], false, ""
	case !c.Knows("Namespace", ""):
		return nil, false, "it is for namespaces by several selectors, and which these select could not be read"
	}
	names := slices.Clone(a.Namespaces)
	for i := range a.NamespaceSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&a.NamespaceSelectors[i])
		if err != nil {
			return nil, false, err.Error()
		}
		for _, name := range c.Namespaces() {
			if selector.Matches(c.NamespaceLabels(name)) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil, false, "its selectors select no namespace"
	}
	return named(names), true, ""
}

// named selects namespaces by their names.
func named(names []string) *metav1.LabelSelector {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 1 {
		return &metav1.LabelSelector{MatchLabels: labels.Set{corev1.LabelMetadataName: names[0]}}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names},
	}}
}

// serviceSelector is one selector for the Services of a pool, nil for all. Several can be one where they are about one label.
func (a *metalLBAllocation) serviceSelector() (selector *metav1.LabelSelector, problem string) {
	if a == nil || len(a.ServiceSelectors) == 0 {
		return nil, ""
	}
	if len(a.ServiceSelectors) == 1 {
		return &a.ServiceSelectors[0], ""
	}
	var key string
	var values []string
	for _, s := range a.ServiceSelectors {
		if len(s.MatchLabels) != 1 || len(s.MatchExpressions) > 0 {
			return nil, "it has several serviceSelectors, and an AddressPool has one: write one, or a pool for each"
		}
		for k, v := range s.MatchLabels {
			if key != "" && k != key {
				return nil, "it has serviceSelectors for several labels, and an AddressPool has one selector: write one, or a pool for each"
			}
			key, values = k, append(values, v)
		}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(slices.Sorted(slices.Values(values)))},
	}}, ""
}

// addressesOf are the addresses of a pool, as an AddressPool has them. MetalLB takes any address of a network for the network, and avoids
// no addresses but those that end in .0 and .255.
func (p *metalLBPool) addressesOf() (texts []string) {
	for _, text := range p.Spec.Addresses {
		text = strings.TrimSpace(text)
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefix = prefix.Masked()
			if text = prefix.String(); p.Spec.AvoidBuggyIPs && prefix.Addr().Is4() {
				text = fmt.Sprintf("%s-%s", prefix.Addr(), addresspool.LastOf(prefix))
			}
		}
		texts = append(texts, text)
	}
	return texts
}
