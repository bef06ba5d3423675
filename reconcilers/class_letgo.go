package reconcilers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/cluster"
)

// letGo takes back what Portcullis has applied to ConfigMaps that bear the label of a class, but that the class no longer
// names. class is nil when it is deleted. It returns when to look again, 0 for not at all.
func (r *classReconciler) letGo(ctx context.Context, name string, class *v1beta1.StreamIngressClass) (time.Duration, error) {
	var configMaps corev1.ConfigMapList
	if err := r.view.Reader.List(ctx, &configMaps, client.MatchingLabels{v1beta1.LabelClass: name}); err != nil {
		return 0, err
	}
	var again time.Duration
	var errs []error
	for i := range configMaps.Items {
		cm := &configMaps.Items[i]
		nothing := corev1ac.ConfigMap(cm.Name, cm.Namespace).WithUID(cm.UID).WithResourceVersion(cm.ResourceVersion)
		keep, err := r.letGoOf(ctx, class, cm, nothing)
		again, errs = max(again, keep), append(errs, err)
	}
	return again, errors.Join(errs...)
}

// letGo does the same for Services.
func (r *serviceReconciler) letGo(ctx context.Context, name string, class *v1beta1.StreamIngressClass) (time.Duration, error) {
	var services corev1.ServiceList
	if err := r.view.Reader.List(ctx, &services, client.MatchingLabels{v1beta1.LabelClass: name}); err != nil {
		return 0, err
	}
	var again time.Duration
	var errs []error
	for i := range services.Items {
		svc := &services.Items[i]
		nothing := corev1ac.Service(svc.Name, svc.Namespace).WithUID(svc.UID).WithResourceVersion(svc.ResourceVersion)
		keep, err := r.letGoOf(ctx, class, svc, nothing)
		again, errs = max(again, keep), append(errs, err)
	}
	return again, errors.Join(errs...)
}

// letGoOf applies nothing at all to an object that a class does not name, and so takes back all that was applied before. It
// returns for how long that is kept, 0 for no longer.
func (b base) letGoOf(
	ctx context.Context, class *v1beta1.StreamIngressClass, obj client.Object, nothing runtime.ApplyConfiguration,
) (keep time.Duration, err error) {
	if !cluster.Applied(obj) || names(class, obj) {
		return 0, nil
	}
	if keep, err = b.mayClose(ctx, obj); err != nil || keep > 0 {
		return keep, err
	}
	err = b.writer.Apply(ctx, nothing, asOwner...)
	switch {
	case err == nil || apierrors.IsConflict(err): // in a conflict, the change of the object brings us back
		return 0, nil
	case isRefusal(err):
		log.FromContext(ctx).Info("entries or ports stay: the API server refuses to let go of them",
			"object", client.ObjectKeyFromObject(obj), "error", err.Error())
		return 0, nil
	default:
		return 0, fmt.Errorf("letting go of %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
}

// names says whether a class names an object as its ConfigMap or Service.
func names(class *v1beta1.StreamIngressClass, obj client.Object) bool {
	if class == nil {
		return false
	}
	refs := []*v1beta1.ObjectReference{class.Spec.TCPConfigMap, class.Spec.UDPConfigMap}
	if _, isService := obj.(*corev1.Service); isService {
		refs = []*v1beta1.ObjectReference{class.Spec.Service}
	}
	return slices.ContainsFunc(refs, func(ref *v1beta1.ObjectReference) bool {
		return ref != nil && ref.Namespace == obj.GetNamespace() && ref.Name == obj.GetName()
	})
}
