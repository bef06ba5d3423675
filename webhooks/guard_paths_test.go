package webhooks

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// TestDecoysPassNoGuard has an Ingress ask for a host whose holder names it as heir, while nobody can tell which replicas run. Is it to try
// again for that, then for all of what it asks for: what another one holds, the guard doesn't let pass with it.
func TestDecoysPassNoGuard(t *testing.T) {
	const decoy, held = "decoy.test", "held.test"
	asks := ingressOf(team(1), "asks", decoy)
	accomplice, holder := ingressOf(team(2), "accomplice", decoy), ingressOf(team(3), "holder", held)
	accomplice.Annotations = map[string]string{v1beta1.AnnotationHandOverTo: asks.Namespace + "/" + asks.Name}
	for name, tc := range map[string]struct {
		hosts   []string
		blind   bool
		refused func(error) bool
	}{
		"the decoy, and all is known":     {[]string{decoy}, false, func(err error) bool { return err == nil }},
		"the decoy":                       {[]string{decoy}, true, apierrors.IsTooManyRequests},
		"what is held":                    {[]string{held}, true, apierrors.IsInvalid},
		"the decoy and then what is held": {[]string{decoy, held}, true, isRefused},
		"what is held and then the decoy": {[]string{held, decoy}, true, isRefused},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{accomplice.DeepCopy(), holder.DeepCopy()}
			var claims []*v1beta1.EdgeClaim
			for _, ing := range []*networkingv1.Ingress{accomplice, holder} {
				claims = append(claims, claim.New(claim.HTTP(ing.Spec.Rules[0].Host, "/").ServedBy("nginx"),
					claim.Claimant{Holder: claim.IngressHolder(ing.Namespace, ing.Name), UID: ing.UID}))
			}
			w := newWorld(t, objects, claims)
			if tc.blind { // the cache, which stands for the API server here, lists nothing by what a field is not
				w.view.Ingresses.Expose(kube.Exposing{Namespace: "portcullis-system"})
			}
			actions := guard.Actions{guard.Ingress: guard.Deny}
			w.view.Hosts.Guarded = actions
			v := hostGuard{
				listenerGuard: listenerGuard{view: w.view, ledger: w.ledger, actions: actions}, kind: guard.Ingress,
				of:       schema.GroupKind{Group: networkingv1.GroupName, Kind: "Ingress"},
				resource: networkingv1.Resource("ingresses"),
			}
			if warnings, err := v.validate(asking(t, admissionv1.Create), nil, ingressOf(asks.Namespace, asks.Name, tc.hosts...)); !tc.refused(err) {
				t.Errorf("it is told %v, %v", warnings, err)
			}
		})
	}
}

// isRefused says whether the API server stores nothing: for ever, or until the request is repeated.
func isRefused(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsTooManyRequests(err) }
