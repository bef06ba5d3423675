package exposure_test

import (
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// fakeFacts are the facts of a cluster with at most one object of each kind.
type fakeFacts struct {
	service     *corev1.Service
	ingress     *networkingv1.Ingress
	foreign     *networkingv1.Ingress
	certManager bool
	certificate *cmv1.Certificate
	claim       *v1beta1.EdgeClaim
	// classless is the only claim, if it is set.
	classless *v1beta1.EdgeClaim
	held      []claim.Coordinate
	fronts    []types.NamespacedName
	// class is that for which the holder of the claim has it, if that is known, and older says that replicas run that know of none.
	class string
	older bool
	// gives is who hands over what it holds, and heir to whom.
	gives, heir claim.Holder
}

var _ exposure.Facts = fakeFacts{}

func (f fakeFacts) Defaults(types.NamespacedName) exposure.Defaults {
	return exposure.Defaults{Host: "{service}.example.com"}
}

func (f fakeFacts) ClassFor(claim.Holder) (string, bool) { return f.class, f.class != "" }

func (f fakeFacts) OlderReplicas() bool { return f.older }

func (f fakeFacts) Service(key types.NamespacedName) *corev1.Service {
	if f.service == nil || f.service.Name != key.Name {
		return nil
	}
	return f.service
}

func (f fakeFacts) Ingress(types.NamespacedName) *networkingv1.Ingress { return f.ingress }

func (f fakeFacts) ForeignIngress(claim.Coordinate, types.NamespacedName) *networkingv1.Ingress {
	return f.foreign
}

func (f fakeFacts) CertManager() bool { return f.certManager }

func (f fakeFacts) Certificate(types.NamespacedName) *cmv1.Certificate { return f.certificate }

func (f fakeFacts) Claim(name string) *v1beta1.EdgeClaim {
	if f.classless != nil {
		if name == f.classless.Name {
			return f.classless
		}
		return nil
	}
	return f.claim
}

func (f fakeFacts) HandsOver(from, to claim.Holder) bool {
	return from == f.gives && to == f.heir && to != (claim.Holder{})
}

func (f fakeFacts) Held(claim.Holder) []claim.Coordinate { return f.held }

func (f fakeFacts) MaxHTTPPoints() int { return 4 }

func (f fakeFacts) Fronts() []types.NamespacedName { return f.fronts }

func requesting(name, value string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHTTP, value)
	return svc
}

func isOne(t *testing.T, problems refusal.Problems, reason, text string) {
	t.Helper()
	if len(problems) != 1 || problems[0].Reason != reason || !strings.Contains(problems[0].Err.Error(), text) {
		t.Errorf("got %v, want one %s with %q", problems, reason, text)
	}
}
