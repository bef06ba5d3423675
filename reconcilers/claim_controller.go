package reconcilers

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/cluster"
	"jeffthecoder.xyz/portcullis/internal/rules"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// claimReconciler releases claims whose holder is gone or wants another point.
type claimReconciler struct {
	base
}

// claimRequest asks for a look at a claim.
type claimRequest struct {
	Name string
	// Gone is the UID of its holder, if that was seen to be deleted. A request without it loses nothing but time: the
	// claim then waits out its grace.
	Gone types.UID
}

type claimQueue = workqueue.TypedRateLimitingInterface[claimRequest]

func setupClaim(mgr manager.Manager, b base) error {
	r := &claimReconciler{base: b}
	logger := mgr.GetLogger().WithValues("controller", "edgeclaim")
	return builder.TypedControllerManagedBy[claimRequest](mgr).Named("edgeclaim").
		Watches(&v1beta1.EdgeClaim{}, r.onClaim()).
		Watches(&v1beta1.StreamIngress{}, r.onStream()).
		Watches(&v1beta1.StreamIngressClass{}, r.onClass()).
		Watches(&corev1.ConfigMap{}, r.onTarget(claim.ConfigMapHolder)).
		Watches(&corev1.Service{}, r.onTarget(claim.ServiceHolder)).
		Watches(&networkingv1.Ingress{}, r.onIngress()).
		WithOptions(controller.TypedOptions[claimRequest]{MaxConcurrentReconciles: 8, RateLimiter: backOff[claimRequest]()}).
		WithLogConstructor(func(req *claimRequest) logr.Logger {
			if req == nil {
				return logger
			}
			return logger.WithValues("claim", req.Name)
		}).
		Complete(installed(b, r))
}

// settling is how long a new claim is left alone: its holder is about to be stored, and then nothing has to be done.
const settling = 5 * time.Second

// Reconcile releases one claim, if it is to be released.
func (r *claimReconciler) Reconcile(ctx context.Context, req claimRequest) (reconcile.Result, error) {
	c, err := r.view.Claim(ctx, req.Name)
	if err != nil || c == nil {
		return reconcile.Result{}, err
	}
	defer r.awaitTurn(c)()
	wanted, err := r.wants(ctx, r.view.Reader, c)
	if err != nil || wanted.Wants {
		return reconcile.Result{}, err
	}
	if req.Gone == "" && r.view.Departed(c.Spec.Holder.UID) {
		req.Gone = c.Spec.Holder.UID
	}
	settle := min(settling, r.ledger.Grace)
	if req.Gone == "" && !wanted.Exists && r.ledger.GraceLeft(c) > r.ledger.Grace-settle {
		return reconcile.Result{RequeueAfter: settle}, nil
	}
	look := func(ctx context.Context, c *v1beta1.EdgeClaim) (claim.Sighting, error) {
		return r.wants(ctx, r.live, c)
	}
	keep, released, err := r.ledger.Release(ctx, req.Name, look, req.Gone)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: settling}, nil // it was renewed meanwhile
	}
	if released {
		r.recent.remove(coordinateOf(c))
		log.FromContext(ctx).V(1).Info("released", "holder", c.Spec.HeldBy)
	}
	return reconcile.Result{RequeueAfter: keep}, err
}

// wants looks whether the holder of a claim is there, and wants its point. The holder is read by reader.
func (r *claimReconciler) wants(ctx context.Context, reader client.Reader, c *v1beta1.EdgeClaim) (claim.Sighting, error) {
	at, err := claim.Of(c)
	if err != nil {
		return claim.Sighting{Exists: true, Wants: true}, nil //nolint:nilerr // not ours to judge
	}
	holder := claim.HolderOf(c)
	switch {
	case at.IsHTTP():
		return r.httpWants(ctx, reader, at, holder)
	case !at.IsStream():
		return r.loadBalancerWants(ctx, reader, at, holder)
	case !holder.IsStream():
		return r.foreignWants(ctx, c, at, holder)
	}
	si := &v1beta1.StreamIngress{}
	if found, err := r.read(ctx, reader, holder.Key(), si); !found {
		return claim.Sighting{}, err
	}
	seen := claim.Sighting{Exists: true, UID: si.UID, Generation: si.Generation}
	if class := cluster.ClassName(si); class != "" && class != at.Class() {
		return seen, nil
	}
	held, err := r.view.Held(ctx, holder)
	if err != nil {
		return seen, err
	}
	seen.Wants = rules.Wanted(si, at.Class(), append(held, at)) == at
	return seen, nil
}

// foreignWants looks whether a ConfigMap or a Service still has a foreign entry or port at a point. What is foreign has
// not come through admission, so that there is nothing in flight to wait for. An object that is not there while its class
// names it keeps what it had: it is about to be made again, and its ports are not whose is fastest.
func (r *claimReconciler) foreignWants(
	ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate, holder claim.Holder,
) (claim.Sighting, error) {
	if _, _, left := claim.Adopted(c); left {
		return claim.Sighting{Exists: true, Wants: true}, nil // until the entry is settled
	}
	class, err := r.view.Class(ctx, at.Class())
	if err != nil || class == nil {
		return claim.Sighting{}, err
	}
	absent, err := r.isAbsent(ctx, class, at.Protocol(), c)
	if err != nil || absent {
		return claim.Sighting{Exists: absent, Wants: absent}, err
	}
	f, foreign, err := r.view.Foreign(ctx, class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()})
	if err != nil || !foreign {
		return claim.Sighting{}, err
	}
	return claim.Sighting{Exists: true, UID: f.Holder.UID, Wants: f.Holder.Holder == holder}, nil
}

// isAbsent says whether a class names the ConfigMap or Service that holds a claim, and it does not exist. Nor does a ConfigMap
// that only Portcullis has written since it was deleted.
func (r *claimReconciler) isAbsent(
	ctx context.Context, class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, c *v1beta1.EdgeClaim,
) (bool, error) {
	holder := claim.HolderOf(c)
	if ref := class.ConfigMap(protocol); ref != nil && claim.ConfigMapHolder(ref.Namespace, ref.Name) == holder {
		cm, err := r.view.ConfigMap(ctx, *ref)
		return err == nil && (cm == nil || cm.UID != c.Spec.Holder.UID && stream.AppliedAlone(cm)), err
	}
	if ref := class.Spec.Service; ref != nil && claim.ServiceHolder(ref.Namespace, ref.Name) == holder {
		svc, err := r.view.Service(ctx, holder.Key())
		return err == nil && svc == nil, err
	}
	return false, nil
}

// enqueue asks for a look at every claim of a holder.
func (r *claimReconciler) enqueue(ctx context.Context, q claimQueue, holder claim.Holder, gone types.UID) {
	held, err := r.view.Held(ctx, holder)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the claims of a holder", "holder", holder.String())
	}
	for _, at := range held {
		q.Add(claimRequest{Name: at.Name(), Gone: gone})
	}
}

// onClaim looks at a new or changed claim, and at the others of its holder: it may be one too many. Of one on a port that is
// gone it looks at those that the port took of the Service in front of the proxy.
func (r *claimReconciler) onClaim() handler.TypedEventHandler[client.Object, claimRequest] {
	look := func(ctx context.Context, q claimQueue, obj client.Object) {
		q.Add(claimRequest{Name: obj.GetName()})
		if holder := claim.HolderOf(obj.(*v1beta1.EdgeClaim)); holder.IsStream() || isBalancers(obj.(*v1beta1.EdgeClaim)) {
			r.enqueue(ctx, q, holder, "")
		}
	}
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q claimQueue) { look(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) { look(ctx, q, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			if at := coordinateOf(e.Object.(*v1beta1.EdgeClaim)); at.IsStream() {
				r.enqueueFront(ctx, q, at)
			}
		},
	}
}

func (r *claimReconciler) onStream() handler.TypedEventHandler[client.Object, claimRequest] {
	changed := streamChanged()
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q claimQueue) {
			r.enqueue(ctx, q, claim.StreamHolder(e.Object.GetNamespace(), e.Object.GetName()), "")
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) {
			if changed.Update(e) {
				r.enqueue(ctx, q, claim.StreamHolder(e.ObjectNew.GetNamespace(), e.ObjectNew.GetName()), goneBy(e))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			r.enqueue(ctx, q, claim.StreamHolder(e.Object.GetNamespace(), e.Object.GetName()), e.Object.GetUID())
		},
	}
}

// goneBy is the UID of an object that was deleted and re-created between two looks of the cache.
func goneBy(e event.UpdateEvent) types.UID {
	if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
		return e.ObjectOld.GetUID()
	}
	return ""
}

// onClass looks at what was foreign on the proxy of a class that changed.
func (r *claimReconciler) onClass() handler.TypedEventHandler[client.Object, claimRequest] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []claimRequest {
		claims, err := r.view.Claims(ctx, obj.GetName())
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the claims of a class")
		}
		var requests []claimRequest
		for at, c := range claims {
			if !claim.HolderOf(c).IsStream() {
				requests = append(requests, claimRequest{Name: at.Name()})
			}
		}
		return requests
	})
}

func (r *claimReconciler) onTarget(
	holder func(namespace, name string) claim.Holder,
) handler.TypedEventHandler[client.Object, claimRequest] {
	look := func(ctx context.Context, q claimQueue, obj client.Object, gone types.UID) {
		r.enqueue(ctx, q, holder(obj.GetNamespace(), obj.GetName()), gone)
	}
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q claimQueue) { look(ctx, q, e.Object, "") },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) { look(ctx, q, e.ObjectNew, goneBy(e)) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			look(ctx, q, e.Object, e.Object.GetUID())
		},
	}
}
