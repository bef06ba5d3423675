// Package rules decides who may open which door. Its functions take an object and a view of the rest of the cluster,
// and return what is wrong with the object. Admission and reconciliation call the same ones, so an object that got
// past admission meets the same verdict later.
package rules

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

var specPath = field.NewPath("spec")

// suggestions is how many choices a refusal names.
const suggestions = 3

// ShareView is what the rules see of how much a namespace has.
type ShareView interface {
	// ClaimsOfNamespace lists the claims in a family of scopes that the objects of a namespace have; see claim.ScopeFamily. HTTP is
	// none of these families.
	ClaimsOfNamespace(ctx context.Context, namespace, family string) ([]*v1beta1.EdgeClaim, error)
	// Fronts are the Services that classes name. What is opened on those is for all, and they are an administrator's choice:
	// limits for one Service, or one namespace, are not meant for them.
	Fronts(ctx context.Context) ([]types.NamespacedName, error)
}

// NodesView is what the rules see of who has ports of the nodes.
type NodesView interface {
	// Claim reads a claim by name.
	Claim(ctx context.Context, name string) (*v1beta1.EdgeClaim, error)
	// ClassesOnNodes lists the classes without a Service, whose proxies are on the network of the nodes.
	ClassesOnNodes(ctx context.Context) ([]v1beta1.StreamIngressClass, error)
}

// HeldOnNodes finds the claim that keeps a port of the nodes from Services, nil for none: the one on the port itself, or the one on
// the port of a proxy that listens on the nodes. Its class claims it there, too, but only when it has learned that the nodes are
// shared, or that its proxy is on them by now; a Service that has waited for the same would be faster.
func HeldOnNodes(ctx context.Context, v NodesView, at claim.Coordinate) (*v1beta1.EdgeClaim, error) {
	held, err := v.Claim(ctx, at.Name())
	if err != nil || held != nil {
		return held, err
	}
	classes, err := v.ClassesOnNodes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range classes {
		port := claim.Stream(classes[i].Name, at.Protocol(), at.Port())
		if port.IsZero() { // SCTP, which no proxy serves
			return nil, nil
		}
		if held, err = v.Claim(ctx, port.Name()); err != nil || held != nil {
			return held, err
		}
	}
	return nil, nil
}
