package rules

import (
	"context"
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// ExposureView is what the rules for annotated Services see of the cluster. What is not there is nil, not an error.
type ExposureView interface {
	// Defaults stand in for what an annotation leaves out.
	Defaults() exposure.Defaults
	// Service reads a Service.
	Service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error)
	// Ingress reads an Ingress.
	Ingress(ctx context.Context, key types.NamespacedName) (*networkingv1.Ingress, error)
	// ForeignIngress finds an Ingress of another name than a Service's own that serves a point.
	ForeignIngress(ctx context.Context, at claim.Coordinate, own types.NamespacedName) (*networkingv1.Ingress, error)
	// CertManager says whether cert-manager is installed.
	CertManager(ctx context.Context) (bool, error)
	// Certificate reads a Certificate. Without cert-manager there is none.
	Certificate(ctx context.Context, key types.NamespacedName) (*cmv1.Certificate, error)
	// Claim reads a claim by name.
	Claim(ctx context.Context, name string) (*v1beta1.EdgeClaim, error)
	// Held lists the points that a holder has claims on, in ascending order.
	Held(ctx context.Context, by claim.Holder) ([]claim.Coordinate, error)
	// MaxHTTPPoints is how many pairs of host and path one Service gets, 0 for any number.
	MaxHTTPPoints() int
	ShareView
}

// Asks is what a Service asks for, complete but for the port.
func Asks(v ExposureView, svc *corev1.Service) (exposure.Exposure, refusal.Problems) {
	value, _ := exposure.Asked(svc)
	asked, errs := exposure.Parse(value)
	if len(errs) > 0 {
		problems := make(refusal.Problems, 0, len(errs))
		for _, err := range errs {
			problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonInvalidAnnotation, Err: err})
		}
		return exposure.Exposure{}, problems
	}
	e, err := v.Defaults().Complete(asked, svc.Namespace, svc.Name)
	if err != nil {
		return exposure.Exposure{}, refusal.One(v1beta1.ReasonInvalidAnnotation, err)
	}
	return e, nil
}

// HTTPPort finds the port of a Service that an exposure leads to.
func HTTPPort(e exposure.Exposure, svc *corev1.Service) (int32, refusal.Problems) {
	port, err := e.FindPort(svc)
	if err != nil {
		return 0, refusal.One(v1beta1.ReasonServicePortNotFound, err)
	}
	return port, nil
}

// Exposable says what keeps an exposure from being made, other than its points: an Ingress or a Certificate of the
// Service's name that is somebody else's, and an issuer without cert-manager.
func Exposable(ctx context.Context, v ExposureView, svc *corev1.Service, e exposure.Exposure) (refusal.Problems, error) {
	key := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
	ing, err := v.Ingress(ctx, key)
	if err != nil {
		return nil, err
	}
	if ing != nil && !exposure.IsOwn(ing, svc) {
		return refusal.One(v1beta1.ReasonIngressNameTaken, field.Invalid(exposure.AnnotationPath(), e.String(), fmt.Sprintf(
			"an Ingress %s exists%s, and this Service does not own it; it is left alone: delete or rename it, or rename the Service",
			key, refusal.Since(ing)))), nil
	}
	if e.Issuer.IsZero() {
		return nil, nil
	}
	return certifiable(ctx, v, svc, e, key)
}

func certifiable(
	ctx context.Context, v ExposureView, svc *corev1.Service, e exposure.Exposure, key types.NamespacedName,
) (refusal.Problems, error) {
	installed, err := v.CertManager(ctx)
	if err != nil {
		return nil, err
	}
	if !installed {
		return refusal.One(v1beta1.ReasonCertManagerMissing, field.Invalid(exposure.AnnotationPath(), e.String(), fmt.Sprintf(
			"issuer=%s needs cert-manager, which is not installed in this cluster; install it, or name a Secret that has a certificate, "+
				"for example tls=%s", e.Issuer, e.Secret))), nil
	}
	cert, err := v.Certificate(ctx, key)
	if err != nil {
		return nil, err
	}
	if cert != nil && !exposure.IsOwn(cert, svc) {
		return refusal.One(v1beta1.ReasonCertificateNameTaken, field.Invalid(exposure.AnnotationPath(), e.String(), fmt.Sprintf(
			"a Certificate %s exists%s, and this Service does not own it; it is left alone: leave issuer out and name its Secret, "+
				"for example tls=%s", key, refusal.Since(cert), cert.Spec.SecretName))), nil
	}
	return nil, nil
}

// HTTPLimit refuses a Service more pairs of host and path than one gets. What it has it keeps.
func HTTPLimit(ctx context.Context, v ExposureView, svc *corev1.Service, e exposure.Exposure) (refusal.Problems, error) {
	points := e.Points()
	if v.MaxHTTPPoints() == 0 || len(points) <= v.MaxHTTPPoints() {
		return nil, nil
	}
	held, err := v.Held(ctx, claim.ServiceHolder(svc.Namespace, svc.Name))
	if err != nil {
		return nil, err
	}
	paths := refusal.Share{Limit: v.MaxHTTPPoints(), Wanted: len(points)}
	for _, at := range held {
		if at.IsHTTP() {
			paths.Own++
		}
	}
	for _, at := range points {
		if !slices.Contains(held, at) {
			paths.Added++
		}
	}
	if paths.All = paths.Own; !paths.Exceeded() {
		return nil, nil
	}
	fronts, err := v.Fronts(ctx)
	if err != nil || slices.Contains(fronts, types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}) {
		return nil, err
	}
	return refusal.One(v1beta1.ReasonTooManyPoints, field.Invalid(exposure.AnnotationPath(), e.String(), fmt.Sprintf(
		"%d host(s) with %d path(s) each are %d pairs, and %d are the most for one Service; "+
			"spread them over several Services, for example host=shop.example.com, path=/api on each",
		len(e.Hosts), len(e.Paths), len(points), paths.Limit))), nil
}

// HTTPConflicts finds those of the points that somebody else holds, as far as is known without asking the API server:
// points that another object has a claim on, and those that Ingresses serve without one. Of several that serve a point the
// claim says who was there first. graceLeft says how long a claim is kept if its holder is gone.
func HTTPConflicts(
	ctx context.Context, v ExposureView, svc *corev1.Service, points []claim.Coordinate, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) (refusal.Problems, error) {
	var problems refusal.Problems
	for _, at := range points {
		held, err := v.Claim(ctx, at.Name())
		if err != nil {
			return nil, err
		}
		if held == nil {
			if held, err = servedElsewhere(ctx, v, svc, at); err != nil {
				return nil, err
			}
		}
		if held == nil || claim.HolderOf(held) == claim.ServiceHolder(svc.Namespace, svc.Name) || OwnIngress(svc)(held) {
			continue
		}
		problem, err := HTTPConflict(ctx, v, at, held, graceLeft(held))
		if err != nil {
			return nil, err
		}
		problems = append(problems, problem...)
	}
	return problems, nil
}

// servedElsewhere finds another Ingress that serves a point on which nobody has a claim, and returns the claim that it would
// have. The ledger may not have it yet, or have it by its host only.
func servedElsewhere(ctx context.Context, v ExposureView, svc *corev1.Service, at claim.Coordinate) (*v1beta1.EdgeClaim, error) {
	ing, err := v.ForeignIngress(ctx, at, types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
	if err != nil || ing == nil {
		return nil, err
	}
	held := claim.New(at, claim.Claimant{Holder: claim.IngressHolder(ing.Namespace, ing.Name), UID: ing.UID})
	held.CreationTimestamp = ing.CreationTimestamp
	return held, nil
}

// OwnIngress says which claims a Service may take over: those of the Ingress of its name, which the ledger has entered by
// what it serves. Whether that Ingress is the Service's own is for Exposable to say.
func OwnIngress(svc *corev1.Service) claim.MayTake {
	own := claim.IngressHolder(svc.Namespace, svc.Name)
	return func(c *v1beta1.EdgeClaim) bool { return claim.HolderOf(c) == own }
}

// IsAsked says whether an Ingress serves just what the annotation of the Service of its name asks for, so that the claims
// are that Service's to make. svc is nil where there is none.
func IsAsked(v ExposureView, svc *corev1.Service, ing *networkingv1.Ingress) bool {
	if svc == nil || svc.DeletionTimestamp != nil || !exposure.IsOwn(ing, svc) {
		return false
	}
	if _, asked := exposure.Asked(svc); !asked {
		return false
	}
	e, problems := Asks(v, svc)
	if len(problems) > 0 {
		return false
	}
	port, problems := HTTPPort(e, svc)
	return len(problems) == 0 && equality.Semantic.DeepEqual(ing.Spec.Rules, e.IngressSpec(svc.Name, port).Rules)
}

// HTTPConflict tells a Service that a point is held: by whom and since when. graceLeft is how long the ledger keeps the
// claim if its holder is gone.
func HTTPConflict(
	ctx context.Context, v ExposureView, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration,
) (refusal.Problems, error) {
	leaving, err := isLeavingHTTP(ctx, v, claim.HolderOf(held), at)
	if err != nil {
		return nil, err
	}
	return refusal.One(v1beta1.ReasonHostConflict, &field.Error{
		Type: field.ErrorTypeDuplicate, Field: exposure.AnnotationPath().String(), BadValue: at.Point(),
		Detail: fmt.Sprintf("path %s on host %s is %s; choose another host or path, for example host=%s, path=%s",
			at.Path(), at.Host(), refusal.Held(held, leaving, graceLeft), at.Host(), otherPath(at.Path())),
	}), nil
}

func otherPath(path string) string {
	if path == "/" {
		return "/other"
	}
	return path + "-other"
}

// isLeavingHTTP says whether a Service that holds a point is gone, or asks for another. One that is being deleted stays as
// long as its Ingress does.
func isLeavingHTTP(ctx context.Context, v ExposureView, holder claim.Holder, at claim.Coordinate) (bool, error) {
	if !holder.IsService() {
		return false, nil
	}
	svc, err := v.Service(ctx, holder.Key())
	if err != nil || svc == nil {
		return err == nil, err
	}
	if svc.DeletionTimestamp == nil {
		return !WantsHTTP(v, svc, at), nil
	}
	ing, err := v.Ingress(ctx, holder.Key())
	return err == nil && (ing == nil || !exposure.Serves(ing, at)), err
}

// WantsHTTP says whether a Service asks for a point. One whose annotation can't be read keeps what it has.
func WantsHTTP(v ExposureView, svc *corev1.Service, at claim.Coordinate) bool {
	if _, asked := exposure.Asked(svc); !asked || svc.DeletionTimestamp != nil {
		return false
	}
	e, problems := Asks(v, svc)
	if len(problems) > 0 {
		return true
	}
	for _, point := range e.Points() {
		if point == at {
			return true
		}
	}
	return false
}

// NothingMore refuses what a Service that is being deleted asks for and does not have.
func NothingMore() refusal.Problems {
	return refusal.Problems{refusal.BeingDeleted(exposure.AnnotationPath())}
}
