package streams

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// streamReconciler answers each StreamIngress in its status, claims for those that got past admission, and keeps the
// Service of an outside upstream.
type streamReconciler struct {
	base
}

func setupStream(mgr manager.Manager, b base) error {
	r := &streamReconciler{base: b}
	return b.onUpstreams(mgr, builder.ControllerManagedBy(mgr).Named("streamingress"), r.themselves, r.streamsAbroad).
		For(&v1beta1.StreamIngress{}, builder.WithPredicates(verdictChanged())).
		Owns(&corev1.Service{}).
		Owns(&discoveryv1.EndpointSlice{}).
		Watches(&v1beta1.EdgeClaim{}, r.onClaim()).
		// Who is named may have asked for the port before.
		Watches(&v1beta1.StreamIngress{}, handler.EnqueueRequestsFromMapFunc(namedHeir), builder.WithPredicates(heirChanged())).
		Watches(&v1beta1.StreamIngressClass{}, handler.EnqueueRequestsFromMapFunc(r.streamsOfClass),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(watch.OnTarget[*corev1.ConfigMap](b.View, r.onConfigMap())).
		WatchesRawSource(watch.OnTarget[*corev1.Service](b.View, r.onFront())).
		// Which endpoints are left out is told by the status of a stream of any class.
		WatchesRawSource(b.onEndpoints(r.themselves)).
		WatchesRawSource(b.onPods(mgr, r.themselves)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.streamOfService), builder.WithPredicates(only(isForwarded))).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.streamOfMirror),
			builder.WithPredicates(only(kube.IsMirror))).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.streamsIn),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.ListenerSet{}, r.onListenerSet())).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.TCPRoute{}, handler.EnqueueRequestsFromMapFunc(r.streamOfRoute))).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.UDPRoute{}, handler.EnqueueRequestsFromMapFunc(r.streamOfRoute))).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.Gateway{}, r.onGateway())).
		WithOptions(watch.Orderly[reconcile.Request](reporters)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=streamingresses,verbs=get;list;watch
// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=streamingresses/status,verbs=patch
// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=edgeclaims,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch;create;patch;delete

// Reconcile answers one StreamIngress.
func (r *streamReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	si, err := r.View.Streams.Get(ctx, req.NamespacedName)
	if err != nil || si == nil {
		return reconcile.Result{}, err
	}
	if si.DeletionTimestamp != nil {
		return watch.Later(r.leaving(ctx, si))
	}
	v, err := r.judge(ctx, si)
	if errors.Is(err, errReading) || kube.IsUnread(err) {
		return reconcile.Result{RequeueAfter: unread}, nil
	}
	if err != nil {
		return watch.Later(err)
	}
	if wait := v.patience(si, time.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.move(ctx, si, v, time.Now()); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.report(ctx, si, v); err != nil {
		return watch.Later(err)
	}
	return reconcile.Result{RequeueAfter: v.again(time.Now())}, nil
}

// reporters is how many streams are looked at at once: enough to report them as fast as they are admitted, and so few
// that a busy API server has time for the writes that open their ports.
const reporters = 3

// pendingRetry is when to look again at a stream that is about to be programmed. The write is an event that brings it
// back sooner; but one cache may show the write before another shows whom it concerns.
const pendingRetry = 5 * time.Second

// judge finds out everything that the status of a stream tells.
func (r *streamReconciler) judge(ctx context.Context, si *v1beta1.StreamIngress) (*verdict, error) {
	v := &verdict{}
	var err error
	if v.class, v.refusal, err = r.classOf(ctx, si); err != nil {
		return nil, err
	}
	if len(v.refusal) == 0 {
		if v.at, v.refusal, err = r.claim(ctx, si, v.class); err != nil {
			return nil, err
		}
	}
	if v.resolved, err = r.resolve(ctx, si, v); err != nil {
		return nil, err
	}
	if len(v.refusal) > 0 {
		return v, nil
	}
	if err := r.mirror(ctx, si, v); err != nil {
		return nil, err
	}
	v.programmed, err = r.programmed(ctx, si, v)
	return v, err
}

// classOf finds the class of a stream, nil where problems say why there is none.
func (b base) classOf(ctx context.Context, si *v1beta1.StreamIngress) (*v1beta1.StreamIngressClass, refusal.Problems, error) {
	var class *v1beta1.StreamIngressClass
	problems, err := kube.Decide(ctx, b.View, func(f *kube.Facts) (problems refusal.Problems) {
		class, problems = stream.ClassOf(f, si)
		return problems
	})
	if err != nil {
		return nil, nil, err
	}
	return class, problems, nil
}

// consent is what keeps a stream from leading where it does; see stream.Consent.
func (b base) consent(ctx context.Context, si *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) (refusal.Problems, error) {
	return kube.Decide(ctx, b.View, func(f *kube.Facts) refusal.Problems { return stream.Consent(f, si, class) })
}

// frontOf is what is in front of the proxy of a class, nil where that shares nothing.
func (b base) frontOf(ctx context.Context, class *v1beta1.StreamIngressClass) (*stream.Front, error) {
	return kube.Decide(ctx, b.View, func(f *kube.Facts) *stream.Front { return stream.FrontOf(f, class) })
}

// resolve says what is wrong with the upstream of a stream. What is outside is written only with leave of the class, and for a stream
// that has a door, and goes when it has no leave or no door any longer. While there is no class, all stays as it is.
func (r *streamReconciler) resolve(ctx context.Context, si *v1beta1.StreamIngress, v *verdict) (refusal.Problems, error) {
	if v.class != nil {
		if problems, err := r.written(ctx, si, v); err != nil || len(problems) > 0 {
			return problems, err
		}
	}
	return kube.Decide(ctx, r.View, func(f *kube.Facts) refusal.Problems { return stream.Upstream(f, si) })
}

// written sees to what a stream has outside, and says what keeps it from leading there.
func (r *streamReconciler) written(ctx context.Context, si *v1beta1.StreamIngress, v *verdict) (refusal.Problems, error) {
	problems, err := r.consent(ctx, si, v.class)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		if si.Outside() {
			err = r.dropUnless(ctx, si, false)
		}
		return problems, err
	}
	has, err := r.hasDoor(ctx, si, v)
	switch {
	case err != nil:
		return nil, err
	case has:
		return r.outside(ctx, si)
	default:
		// One that has handed its port over keeps what it has: the proxy may lead there until it is told of the heir.
		return nil, r.dropUnless(ctx, si, si.Outside() && v.refusal[0].Reason == v1beta1.ReasonHandedOver)
	}
}

// hasDoor says whether a stream has a point: the one that it asks for, or, while it moves, the one that it had in another class. Nothing
// else bounds how many streams a namespace has, so that those without one get nothing written.
func (r *streamReconciler) hasDoor(ctx context.Context, si *v1beta1.StreamIngress, v *verdict) (bool, error) {
	if len(v.refusal) == 0 {
		return true, nil
	}
	held, err := r.View.Claims.Held(ctx, claim.StreamHolder(si.Namespace, si.Name))
	if err != nil {
		return false, err
	}
	return !stream.Former(si, held).IsZero(), nil
}

// claim makes sure that a stream holds the point it asks for. One that holds it already is not judged again.
func (r *streamReconciler) claim(
	ctx context.Context, si *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass,
) (claim.Coordinate, refusal.Problems, error) {
	holder := claim.StreamHolder(si.Namespace, si.Name)
	held, err := r.View.Claims.Held(ctx, holder)
	if err != nil {
		return claim.Coordinate{}, nil, err
	}
	at := stream.Wanted(si, class.Name, held)
	if slices.Contains(held, at) {
		return at, nil, nil
	}
	return r.acquire(ctx, si, class, claim.Claimant{Holder: holder, UID: si.UID, Generation: si.Generation})
}
