package ingresses

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// What a Service has handed over its Ingress keeps until that of the heir serves it, so that no moment is without either: of two Ingresses
// with one path a proxy serves the older one. That is for heirPatience at most, as the path is the heir's by then, and one whose Ingress
// can't be written waits for the other one to go: an admission of the proxy's, for example, that lets no two have one path.
//
// One that gets its certificate by cert-manager is waited for until it has it, for issuerPatience at most: without, the proxy would answer
// with a certificate of its own.
const (
	issuerPatience = time.Minute
	// heirShown is how often is looked whether the Ingress of an heir is there.
	heirShown = 2 * watch.CacheLag
	// mostConfirmed is for how many points the claim is read past the cache in one look at a Service. The others have to wait for the next.
	mostConfirmed = 16
	// heirRetry is how often an heir tries again to write its Ingress, that long, while another one serves what it asks for.
	heirRetry = time.Second
)

// ripe are those of the points that a Service has lost which its Ingress is to lose now; waits says that there are others. What the cache
// says is not enough to take a path off an Ingress: the claim may be the Service's again, or not be shown yet. Then the cache lags.
func (r *ingressReconciler) ripe(
	ctx context.Context, svc *corev1.Service, lost []claim.Coordinate,
) (now []claim.Coordinate, waits bool, err error) {
	key := client.ObjectKeyFromObject(svc)
	own, err := r.View.Ingresses.Get(ctx, key)
	if err != nil {
		return nil, false, err
	}
	awaited := map[claim.Coordinate]time.Duration{}
	for _, at := range lost {
		if own == nil || !exposure.Serves(own, at) {
			continue
		}
		patience, err := r.patienceFor(ctx, at)
		if err != nil {
			return nil, false, err
		}
		if patience > 0 {
			awaited[at] = patience
		}
	}
	left := r.handing.wait(r.handing.heirs, key, r.Ledger.Clock.Now(), awaited)
	confirmed := 0
	for _, at := range exposure.But(lost, left) {
		if own != nil && exposure.Serves(own, at) {
			if confirmed == mostConfirmed {
				left = append(left, at)
				continue
			}
			confirmed++
			if err := r.confirmLost(ctx, svc, at); err != nil {
				return nil, false, err
			}
		}
		now = append(now, at)
	}
	return now, len(left) > 0, nil
}

// patienceFor is how long the Service that has a point now may take until it serves it, with the certificate that it asks for; 0 where it
// does already, or never will.
func (r *ingressReconciler) patienceFor(ctx context.Context, at claim.Coordinate) (time.Duration, error) {
	c, err := r.View.Claim(ctx, at.Name())
	if err != nil || c == nil {
		return 0, err
	}
	holder := claim.HolderOf(c)
	if !holder.IsService() || r.handing.isRefused(holder.Key()) {
		return 0, nil
	}
	ing, err := r.View.Ingresses.Get(ctx, holder.Key())
	if err != nil || ing == nil || !exposure.Serves(ing, at) {
		return r.heirPatience, err
	}
	cert, err := r.View.Ingresses.Certificate(ctx, holder.Key())
	if err != nil {
		return 0, err
	}
	isIssued, err := r.isIssued(ctx, holder.Key(), cert)
	if err != nil || isIssued {
		return 0, err
	}
	return issuerPatience, nil
}

// isIssued says whether a Service has the certificate that it asks cert-manager for, if it does.
func (r *ingressReconciler) isIssued(ctx context.Context, key types.NamespacedName, cert *cmv1.Certificate) (bool, error) {
	svc, err := r.View.Service(ctx, key)
	if err != nil || svc == nil {
		return true, err
	}
	defaults, err := r.View.Ingresses.DefaultsOf(ctx, key)
	if err != nil {
		return false, err
	}
	e, problems := exposure.RequestOf(svc, defaults)
	if len(problems) > 0 || e.Issuer.IsZero() {
		return true, nil
	}
	if cert == nil || !exposure.IsOwn(cert, svc) {
		return false, nil
	}
	isReady, _ := readiness(cert)
	return isReady, nil
}

// confirmLost is write.ErrStale unless somebody else has a point by now.
func (r *ingressReconciler) confirmLost(ctx context.Context, svc *corev1.Service, at claim.Coordinate) error {
	held, err := r.Ledger.Store.Get(ctx, at.Name())
	switch {
	case err == nil && !exposure.IsOf(held, svc):
		return nil
	case err == nil || apierrors.IsNotFound(err):
		return write.ErrStale
	default:
		return err
	}
}

// confirmWithheld is write.ErrStale if a Service has a point that it is not to ask for, as nobody has it: it was just admitted. All of them
// are read, as nobody looks again at one that is missed, and which of them were just admitted is not known; they are no more than one
// Service may have.
func (r *ingressReconciler) confirmWithheld(ctx context.Context, svc *corev1.Service, withheld []claim.Coordinate) error {
	for _, at := range withheld {
		held, err := r.Ledger.Store.Get(ctx, at.Name())
		switch {
		case err == nil && exposure.IsOf(held, svc):
			return write.ErrStale
		case client.IgnoreNotFound(err) != nil:
			return err
		}
	}
	return nil
}

// keeps says what a Service that is to have nothing keeps, as nobody else has it: what its Ingress serves.
func (r *ingressReconciler) keeps(ctx context.Context, svc *corev1.Service) (refusal.Problems, error) {
	return kube.Decide(ctx, r.View, func(facts *kube.Facts) refusal.Problems {
		at, keeps := exposure.Keeps(facts, svc)
		if !keeps {
			return nil
		}
		return refusal.One(v1beta1.ReasonHandedOver, field.Invalid(refusal.HeirPath, svc.Annotations[v1beta1.AnnotationHandOverTo], fmt.Sprintf(
			"the Ingress stays as it is, with %s for one: a Service that hands over what it has asks for nothing else; remove the annotation "+
				"to have it ask again", at.Point())))
	})
}

// yield takes off the Ingress of a Service that is refused something what another Service has by now: what is handed over goes,
// whatever else the Service asks for, and however soon it has taken its annotation away. It returns when to look again.
func (r *ingressReconciler) yield(ctx context.Context, svc *corev1.Service) (again time.Duration, err error) {
	lost, err := kube.Decide(ctx, r.View, func(facts *kube.Facts) []claim.Coordinate { return exposure.ServedForOthers(facts, svc) })
	if err != nil || len(lost) == 0 {
		return 0, err
	}
	lost, waits, err := r.ripe(ctx, svc, lost)
	if waits {
		again = heirShown
	}
	if err != nil || len(lost) == 0 {
		return again, err
	}
	existing, err := r.View.Ingresses.Get(ctx, client.ObjectKeyFromObject(svc))
	if err != nil || existing == nil || existing.DeletionTimestamp != nil {
		return again, err
	}
	whole := &networkingv1.Ingress{}
	if err := r.readWhole(ctx, existing, whole); err != nil {
		return 0, err
	}
	next := whole.DeepCopy()
	if next.Spec = exposure.Without(&whole.Spec, lost); equality.Semantic.DeepEqual(next.Spec, whole.Spec) {
		return again, nil
	}
	if len(next.Spec.Rules) == 0 && next.Spec.DefaultBackend == nil {
		err = write.RemoveUnchanged(ctx, r.Writer, existing)
	} else {
		err = write.Change(ctx, r.Writer, whole, next)
	}
	switch {
	case apierrors.IsConflict(err):
		return 0, write.ErrStale
	case err != nil:
		return 0, fmt.Errorf("taking what was handed over off the Ingress: %w", err)
	}
	return again, nil
}

// given reports what a Service does not ask for, as it hands over what it has.
func (r *ingressReconciler) given(svc *corev1.Service, lost []claim.Coordinate) {
	message := ""
	if len(lost) > 0 {
		heir, _ := claim.NamedHeir(svc)
		message = lost[0].Point()
		if others := len(lost) - 1; others > 0 {
			message += fmt.Sprintf(" and %d more", others)
		}
		message += fmt.Sprintf(": not asked for, as the Service hands over what it has to %s; remove the annotation %s to ask again",
			heir, v1beta1.AnnotationHandOverTo)
	}
	if r.reported.Record(svc, report.TopicHandOver, message) != message && message != "" {
		r.announce(svc, corev1.EventTypeNormal, v1beta1.ReasonHandedOver, message)
	}
}

// whenRefused is when to try again to write what the API server has refused: soon, and for a while, where the Ingress of another Service
// may be about to leave what this one has. Two of those serve one point only where it was taken over; other Ingresses do as they like.
func (r *ingressReconciler) whenRefused(
	ctx context.Context, svc *corev1.Service, problems refusal.Problems, w wish,
) (time.Duration, error) {
	key := client.ObjectKeyFromObject(svc)
	refused := problems[0].Reason == v1beta1.ReasonIngressRefused
	r.handing.refuses(key, refused)
	if !refused {
		return watch.RefusedRetry, nil
	}
	// Once begun it goes on: who refuses, as others had the path, may learn late that they have not.
	left := map[claim.Coordinate]time.Duration{}
	for _, at := range r.handing.awaited(r.handing.givers, key) {
		left[at] = r.heirPatience
	}
	for _, at := range exposure.But(w.Points(), append(w.without(), slices.Collect(maps.Keys(left))...)) {
		serving, err := r.View.Ingresses.At(ctx, at)
		if err != nil {
			return 0, err
		}
		for i := range serving {
			if exposure.MadeFor(&serving[i]) != "" && client.ObjectKeyFromObject(&serving[i]) != key {
				left[at] = r.heirPatience
				break
			}
		}
	}
	if len(r.handing.wait(r.handing.givers, key, r.Ledger.Clock.Now(), left)) > 0 {
		return heirRetry, nil
	}
	return watch.RefusedRetry, nil
}
