package rules_test

import (
	"context"
	"strings"
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
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// edge is a cluster with at most one object of each kind.
type edge struct {
	service     *corev1.Service
	ingress     *networkingv1.Ingress
	foreign     *networkingv1.Ingress
	certManager bool
	certificate *cmv1.Certificate
	claim       *v1beta1.EdgeClaim
	held        []claim.Coordinate
	fronts      []types.NamespacedName
}

var _ rules.ExposureView = edge{}

func (e edge) Defaults() exposure.Defaults { return exposure.Defaults{Host: "{service}.example.com"} }

func (e edge) Service(_ context.Context, key types.NamespacedName) (*corev1.Service, error) {
	if e.service == nil || e.service.Name != key.Name {
		return nil, nil
	}
	return e.service, nil
}

func (e edge) Ingress(context.Context, types.NamespacedName) (*networkingv1.Ingress, error) {
	return e.ingress, nil
}

func (e edge) ForeignIngress(context.Context, claim.Coordinate, types.NamespacedName) (*networkingv1.Ingress, error) {
	return e.foreign, nil
}

func (e edge) CertManager(context.Context) (bool, error) { return e.certManager, nil }

func (e edge) Certificate(context.Context, types.NamespacedName) (*cmv1.Certificate, error) {
	return e.certificate, nil
}

func (e edge) Claim(context.Context, string) (*v1beta1.EdgeClaim, error) { return e.claim, nil }

func (e edge) Held(context.Context, claim.Holder) ([]claim.Coordinate, error) { return e.held, nil }

func (e edge) MaxHTTPPoints() int { return 4 }

func (e edge) ClaimsOfNamespace(context.Context, string, string) ([]*v1beta1.EdgeClaim, error) {
	return nil, nil
}

func (e edge) Fronts(context.Context) ([]types.NamespacedName, error) { return e.fronts, nil }

func asking(name, value string) *corev1.Service {
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

func TestExposable(t *testing.T) {
	svc := asking("web", "")
	theirs := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	ours := theirs.DeepCopy()
	exposure.Mark(ours, svc)
	cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	own := cert.DeepCopy()
	exposure.Mark(own, svc)
	plain, issued := exposure.Exposure{}, exposure.Exposure{Issuer: exposure.Issuer{Kind: "ClusterIssuer", Name: "ca"}, Secret: "web-tls"}
	for name, c := range map[string]struct {
		view         edge
		asks         exposure.Exposure
		reason, text string
	}{
		"nothing is there":           {edge{}, plain, "", ""},
		"the Ingress is its own":     {edge{ingress: ours}, plain, "", ""},
		"the Ingress is not":         {edge{ingress: theirs}, plain, v1beta1.ReasonIngressNameTaken, "an Ingress shop/web exists"},
		"no cert-manager":            {edge{}, issued, v1beta1.ReasonCertManagerMissing, "for example tls=web-tls"},
		"cert-manager":               {edge{certManager: true}, issued, "", ""},
		"the Certificate is its own": {edge{certManager: true, certificate: own}, issued, "", ""},
		"the Certificate is not": {
			edge{certManager: true, certificate: cert}, issued, v1beta1.ReasonCertificateNameTaken, "a Certificate shop/web exists",
		},
		"a Certificate is no matter": {edge{certManager: true, certificate: cert}, plain, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := rules.Exposable(t.Context(), c.view, svc, c.asks)
			if err != nil {
				t.Fatal(err)
			}
			if c.reason == "" && len(problems) > 0 {
				t.Errorf("got %v", problems)
			} else if c.reason != "" {
				isOne(t, problems, c.reason, c.text)
			}
		})
	}
}

func TestHTTPConflicts(t *testing.T) {
	at := claim.HTTP("web.example.com", "/")
	heldBy := func(h claim.Holder) *v1beta1.EdgeClaim { return claim.New(at, claim.Claimant{Holder: h}) }
	service := func(name string) claim.Holder {
		return claim.ServiceHolder("shop", name)
	}
	other := heldBy(service("other"))
	foreign := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "new", CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)),
	}}
	own := heldBy(claim.IngressHolder("shop", "web"))
	own.CreationTimestamp = metav1.NewTime(foreign.CreationTimestamp.Add(time.Hour))
	for name, c := range map[string]struct {
		view edge
		text string
	}{
		"nobody holds it":    {edge{}, ""},
		"it holds it itself": {edge{claim: heldBy(service("web"))}, ""},
		"another Service holds it": {
			edge{claim: other, service: asking("other", "host=web.example.com")}, "is held by Service shop/other;",
		},
		"another that can't be read":   {edge{claim: other, service: asking("other", "host=Web")}, "is held by Service shop/other;"},
		"another that wants elsewhere": {edge{claim: other, service: asking("other", "")}, "no longer asks for it"},
		"another that is gone": {edge{claim: other},
			"held for Service shop/other, which is not stored or no longer asks for it; it is free again in at most 1m30s"},
		"an Ingress holds it":           {edge{claim: heldBy(claim.IngressHolder("shop", "old"))}, "is held by Ingress shop/old;"},
		"an Ingress that is not in yet": {edge{foreign: foreign}, "is held by Ingress shop/new since 2026-01-01T12:00:00Z;"},
		"its Ingress holds it":          {edge{claim: own}, ""},
		// The Ingress is older than the claim, and came to the path later: else the claim would be its own.
		"its Ingress holds it, beside another":  {edge{claim: own, foreign: foreign}, ""},
		"it holds it itself, beside an Ingress": {edge{claim: heldBy(service("web")), foreign: foreign}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			left := func(*v1beta1.EdgeClaim) time.Duration { return 90 * time.Second }
			problems, err := rules.HTTPConflicts(t.Context(), c.view, asking("web", ""), []claim.Coordinate{at}, left)
			if err != nil {
				t.Fatal(err)
			}
			if c.text == "" && len(problems) > 0 {
				t.Errorf("got %v", problems)
			} else if c.text != "" {
				isOne(t, problems, v1beta1.ReasonHostConflict, c.text)
			}
		})
	}
}

func TestHTTPLimit(t *testing.T) {
	const five = "host=a.example.com, path=/1, path=/2, path=/3, path=/4, path=/5"
	points := func(value string) []claim.Coordinate {
		e, _ := rules.Asks(edge{}, asking("web", value))
		return e.Points()
	}
	for name, c := range map[string]struct {
		view  edge
		value string
		text  string
	}{
		"as many as there may be":               {edge{}, "host=a.example.com, host=b.example.com, path=/1, path=/2", ""},
		"more":                                  {edge{}, five, "1 host(s) with 5 path(s) each are 5 pairs, and 4 are the most for one Service; spread them over several Services"},
		"more, and it has them":                 {edge{held: points(five)}, five, ""},
		"one more than it has":                  {edge{held: points(five)}, five + ", path=/6", "are 6 pairs, and 4 are the most"},
		"one for another that it has":           {edge{held: points(five)}, strings.Replace(five, "/5", "/6", 1), ""},
		"more, and it has others, and ports":    {edge{held: append(points("path=/"), claim.NodePort("TCP", 80))}, five, "are 5 pairs"},
		"more, in front of a proxy":             {edge{fronts: []types.NamespacedName{{Namespace: "shop", Name: "web"}}}, five, ""},
		"more, and another in front of a proxy": {edge{fronts: []types.NamespacedName{{Namespace: "edge", Name: "web"}}}, five, "are 5 pairs"},
	} {
		t.Run(name, func(t *testing.T) {
			svc := asking("web", c.value)
			e, _ := rules.Asks(c.view, svc)
			problems, err := rules.HTTPLimit(t.Context(), c.view, svc, e)
			if err != nil {
				t.Fatal(err)
			}
			if c.text == "" && len(problems) > 0 {
				t.Errorf("got %v", problems)
			} else if c.text != "" {
				isOne(t, problems, v1beta1.ReasonTooManyPoints, c.text)
			}
		})
	}
}

func TestWantsHTTP(t *testing.T) {
	at := claim.HTTP("web.example.com", "/")
	leaving := asking("web", "")
	leaving.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		svc  *corev1.Service
		want bool
	}{
		"by default":         {asking("web", ""), true},
		"by name":            {asking("other", "host=web.example.com"), true},
		"another host":       {asking("other", ""), false},
		"another path":       {asking("web", "path=/x"), false},
		"no annotation":      {&corev1.Service{}, false},
		"being deleted":      {leaving, false},
		"what can't be read": {asking("other", "host=Web"), true},
	} {
		if got := rules.WantsHTTP(edge{}, c.svc, at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
