// Package rules decides who may open which door. Its functions take an object and a view of the rest of the cluster,
// and return what is wrong with the object. Admission and reconciliation call the same ones, so an object that got
// past admission meets the same verdict later.
package rules

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// View is what the rules see of the cluster. What is not there is nil, not an error.
type View interface {
	FrontView
	// Class reads a class by name.
	Class(ctx context.Context, name string) (*v1beta1.StreamIngressClass, error)
	// Classes lists all classes.
	Classes(ctx context.Context) ([]v1beta1.StreamIngressClass, error)
	// NamespaceLabels reads the labels of a namespace.
	NamespaceLabels(ctx context.Context, name string) (labels.Set, error)
	// Stream reads a StreamIngress.
	Stream(ctx context.Context, key types.NamespacedName) (*v1beta1.StreamIngress, error)
	// IsOutside says whether a Service is the one of a stream that leads out of the cluster, made by Portcullis or yet to be made.
	IsOutside(ctx context.Context, service types.NamespacedName) (bool, error)
	// ClusterDomain is the domain of the names of the cluster's own Services.
	ClusterDomain() string
	// Granted says whether a ReferenceGrant in the Service's namespace lets StreamIngresses of a namespace point to it.
	Granted(ctx context.Context, from string, service types.NamespacedName) (bool, error)
	ShareView
	// Foreign is what stands at a port on the class's proxy that was not made by Portcullis, ok is false for nothing.
	Foreign(ctx context.Context, class *v1beta1.StreamIngressClass, port stream.PortKey) (f Foreign, ok bool, err error)
}

// ShareView is what the rules see of how much a namespace has.
type ShareView interface {
	// ClaimsOfNamespace lists the claims in a family of scopes that the objects of a namespace have; see claim.ScopeFamily. HTTP is
	// none of these families.
	ClaimsOfNamespace(ctx context.Context, namespace, family string) ([]*v1beta1.EdgeClaim, error)
	// Fronts are the Services that classes name. What is opened on those is for all, and they are an administrator's choice:
	// limits for one Service, or one namespace, are not meant for them.
	Fronts(ctx context.Context) ([]types.NamespacedName, error)
}

// Foreign is an entry or a port that was not made by Portcullis.
type Foreign struct {
	// Holder is the ConfigMap or the Service that it stands in.
	Holder claim.Claimant
	// Entry is the value of the ConfigMap key, empty for the port of a Service.
	Entry string
}
