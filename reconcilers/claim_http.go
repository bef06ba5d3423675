package reconcilers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// httpWants looks whether the Service or Ingress that holds a path is there, and wants it. Both are read by reader.
//
// A Service wants what its annotation asks for, and what the Ingress of its name still serves, whatever is marked on that:
// nobody else gets a path while a proxy still sends it there.
func (r *claimReconciler) httpWants(
	ctx context.Context, reader client.Reader, at claim.Coordinate, holder claim.Holder,
) (claim.Sighting, error) {
	ing := &networkingv1.Ingress{}
	served, err := r.read(ctx, reader, holder.Key(), ing)
	if err != nil {
		return claim.Sighting{}, err
	}
	serves := served && slices.Contains(exposure.PointsOf(ing), at)
	if !holder.IsService() {
		return claim.Sighting{Exists: served, UID: ing.UID, Generation: ing.Generation, Wants: serves}, nil
	}
	svc := &corev1.Service{}
	there, err := r.read(ctx, reader, holder.Key(), svc)
	if err != nil || !there {
		return claim.Sighting{Exists: serves, Wants: serves}, err
	}
	return claim.Sighting{
		Exists: true, UID: svc.UID, Generation: claim.Version(svc.ResourceVersion),
		Wants: serves || rules.WantsHTTP(r.view, svc, at),
	}, nil
}

// read reads an object; found is false when there is none.
func (r *claimReconciler) read(
	ctx context.Context, reader client.Reader, key types.NamespacedName, obj client.Object,
) (found bool, err error) {
	err = reader.Get(ctx, key, obj)
	return err == nil, ignoreNotFound(err)
}

// onIngress looks at the claims of an Ingress, and at those of the Service of its name.
func (r *claimReconciler) onIngress() handler.TypedEventHandler[client.Object, claimRequest] {
	look := func(ctx context.Context, q claimQueue, obj client.Object, gone bool) {
		var self types.UID
		if gone {
			self = obj.GetUID()
		}
		r.enqueue(ctx, q, claim.IngressHolder(obj.GetNamespace(), obj.GetName()), self)
		r.enqueue(ctx, q, claim.ServiceHolder(obj.GetNamespace(), obj.GetName()), "")
	}
	changed := servingChanged()
	return handler.TypedFuncs[client.Object, claimRequest]{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) {
			if changed.Update(e) {
				look(ctx, q, e.ObjectOld, e.ObjectOld.GetUID() != e.ObjectNew.GetUID())
				look(ctx, q, e.ObjectNew, false)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) { look(ctx, q, e.Object, true) },
	}
}
