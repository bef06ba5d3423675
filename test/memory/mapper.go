package memory

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterScoped are the kinds without a namespace that Portcullis reads.
var clusterScoped = map[string]bool{
	"Namespace": true, "Node": true, "IngressClass": true, "StreamIngressClass": true, "EdgeClaim": true, "AddressPool": true,
}

// mapperOf maps all kinds of a scheme.
func mapperOf(scheme *runtime.Scheme) (meta.RESTMapper, error) {
	kinds := scheme.AllKnownTypes()
	if len(kinds) == 0 {
		return nil, fmt.Errorf("scheme %s knows no kind", scheme.Name())
	}
	var groups []schema.GroupVersion
	for kind := range kinds {
		groups = append(groups, kind.GroupVersion())
	}
	mapper := meta.NewDefaultRESTMapper(groups)
	for kind := range kinds {
		scope := meta.RESTScopeNamespace
		if clusterScoped[kind.Kind] {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(kind, scope)
	}
	return mapper, nil
}
