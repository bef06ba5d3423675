package claims

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
)

// httpWants says whether the Service or Ingress that holds a host or path is there, and wants it. A claim of no class on what it has for
// one is from an earlier version, or for replicas of it: it stays until there are none, and the ledger has what takes its place.
func (s *holderReading) httpWants(ctx context.Context, at claim.Coordinate) (seen claim.HolderState, err error) {
	if at.IngressClass() != "" {
		return s.pathWants(ctx, at)
	}
	classes, err := s.ingressClasses(ctx)
	if err != nil {
		return seen, err
	}
	for _, class := range classes {
		if seen, err = s.pathWants(ctx, at.ServedBy(class)); err != nil {
			return seen, err
		}
		if !seen.Wants {
			continue
		}
		var instead *v1beta1.EdgeClaim
		if instead, err = s.view.Claim(ctx, at.ServedBy(class).Name()); err != nil || class == "" || s.olderReplicas ||
			instead == nil || claim.HolderOf(instead).Key() != s.holder.Key() {
			return seen, err
		}
		seen.Wants = false
	}
	return seen, err
}

// ingressClasses are those for which the holder has hosts and paths: what its Ingress serves, and what its annotation asks for.
func (s *holderReading) ingressClasses(ctx context.Context) (classes []string, err error) {
	if s.ingress != nil {
		classes = append(classes, exposure.ClassOf(s.ingress))
	}
	if s.service != nil {
		defaults, err := s.view.Ingresses.DefaultsBeside(ctx, s.ingress)
		if err != nil {
			return nil, err
		}
		_, requests := exposure.Annotation(s.service)
		if e, problems := exposure.RequestOf(s.service, defaults); requests && len(problems) == 0 {
			classes = append(classes, e.Class)
		}
	}
	if len(classes) == 0 {
		return []string{""}, nil
	}
	return slices.Compact(classes), nil
}

// pathWants says whether the holder is there, and wants a host or path of just its class.
//
// A Service wants what its annotation asks for, and what the Ingress of its name still serves, whatever is marked on that:
// nobody else gets a path while a proxy still sends it there.
func (s *holderReading) pathWants(ctx context.Context, at claim.Coordinate) (claim.HolderState, error) {
	if !s.holder.IsService() {
		if s.ingress == nil {
			return claim.HolderState{}, nil
		}
		entered, err := s.isEntered(ctx, at)
		seen := claim.HolderState{Exists: true, UID: s.ingress.UID, Generation: s.ingress.Generation, Wants: entered}
		if !entered && !at.IsHost() && exposure.Serves(s.ingress, at) {
			// A path of one that has many, promised when it was written: until all replicas see that it is served, the claim alone
			// keeps others from it. So no version of the Ingress settles it, but the grace.
			seen.Generation = 0
		}
		return seen, err
	}
	serves := s.ingress != nil && exposure.Serves(s.ingress, at)
	if s.service == nil {
		return claim.HolderState{Exists: serves, Wants: serves}, nil
	}
	defaults, err := s.view.Ingresses.DefaultsBeside(ctx, s.ingress)
	return claim.HolderState{
		Exists: true, UID: s.service.UID, Generation: claim.Version(s.service.ResourceVersion),
		Wants: serves || exposure.Wants(s.service, defaults, at),
	}, err
}

// httpAsks says whether a Service or an Ingress is stored that asks for a path which is handed over to it: a Service by its annotation,
// whatever an Ingress of its name serves, and an Ingress, where they are guarded, by its rules.
func (s *holderReading) httpAsks(ctx context.Context, at claim.Coordinate) (seen claim.HolderState, err error) {
	switch {
	case s.holder.IsService() && s.service != nil:
		defaults, err := s.view.Ingresses.DefaultsBeside(ctx, s.ingress)
		return claim.HolderState{
			Exists: true, UID: s.service.UID, Generation: claim.Version(s.service.ResourceVersion), Wants: exposure.Asks(s.service, defaults, at),
		}, err
	case s.holder.IsIngress() && s.ingress != nil:
		asks := s.view.Hosts.Guarded.Guards(guard.Ingress) && s.ingress.DeletionTimestamp == nil && exposure.Serves(s.ingress, at)
		return claim.HolderState{Exists: true, UID: s.ingress.UID, Generation: s.ingress.Generation, Wants: asks}, nil
	default:
		return seen, nil
	}
}

// isEntered says whether the ledger has what an Ingress serves under a point. Where its paths have become many, or few, the
// claims of before stay until it has all those that take their place: a claim of somebody else takes nobody's. A path that
// another Ingress lists, too, it has in any case: without a claim, that one would seem to be the first there.
func (s *holderReading) isEntered(ctx context.Context, at claim.Coordinate) (bool, error) {
	if _, entered := slices.BinarySearchFunc(s.entries, at, claim.Compare); entered || !exposure.Serves(s.ingress, at) {
		return entered, nil
	}
	onHost, _ := slices.BinarySearchFunc(s.entries, claim.HostOf(at), claim.Compare)
	for _, entry := range s.entries[onHost:] {
		if entry.Host() != at.Host() {
			break
		}
		if c, err := s.view.Claim(ctx, entry.Name()); err != nil || c == nil || claim.HolderOf(c) != s.holder {
			return true, err
		}
	}
	if at.IsHost() {
		return false, nil
	}
	beside, err := s.view.Ingresses.EnteredAt(ctx, at)
	return len(beside) > 0, err
}

// enqueueReplaced asks for a look at the claims of others of which a new one on a host or path may take the place.
func (r *claimReconciler) enqueueReplaced(ctx context.Context, q claimQueue, at claim.Coordinate) {
	if !at.IsHost() {
		if c, err := r.View.Claim(ctx, claim.HostOf(at).Name()); err == nil && c != nil {
			q.Add(claimRequest{Holder: claim.HolderOf(c)})
		}
		return
	}
	large, err := r.View.Ingresses.At(ctx, at)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the Ingresses of a host", "host", at.Host())
	}
	for i := range large {
		q.Add(claimRequest{Holder: claim.IngressHolder(large[i].Namespace, large[i].Name)})
	}
}

// onIngress looks at the claims of an Ingress, at those of the Service of its name, and at those of others on paths that it lists no
// longer: an Ingress with many paths may have had one for its sake.
func (r *claimReconciler) onIngress() handler.TypedEventHandler[client.Object, claimRequest] {
	look := func(q claimQueue, obj client.Object, gone types.UID) {
		q.Add(claimRequest{Holder: claim.IngressHolder(obj.GetNamespace(), obj.GetName()), Gone: gone})
		q.Add(claimRequest{Holder: claim.ServiceHolder(obj.GetNamespace(), obj.GetName())})
	}
	lookBeside := func(ctx context.Context, q claimQueue, before, now client.Object) {
		stays := sets.New(r.entriesOf(now)...)
		for _, at := range r.entriesOf(before) {
			if at.IsHost() || stays.Has(at) {
				continue
			}
			if c, err := r.View.Claim(ctx, at.Name()); err == nil && c != nil {
				q.Add(claimRequest{Holder: claim.HolderOf(c)})
			}
		}
	}
	changed := servingChanged()
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q claimQueue) { r.enqueueInheriting(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) {
			if changed.Update(e) {
				look(q, e.ObjectNew, goneBy(e))
				lookBeside(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			look(q, e.Object, e.Object.GetUID())
			lookBeside(ctx, q, e.Object, &networkingv1.Ingress{})
		},
	}
}

// enqueueInheriting asks for a look at what others have handed over to an Ingress that is stored now, if there is any.
func (r *claimReconciler) enqueueInheriting(ctx context.Context, q claimQueue, ingress client.Object) {
	holder := claim.IngressHolder(ingress.GetNamespace(), ingress.GetName())
	claims, err := r.View.Claims.ToInherit(ctx, holder)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list what an Ingress inherits", "ingress", holder.Key())
	}
	if len(claims) > 0 {
		q.Add(claimRequest{Holder: holder})
	}
}

// entriesOf are the points under which the ledger has what an Ingress serves.
func (r *claimReconciler) entriesOf(ingress client.Object) []claim.Coordinate {
	return exposure.EntriesOf(ingress.(*networkingv1.Ingress), r.View.Ingresses.MaxHTTPPoints)
}
