package kube

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// ingressReader answers the questions of the rules for annotated Services.
type ingressReader interface {
	Get(ctx context.Context, key types.NamespacedName) (*networkingv1.Ingress, error)
	Foreign(
		ctx context.Context, at claim.Coordinate, own types.NamespacedName,
		now func(context.Context, types.NamespacedName) (*networkingv1.Ingress, error),
	) (*networkingv1.Ingress, error)
	Now(ctx context.Context, key types.NamespacedName) (*networkingv1.Ingress, error)
	DefaultsOf(ctx context.Context, key types.NamespacedName) (exposure.Defaults, error)
	ClassFor(ctx context.Context, holder claim.Holder) (class string, known bool, err error)
	OlderReplicas(ctx context.Context) bool
	CertManager(ctx context.Context) (bool, error)
	Certificate(ctx context.Context, key types.NamespacedName) (*cmv1.Certificate, error)
}

// Defaults stand in for what the annotation of a Service leaves out.
func (f *Facts) Defaults(key types.NamespacedName) exposure.Defaults {
	return f.defaults.of(f, key, f.ask.ingresses.DefaultsOf)
}

// ClassFor is the IngressClass for which the holder of a path has it; known is false where that can't be told.
func (f *Facts) ClassFor(holder claim.Holder) (class string, known bool) {
	class = once(f, func(ctx context.Context) (class string, err error) {
		class, known, err = f.ask.ingresses.ClassFor(ctx, holder)
		return class, err
	})
	return class, known && f.err == nil
}

// OlderReplicas says whether replicas run that know of no IngressClasses.
func (f *Facts) OlderReplicas() bool { return f.ask.ingresses.OlderReplicas(f.ctx) }

// MaxHTTPPoints is how many pairs of host and path one Service gets, 0 for any number.
func (f *Facts) MaxHTTPPoints() int { return f.ask.http.MaxHTTPPoints }

// Ingress is an Ingress, nil for none.
func (f *Facts) Ingress(key types.NamespacedName) *networkingv1.Ingress {
	return f.ingresses.of(f, key, f.ask.ingresses.Get)
}

// ForeignIngress is the first Ingress of another name than somebody's own that serves a point, nil for none; see Ingresses.Foreign. The
// first that are read in a decision are read once, as an Ingress may be large, and serve all that is asked for.
func (f *Facts) ForeignIngress(at claim.Coordinate, own types.NamespacedName) *networkingv1.Ingress {
	return once(f, func(ctx context.Context) (*networkingv1.Ingress, error) {
		return f.ask.ingresses.Foreign(ctx, at, own, func(_ context.Context, key types.NamespacedName) (*networkingv1.Ingress, error) {
			ing := f.ingressesNow.of(f, key, f.ask.ingresses.Now)
			return ing, f.err
		})
	})
}

// CertManager says whether cert-manager is installed.
func (f *Facts) CertManager() bool { return once(f, f.ask.ingresses.CertManager) }

// Certificate is a Certificate, nil for none, as without cert-manager.
func (f *Facts) Certificate(key types.NamespacedName) *cmv1.Certificate {
	return once(f, func(ctx context.Context) (*cmv1.Certificate, error) { return f.ask.ingresses.Certificate(ctx, key) })
}

var _ exposure.Facts = &Facts{}
