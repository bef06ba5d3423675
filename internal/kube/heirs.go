package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// handed are the kinds that hand over what they hold.
var handed = map[schema.GroupKind]schema.GroupVersionKind{
	{Group: v1beta1.GroupName, Kind: "StreamIngress"}: v1beta1.GroupVersion.WithKind("StreamIngress"),
	{Kind: "Service"}: corev1.SchemeGroupVersion.WithKind("Service"),
	{Group: networkingv1.GroupName, Kind: "Ingress"}: networkingv1.SchemeGroupVersion.WithKind("Ingress"),
}

// HandsOver says whether a holder hands over what it holds to another object of its kind, by the annotation as it is stored now: that is
// written a moment before the other object is applied.
func (o *objects) HandsOver(ctx context.Context, from, to claim.Holder) (bool, error) {
	kind, known := handed[schema.GroupKind{Group: from.Group, Kind: from.Kind}]
	if !known || from.Group != to.Group || from.Kind != to.Kind {
		return false, nil
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	if err := o.tenants.Get(ctx, from.Key(), obj); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	heir, named := claim.NamedHeir(obj)
	return named && heir == to.Key(), nil
}

// NamesHeir says by the cache what HandsOver does past it, of who holds hosts and paths.
func (v *View) NamesHeir(ctx context.Context, from, to claim.Holder) (bool, error) {
	var obj metav1.Object
	switch {
	case from.IsService():
		svc, err := v.Service(ctx, from.Key())
		if err != nil || svc == nil {
			return false, err
		}
		obj = svc
	case from.IsIngress():
		ing, err := v.Ingresses.Get(ctx, from.Key())
		if err != nil || ing == nil {
			return false, err
		}
		obj = ing
	default:
		return false, nil
	}
	heir, named := claim.NamedHeir(obj)
	return named && from.Group == to.Group && from.Kind == to.Kind && heir == to.Key(), nil
}

// NamesHeir looks live for an annotation that the cache does not have: it is written a moment before who is named asks for the point.
func (r LiveReader) NamesHeir(ctx context.Context, from, to claim.Holder) (bool, error) {
	named, err := r.View.NamesHeir(ctx, from, to)
	if named || err != nil {
		return named, err
	}
	return r.HandsOver(ctx, from, to)
}

// ReferenceTo refers to the holder of a claim that hands over what it holds, or has it handed over.
func ReferenceTo(h v1beta1.ClaimHolder) *corev1.ObjectReference {
	kind := handed[schema.GroupKind{Group: h.Group, Kind: h.Kind}]
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, UID: h.UID,
	}
}

// ToInherit lists the claims of which an object is the heir.
func (c *Claims) ToInherit(ctx context.Context, heir claim.Holder) ([]*v1beta1.EdgeClaim, error) {
	return c.by(ctx, IndexHeir, heir.String())
}

// heirKeys are those under which IndexHeir finds a claim.
func heirKeys(c *v1beta1.EdgeClaim) []string {
	if c.Spec.Heir == nil { // as most have none
		return nil
	}
	return []string{claim.HeirOf(c).String()}
}
