package kube

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"testing"
	"time"

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

// exposureAnswers answers the questions of the rules for annotated Services, and one of them with an error.
type exposureAnswers struct {
	Reader
	claimReader
	claim *v1beta1.EdgeClaim
	// classless is the only claim that there is, if it is set.
	classless *v1beta1.EdgeClaim
	service   *corev1.Service
	// asked counts the questions, and failing is the one that gets an error for an answer.
	asked   map[string]int
	failing string
}

func (a *exposureAnswers) features() features {
	http := Exposing{Defaults: exposure.Defaults{Host: "{service}.example.com"}, MaxHTTPPoints: 1}
	return features{claims: a, ingresses: a, http: http}
}

func (a *exposureAnswers) ask(question string) error {
	a.asked[question]++
	if question == a.failing {
		return errAway
	}
	return nil
}

func (a *exposureAnswers) Service(context.Context, types.NamespacedName) (*corev1.Service, error) {
	return a.service, a.ask("Service")
}

func (a *exposureAnswers) Heir(context.Context, claim.Holder) (types.NamespacedName, error) {
	return types.NamespacedName{}, a.ask("Heir")
}

func (a *exposureAnswers) HeirNow(context.Context, claim.Holder) (types.NamespacedName, error) {
	return types.NamespacedName{}, a.ask("HeirNow")
}

func (a *exposureAnswers) Get(context.Context, types.NamespacedName) (*networkingv1.Ingress, error) {
	return nil, a.ask("Ingress")
}

func (a *exposureAnswers) DefaultsOf(context.Context, types.NamespacedName) (exposure.Defaults, error) {
	return a.features().http.Defaults, a.ask("Defaults")
}

func (a *exposureAnswers) ClassFor(context.Context, claim.Holder) (string, bool, error) {
	return "", false, a.ask("ClassFor")
}

func (*exposureAnswers) OlderReplicas(context.Context) bool { return true }

func (a *exposureAnswers) Foreign(
	ctx context.Context, _ claim.Coordinate, own types.NamespacedName,
	now func(context.Context, types.NamespacedName) (*networkingv1.Ingress, error),
) (*networkingv1.Ingress, error) {
	if _, err := now(ctx, own); err != nil {
		return nil, err
	}
	return nil, a.ask("ForeignIngress")
}

func (a *exposureAnswers) Now(context.Context, types.NamespacedName) (*networkingv1.Ingress, error) {
	return nil, a.ask("IngressNow")
}

func (a *exposureAnswers) CertManager(context.Context) (bool, error) {
	return true, a.ask("CertManager")
}

func (a *exposureAnswers) Certificate(context.Context, types.NamespacedName) (*cmv1.Certificate, error) {
	return nil, a.ask("Certificate")
}

func (a *exposureAnswers) Claim(_ context.Context, name string) (*v1beta1.EdgeClaim, error) {
	if a.classless != nil && name != a.classless.Name {
		return nil, nil
	}
	return cmp.Or(a.classless, a.claim), a.ask("Claim")
}

func (a *exposureAnswers) Held(context.Context, claim.Holder) ([]claim.Coordinate, error) {
	return nil, a.ask("Held")
}

func (a *exposureAnswers) Fronts(context.Context) ([]types.NamespacedName, error) {
	return nil, a.ask("Fronts")
}

// TestRulesForExposuresHideNoError has each question that a rule asks fail in turn.
func TestRulesForExposuresHideNoError(t *testing.T) {
	requesting := func(value string) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHTTP, value)
		return svc
	}
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	at := claim.HTTP("web.example.com", "/")
	theirs := claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", "other")})
	leaving := requesting("")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	points := []claim.Coordinate{at}
	soon := func(*v1beta1.EdgeClaim) time.Duration { return time.Second }
	everything := map[string]int{
		"Defaults": 0, "ClassFor": 0, "Heir": 0, "HeirNow": 0,
		"Service": 0, "Ingress": 0, "ForeignIngress": 0, "IngressNow": 0, "CertManager": 0, "Certificate": 0, "Claim": 0, "Held": 0, "Fronts": 0,
	}
	for name, c := range map[string]struct {
		answers exposureAnswers
		rule    func(*Facts) refusal.Problems
	}{
		"Limit": {exposureAnswers{}, func(f *Facts) refusal.Problems {
			svc := requesting("path=/a, path=/b")
			e, _ := exposure.RequestOf(svc, f.Defaults(web))
			return exposure.Limit(f, svc, e)
		}},
		"Writable": {exposureAnswers{}, func(f *Facts) refusal.Problems {
			svc := requesting("issuer=ca")
			e, _ := exposure.RequestOf(svc, f.Defaults(web))
			_, problems := exposure.Writable(f, svc, e)
			return problems
		}},
		"Conflicts, with an Ingress": {exposureAnswers{}, func(f *Facts) refusal.Problems {
			return exposure.Conflicts(f, requesting(""), points, soon)
		}},
		"Conflicts, with a Service that is being deleted": {exposureAnswers{claim: theirs, service: leaving}, func(f *Facts) refusal.Problems {
			return exposure.Conflicts(f, requesting(""), points, soon)
		}},
		"Conflicts, with a claim of no class": {exposureAnswers{classless: theirs}, func(f *Facts) refusal.Problems {
			return exposure.Conflicts(f, requesting(""), []claim.Coordinate{at.ServedBy("nginx")}, soon)
		}},
		"Lost": {exposureAnswers{claim: theirs}, func(f *Facts) refusal.Problems {
			svc := requesting("")
			metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHandOverTo, "shop/other")
			exposure.LostBefore(f, svc, svc)
			return nil
		}},
		"ServedForOthers": {exposureAnswers{claim: theirs}, func(f *Facts) refusal.Problems {
			exposure.ServedForOthers(f, requesting(""))
			return nil
		}},
		"Unheld": {exposureAnswers{}, func(f *Facts) refusal.Problems {
			exposure.Unheld(f, requesting(""), points)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			answers := c.answers
			answers.asked = map[string]int{}
			if _, err := Decide(t.Context(), &answers, c.rule); err != nil {
				t.Fatal(err)
			}
			for question, times := range maps.Clone(answers.asked) {
				if times != 1 {
					t.Errorf("%s is asked %d times", question, times)
				}
				everything[question]++
				answers.failing = question
				if got, err := Decide(t.Context(), &answers, c.rule); !errors.Is(err, errAway) || got != nil {
					t.Errorf("when %s fails it says %v, %v", question, got.ErrorList(), err)
				}
			}
		})
	}
	for question, times := range everything {
		if times == 0 {
			t.Errorf("no rule here asks for %s", question)
		}
	}
}
