package ingresses

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// The Ingress and the Certificate of a Service are the Service's alone, and one that is somebody else's must never be
// written to. Server-side apply can't promise that: it has no way to say "only if there is none". So they are created,
// which fails when there is one, and changed on the version that was judged to be ours. A merge patch also takes away
// what others have added to the spec, which an apply would leave.

// realize writes what differs from what the Service asks for. The problems are those that the API server has with it.
func (r *ingressReconciler) realize(ctx context.Context, svc *corev1.Service, w wish) (refusal.Problems, error) {
	if w.hasNothing() {
		if problems, err := r.removeGiven(ctx, svc); err != nil || len(problems) > 0 {
			return problems, err
		}
		return nil, r.removeCertificate(ctx, client.ObjectKeyFromObject(svc), svc)
	}
	err := r.writeIngress(ctx, svc, w)
	if err == nil {
		err = r.writeCertificate(ctx, svc, w)
	}
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, write.ErrStale), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return nil, write.ErrStale
	case write.IsRefusal(err) && !apierrors.IsNotFound(err):
		return refusal.Problems{{Reason: v1beta1.ReasonIngressRefused,
			Err: field.Invalid(exposure.AnnotationPath(), w.String(), err.Error())}}, nil
	default:
		return nil, err
	}
}

func (r *ingressReconciler) writeIngress(ctx context.Context, svc *corev1.Service, w wish) error {
	existing, err := r.View.Ingresses.Get(ctx, client.ObjectKeyFromObject(svc))
	if err != nil {
		return err
	}
	want := w.spec(svc)
	if existing == nil {
		ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}, Spec: want}
		exposure.Mark(ing, svc)
		if err := write.Create(ctx, r.Writer, ing); err != nil {
			return fmt.Errorf("creating the Ingress: %w", err)
		}
		return nil
	}
	if existing.DeletionTimestamp != nil {
		return nil // its end will be seen
	}
	if w.Class == "" && exposure.ClassOf(existing) != "" {
		return write.ErrStale // for no class it was judged
	}
	if equality.Semantic.DeepEqual(existing.Spec, want) && exposure.ClassOf(existing) == w.Class && exposure.IsMarked(existing, svc) {
		return nil
	}
	whole := &networkingv1.Ingress{}
	if err := r.readWhole(ctx, existing, whole); err != nil {
		return err
	}
	next := whole.DeepCopy()
	next.Spec = want
	delete(next.Annotations, v1beta1.AnnotationIngressClass) // which would say another class
	exposure.Mark(next, svc)
	if err := write.Change(ctx, r.Writer, whole, next); err != nil {
		return fmt.Errorf("changing the Ingress: %w", err)
	}
	r.announce(svc, corev1.EventTypeNormal, v1beta1.ReasonIngressUpdated, "the Ingress was set to what the annotation says: "+w.String())
	return nil
}

// writeCertificate keeps the Certificate of an issuer, and deletes it when there is no issuer any more.
func (r *ingressReconciler) writeCertificate(ctx context.Context, svc *corev1.Service, w wish) error {
	key := client.ObjectKeyFromObject(svc)
	if w.Issuer.IsZero() {
		return r.removeCertificate(ctx, key, svc)
	}
	existing, err := r.View.Ingresses.Certificate(ctx, key)
	if err != nil {
		return err
	}
	if existing == nil {
		cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
		w.certified().FillCertificate(&cert.Spec)
		exposure.Mark(cert, svc)
		if err := write.Create(ctx, r.Writer, cert); err != nil {
			return fmt.Errorf("creating the Certificate: %w", err)
		}
		return nil
	}
	seen := existing.DeepCopy()
	w.certified().FillCertificate(&seen.Spec)
	if existing.DeletionTimestamp != nil || equality.Semantic.DeepEqual(existing.Spec, seen.Spec) && exposure.IsMarked(existing, svc) {
		return nil
	}
	whole := &cmv1.Certificate{}
	if err := r.readWhole(ctx, existing, whole); err != nil {
		return err
	}
	next := whole.DeepCopy()
	w.certified().FillCertificate(&next.Spec)
	exposure.Mark(next, svc)
	if err := write.Change(ctx, r.Writer, whole, next); err != nil {
		return fmt.Errorf("changing the Certificate: %w", err)
	}
	return nil
}

// readWhole reads an object live that is to be changed: the cache leaves out what a change must not. It has to be the version
// that was judged.
func (r *ingressReconciler) readWhole(ctx context.Context, seen, whole client.Object) error {
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen), whole); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if whole.GetUID() != seen.GetUID() || whole.GetResourceVersion() != seen.GetResourceVersion() {
		return write.ErrStale
	}
	return nil
}

// removeGiven deletes the Ingress of a Service that is to have nothing, unless it serves what nobody else has.
func (r *ingressReconciler) removeGiven(ctx context.Context, svc *corev1.Service) (refusal.Problems, error) {
	ing, err := r.View.Ingresses.Get(ctx, client.ObjectKeyFromObject(svc)) // before it is judged: one that has changed since stays
	if err != nil {
		return nil, err
	}
	if problems, err := r.keeps(ctx, svc); err != nil || len(problems) > 0 {
		return problems, err
	}
	err = r.removeIngress(ctx, ing, svc, "what the annotation says is handed over, and the Ingress is gone", write.RemoveUnchanged)
	if apierrors.IsConflict(err) {
		return nil, write.ErrStale
	}
	return nil, err
}

// withdraw deletes what was made for a Service that no longer asks for it, or is gone (svc is nil).
func (r *ingressReconciler) withdraw(ctx context.Context, key types.NamespacedName, svc *corev1.Service) error {
	r.reported.Forget(key)
	r.handing.forget(key)
	ing, err := r.View.Ingresses.Get(ctx, key)
	if err != nil {
		return err
	}
	if err := r.removeIngress(ctx, ing, svc, "the annotation is gone, and so is the Ingress", write.Remove); err != nil {
		return err
	}
	return r.removeCertificate(ctx, key, svc)
}

// removeIngress deletes the Ingress (nil for none) that was made for a Service (nil if it is gone), and tells it so.
func (r *ingressReconciler) removeIngress(
	ctx context.Context, ing *networkingv1.Ingress, svc *corev1.Service, message string,
	remove func(context.Context, client.Client, client.Object) error,
) error {
	if ing == nil || ing.DeletionTimestamp != nil || !wasMade(ing, svc) {
		return nil
	}
	if err := remove(ctx, r.Writer, ing); err != nil {
		return fmt.Errorf("deleting the Ingress: %w", err)
	}
	if svc != nil && svc.DeletionTimestamp == nil {
		r.announce(svc, corev1.EventTypeNormal, v1beta1.ReasonIngressDeleted, message)
	}
	return nil
}

// removeCertificate deletes the Certificate that was made for a Service (nil if it is gone). What it has issued stays in its Secret.
func (r *ingressReconciler) removeCertificate(ctx context.Context, key types.NamespacedName, svc *corev1.Service) error {
	cert, err := r.View.Ingresses.Certificate(ctx, key)
	if err != nil || cert == nil || cert.DeletionTimestamp != nil || !wasMade(cert, svc) {
		return err
	}
	if err := write.Remove(ctx, r.Writer, cert); err != nil {
		return fmt.Errorf("deleting the Certificate: %w", err)
	}
	return nil
}

// wasMade says whether an object was made for a Service, or, where there is none (svc is nil), for one of its name.
func wasMade(obj client.Object, svc *corev1.Service) bool {
	return exposure.MadeFor(obj) != "" || svc != nil && exposure.IsOwn(obj, svc)
}
