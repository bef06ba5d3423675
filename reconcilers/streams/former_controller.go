package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// formerReconciler takes back what Portcullis has applied to ConfigMaps and Services that bear the label of a class, but that
// no class names any longer. The unit of work is the object, not the class: a tenant can write the label, and our name as a
// field manager, on objects of its own, and then nothing but these is looked at.
type formerReconciler struct {
	base
}

// formerRequest asks for a look at a ConfigMap, or at a Service.
type formerRequest struct {
	Service bool
	types.NamespacedName
}

func setupFormer(mgr manager.Manager, b base) error {
	r := &formerReconciler{base: b}
	look := handler.TypedEnqueueRequestsFromMapFunc(requestForFormer)
	logger := mgr.GetLogger().WithValues("controller", "formertarget")
	return builder.TypedControllerManagedBy[formerRequest](mgr).Named("formertarget").
		Watches(kube.ConfigMapObject(), look, builder.OnlyMetadata).
		Watches(&corev1.Service{}, look).
		Watches(&v1beta1.StreamIngressClass{}, handler.TypedEnqueueRequestsFromMapFunc(r.labeled),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(watch.Orderly[formerRequest](1)).
		WithLogConstructor(func(req *formerRequest) logr.Logger {
			if req == nil {
				return logger
			}
			return logger.WithValues("object", req.NamespacedName, "isService", req.Service)
		}).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// requestForFormer asks for a look at an object that may be one to let go of: anybody can have made it look so.
func requestForFormer(_ context.Context, obj client.Object) []formerRequest {
	if obj.GetLabels()[v1beta1.LabelClass] == "" || !kube.Applied(obj) {
		return nil
	}
	svc, isService := obj.(*corev1.Service)
	if isService && kube.IsForwarded(svc) {
		return nil // it is a stream's, and no class names it
	}
	return []formerRequest{{isService, client.ObjectKeyFromObject(obj)}}
}

// labeled finds the objects that bear the label of a class.
func (r *formerReconciler) labeled(ctx context.Context, class client.Object) []formerRequest {
	configMaps := &metav1.PartialObjectMetadataList{}
	configMaps.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	services := &corev1.ServiceList{}
	var requests []formerRequest
	for _, list := range []client.ObjectList{configMaps, services} {
		err := r.View.Reader.List(ctx, list, client.MatchingLabels{v1beta1.LabelClass: class.GetName()})
		if err == nil {
			err = meta.EachListItem(list, func(obj runtime.Object) error {
				requests = append(requests, requestForFormer(ctx, obj.(client.Object))...)
				return nil
			})
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list what bears the label of a class")
		}
	}
	return requests
}

// Reconcile lets go of one object, if no class names it.
func (r *formerReconciler) Reconcile(ctx context.Context, req formerRequest) (reconcile.Result, error) {
	var obj client.Object = kube.ConfigMapObject()
	if req.Service {
		obj = &corev1.Service{}
	}
	if err := r.View.Reader.Get(ctx, req.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if len(requestForFormer(ctx, obj)) == 0 || len(r.naming(ctx, obj)) > 0 {
		return reconcile.Result{}, nil
	}
	if pause, err := r.awaitsClass(ctx, obj); err != nil || pause > 0 {
		return reconcile.Result{RequeueAfter: pause}, err
	}
	keep, err := r.mayClose(ctx, obj)
	if err != nil || keep > 0 {
		return reconcile.Result{RequeueAfter: keep}, err
	}
	return watch.Later(r.withdraw(ctx, obj))
}

// formerRetry is how long an object is kept until it is looked again whether its class is done with it.
const formerRetry = time.Second

// awaitsClass says for how long an object is to be kept as its class is not done yet: what the class names now is to be
// open before this is closed, and entries of somebody else that streams had taken over, which are written back to a
// ConfigMap, must never be missing. It is 0 when the class is done.
func (r *formerReconciler) awaitsClass(ctx context.Context, obj client.Object) (time.Duration, error) {
	name := obj.GetLabels()[v1beta1.LabelClass]
	class, err := r.View.Class(ctx, name)
	if err != nil {
		return 0, err
	}
	if class != nil {
		accepted := meta.FindStatusCondition(class.Status.Conditions, v1beta1.ConditionAccepted)
		if accepted == nil || accepted.Status != metav1.ConditionTrue || accepted.ObservedGeneration != class.Generation {
			return formerRetry, nil
		}
	}
	claims, err := r.View.Claims.OfClass(ctx, name)
	here := claim.ConfigMapHolder(obj.GetNamespace(), obj.GetName())
	for _, c := range claims {
		if adopted, in, left := claim.Adopted(c); adopted != nil && in == here && (left || adopted.Replaced) {
			return watch.CacheLag, err
		}
	}
	return 0, err
}

// withdraw applies nothing at all to an object, and so takes back all that was applied before.
func (r *formerReconciler) withdraw(ctx context.Context, obj client.Object) error {
	var nothing runtime.ApplyConfiguration
	if _, isService := obj.(*corev1.Service); isService {
		nothing = corev1ac.Service(obj.GetName(), obj.GetNamespace()).WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion())
	} else {
		nothing = corev1ac.ConfigMap(obj.GetName(), obj.GetNamespace()).WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion())
	}
	err := r.Writer.Apply(ctx, nothing, write.AsOwner...)
	switch {
	case err == nil || apierrors.IsConflict(err):
		return err
	case write.IsRefusal(err):
		log.FromContext(ctx).Info("entries or ports stay: the API server refuses to let go of them", "error", err.Error())
		return nil
	default:
		return fmt.Errorf("letting go of %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
}
