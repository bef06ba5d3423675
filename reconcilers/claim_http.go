package reconcilers

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// httpWants says whether the Service or Ingress that holds a path is there, and wants it.
//
// A Service wants what its annotation asks for, and what the Ingress of its name still serves, whatever is marked on that:
// nobody else gets a path while a proxy still sends it there.
func (s *sight) httpWants(at claim.Coordinate) claim.Sighting {
	serves := s.ingress != nil && slices.Contains(s.serves, at)
	switch {
	case s.holder.IsService() && s.service != nil:
		return claim.Sighting{
			Exists: true, UID: s.service.UID, Generation: claim.Version(s.service.ResourceVersion),
			Wants: serves || rules.WantsHTTP(s.view, s.service, at),
		}
	case s.holder.IsService() || s.ingress == nil:
		return claim.Sighting{Exists: serves, Wants: serves}
	default:
		return claim.Sighting{Exists: true, UID: s.ingress.UID, Generation: s.ingress.Generation, Wants: serves}
	}
}

// onIngress looks at the claims of an Ingress, and at those of the Service of its name.
func (r *claimReconciler) onIngress() handler.TypedEventHandler[client.Object, claimRequest] {
	look := func(q claimQueue, obj client.Object, gone bool) {
		var self types.UID
		if gone {
			self = obj.GetUID()
		}
		q.Add(claimRequest{Holder: claim.IngressHolder(obj.GetNamespace(), obj.GetName()), Gone: self})
		q.Add(claimRequest{Holder: claim.ServiceHolder(obj.GetNamespace(), obj.GetName())})
	}
	changed := servingChanged()
	return handler.TypedFuncs[client.Object, claimRequest]{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q claimQueue) {
			if changed.Update(e) {
				look(q, e.ObjectOld, e.ObjectOld.GetUID() != e.ObjectNew.GetUID())
				look(q, e.ObjectNew, false)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q claimQueue) { look(q, e.Object, true) },
	}
}
