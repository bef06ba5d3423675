package addresspool

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Pool is an AddressPool as it is read.
type Pool struct {
	*v1beta1.AddressPool
	// Set is the addresses of the source Addresses; it is empty for the others.
	Set Set
	// Nodes selects the nodes of the source NodeIP.
	Nodes labels.Selector

	services, namespaces labels.Selector
}

// New reads an AddressPool. The result is whole only if there are no errors.
func New(pool *v1beta1.AddressPool) (*Pool, field.ErrorList) {
	p := &Pool{AddressPool: pool}
	var errs field.ErrorList
	p.Set, errs = Parse(&pool.Spec)
	read := func(name string, from *metav1.LabelSelector) labels.Selector {
		if from == nil {
			return labels.Everything()
		}
		selector, err := metav1.LabelSelectorAsSelector(from)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", name), "", err.Error()))
			return labels.Nothing()
		}
		return selector
	}
	p.services = read("serviceSelector", pool.Spec.ServiceSelector)
	p.namespaces = read("namespaceSelector", pool.Spec.NamespaceSelector)
	p.Nodes = read("nodeSelector", pool.Spec.NodeSelector)
	return p, errs
}

// MaxLabelBytes is how much the labels of a Service may take, keys and values together, for a serviceSelector to select it.
// A tenant can write far more, and of those no replica keeps all.
const MaxLabelBytes = 4 << 10

// LabelBytes is how much labels take.
func LabelBytes(of labels.Set) (n int) {
	for key, value := range of {
		n += len(key) + len(value)
	}
	return n
}

// Serves says whether the pool's selectors let it serve a Service with these labels in a namespace with those. Only a pool
// without a serviceSelector serves a Service whose labels take more than MaxLabelBytes.
func (p *Pool) Serves(service, namespace labels.Set) bool {
	selected := p.services.Empty() || LabelBytes(service) <= MaxLabelBytes && p.services.Matches(service)
	return selected && p.namespaces.Matches(namespace)
}
