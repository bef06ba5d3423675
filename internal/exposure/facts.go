package exposure

import (
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Facts are what the rules for annotated Services see of the cluster. What is not there is nil.
type Facts interface {
	// Defaults stand in for what the annotation of a Service leaves out.
	Defaults(key types.NamespacedName) Defaults
	// ClassFor is the IngressClass for which the holder of a path has it; known is false where that can't be told.
	ClassFor(holder claim.Holder) (class string, known bool)
	// OlderReplicas says whether replicas run that know of no IngressClasses.
	OlderReplicas() bool
	// Service is a Service.
	Service(key types.NamespacedName) *corev1.Service
	// Ingress is an Ingress.
	Ingress(key types.NamespacedName) *networkingv1.Ingress
	// ForeignIngress is the first Ingress of another name than somebody's own that serves a point. For an own namespace without a name it is
	// the first of all, and nil where that is of this namespace.
	ForeignIngress(at claim.Coordinate, own types.NamespacedName) *networkingv1.Ingress
	// CertManager says whether cert-manager is installed.
	CertManager() bool
	// Certificate is a Certificate. Without cert-manager there is none.
	Certificate(key types.NamespacedName) *cmv1.Certificate
	// Claim is the claim of a name.
	Claim(name string) *v1beta1.EdgeClaim
	// HandsOver says whether the holder of a point hands over what it holds to another object of its kind.
	HandsOver(from, to claim.Holder) bool
	// Held are the points that a holder has claims on, in ascending order.
	Held(by claim.Holder) []claim.Coordinate
	// MaxHTTPPoints is how many pairs of host and path one Service gets, 0 for any number.
	MaxHTTPPoints() int
	// Fronts are the Services that classes name. What is opened on those is for all, and they are an administrator's choice:
	// limits for one Service are not meant for them.
	Fronts() []types.NamespacedName
}
