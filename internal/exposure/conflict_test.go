package exposure_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

func TestConflicts(t *testing.T) {
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
		facts fakeFacts
		text  string
	}{
		"nobody holds it":    {fakeFacts{}, ""},
		"it holds it itself": {fakeFacts{claim: heldBy(service("web"))}, ""},
		"another Service holds it": {
			fakeFacts{claim: other, service: requesting("other", "host=web.example.com")}, "is held by Service shop/other;",
		},
		"another that can't be read":   {fakeFacts{claim: other, service: requesting("other", "host=Web")}, "is held by Service shop/other;"},
		"another that wants elsewhere": {fakeFacts{claim: other, service: requesting("other", "")}, "no longer asks for it"},
		"another that is gone": {fakeFacts{claim: other},
			"held for Service shop/other, which is not stored or no longer asks for it; it is free again in at most 1m30s"},
		"an Ingress holds it":           {fakeFacts{claim: heldBy(claim.IngressHolder("shop", "old"))}, "is held by Ingress shop/old;"},
		"an Ingress that is not in yet": {fakeFacts{foreign: foreign}, "is held by Ingress shop/new since 2026-01-01T12:00:00Z;"},
		"its Ingress holds it":          {fakeFacts{claim: own}, ""},
		// The Ingress is older than the claim, and came to the path later: else the claim would be its own.
		"its Ingress holds it, beside another":  {fakeFacts{claim: own, foreign: foreign}, ""},
		"it holds it itself, beside an Ingress": {fakeFacts{claim: heldBy(service("web")), foreign: foreign}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			left := func(*v1beta1.EdgeClaim) time.Duration { return 90 * time.Second }
			problems := exposure.Conflicts(c.facts, requesting("web", ""), []claim.Coordinate{at}, left)
			if c.text == "" && len(problems) > 0 {
				t.Errorf("got %v", problems)
			} else if c.text != "" {
				isOne(t, problems, v1beta1.ReasonHostConflict, c.text)
			}
		})
	}
}

// TestConflictsAmongClasses has a Service ask for a path of the class public, of which there is a claim that names no class.
func TestConflictsAmongClasses(t *testing.T) {
	path := claim.HTTP("web.example.com", "/")
	theirs := claim.New(path, claim.Claimant{Holder: claim.ServiceHolder("shop", "other")})
	own := claim.New(path, claim.Claimant{Holder: claim.ServiceHolder("shop", "web")})
	left := func(*v1beta1.EdgeClaim) time.Duration { return 0 }
	foreign := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}}
	served := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       networkingv1.IngressSpec{IngressClassName: new("public"), Rules: []networkingv1.IngressRule{{Host: "web.example.com"}}},
	}
	for name, c := range map[string]struct {
		facts fakeFacts
		text  string
	}{
		"for the same class":                                   {fakeFacts{classless: theirs, class: "public"}, "path / on host web.example.com of class public is held"},
		"for another class":                                    {fakeFacts{classless: theirs, class: "internal"}, ""},
		"for a class that is told by nobody":                   {fakeFacts{classless: theirs}, "of class public is held"},
		"that it has itself":                                   {fakeFacts{classless: own}, ""},
		"that it has itself, and is served, beside an Ingress": {fakeFacts{classless: own, ingress: served, foreign: foreign}, ""},
		"that it has itself, and is not served there":          {fakeFacts{classless: own, foreign: foreign}, "is held by Ingress shop/new"},
		"beside an older replica":                              {fakeFacts{classless: theirs, older: true}, "path / on host web.example.com is held"},
	} {
		t.Run(name, func(t *testing.T) {
			points := exposure.Wanted(c.facts, exposure.Exposure{Class: "public", Hosts: []string{"web.example.com"}, Paths: []exposure.Path{{Value: "/"}}})
			if len(points) != map[bool]int{false: 1, true: 2}[c.facts.older] || points[len(points)-1] != path.ServedBy("public") {
				t.Fatalf("it wants %v", points)
			}
			problems := exposure.Conflicts(c.facts, requesting("web", ""), points, left)
			if c.text == "" && len(problems) > 0 {
				t.Errorf("got %v", problems)
			} else if c.text != "" {
				isOne(t, problems, v1beta1.ReasonHostConflict, c.text)
			}
		})
	}
}

func TestUnheld(t *testing.T) {
	at, self := claim.HTTP("web.example.com", "/"), claim.ServiceHolder("shop", "web")
	own := claim.New(at, claim.Claimant{Holder: self})
	other := claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", "other")})
	for name, c := range map[string]struct {
		before *corev1.Service
		claim  *v1beta1.EdgeClaim
		want   int
	}{
		"it is not stored yet":            {nil, own, 1},
		"it has the claim":                {requesting("web", ""), own, 0},
		"nobody has it":                   {requesting("web", ""), nil, 1},
		"another has it":                  {requesting("web", ""), other, 1},
		"it requested another":            {requesting("web", "path=/x"), own, 1},
		"what it requested can't be read": {requesting("web", "host=Web"), own, 1},
		"it requested nothing":            {&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, own, 1},
	} {
		if got := exposure.Unheld(fakeFacts{claim: c.claim}, c.before, []claim.Coordinate{at}); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
