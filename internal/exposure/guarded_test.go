package exposure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// onPaths is an Ingress of class public that serves paths on one host.
func onPaths(name, host string, paths ...string) *networkingv1.Ingress {
	http := &networkingv1.HTTPIngressRuleValue{}
	for _, path := range paths {
		http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: path, PathType: new(networkingv1.PathTypePrefix)})
	}
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: networkingv1.IngressSpec{IngressClassName: new("public"), Rules: []networkingv1.IngressRule{
			{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http}},
		}},
	}
}

// someIngressPaths are so many, each another one.
func someIngressPaths(n int) (paths []string) {
	for i := range n {
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	return paths
}

func TestJudgePaths(t *testing.T) {
	const host = "web.example.com"
	at := claim.HTTP(host, "/login").ServedBy("public")
	by := func(h claim.Holder) *v1beta1.EdgeClaim { return claim.New(at, claim.Claimant{Holder: h}) }
	theirs, promised := by(claim.IngressHolder("blog", "web")), by(claim.IngressHolder("blog", "web"))
	promised.Spec.Renewed = new(metav1.NowMicro())
	classless := claim.New(at.ServedBy(""), claim.Claimant{Holder: claim.ServiceHolder("blog", "web")})
	ours := claim.New(at.ServedBy(""), claim.Claimant{Holder: claim.ServiceHolder("shop", "old")})
	foreign := onPaths("web", host, "/login")
	foreign.Namespace, foreign.CreationTimestamp = "blog", metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	leaving := onPaths("web", host, "/login")
	leaving.DeletionTimestamp = new(metav1.Now())
	internal := onPaths("web", host, "/login")
	internal.Spec.IngressClassName = new("internal")
	ofTwo, cleared := onPaths("web", host, "/login"), onPaths("web", host, "/login", "/more")
	ofTwo.Annotations = map[string]string{v1beta1.AnnotationIngressClass: ""}
	cleared.Annotations = ofTwo.Annotations
	const path, class = "spec.rules[0].http.paths[0].path", "metadata.annotations[kubernetes.io/ingress.class]"
	for name, tc := range map[string]struct {
		facts                fakeFacts
		ingress, before      *networkingv1.Ingress
		owned, graceIsOver   bool
		points, refused, why string
	}{
		"nobody has it":                           {points: "/login"},
		"it has it itself":                        {facts: fakeFacts{claim: by(claim.IngressHolder("shop", "web"))}, points: "/login"},
		"a canary beside another one":             {facts: fakeFacts{claim: by(claim.IngressHolder("shop", "main"))}, points: "/login"},
		"beside a Service of the namespace":       {facts: fakeFacts{claim: by(claim.ServiceHolder("shop", "main"))}, points: "/login"},
		"beside a Service of its name":            {facts: fakeFacts{claim: by(claim.ServiceHolder("shop", "web"))}, points: "/login"},
		"another namespace has it":                {facts: fakeFacts{claim: theirs}, refused: path, why: "path /login on host " + host + " of class public is held by Ingress blog/web"},
		"another namespace was promised it":       {facts: fakeFacts{claim: promised}, refused: path, why: "held for Ingress blog/web, which is not stored"},
		"another namespace serves it":             {facts: fakeFacts{foreign: foreign}, refused: path, why: "held by Ingress blog/web since 2026-01-01T12:00:00Z"},
		"it comes to be of two classes":           {ingress: ofTwo, before: internal, refused: class, why: "names another class than spec.ingressClassName"},
		"it is of two classes, and serves more":   {ingress: cleared, before: ofTwo, refused: class, why: "take the annotation out"},
		"it is of two classes, as it was before":  {ingress: ofTwo, before: ofTwo},
		"it is of two classes, and was not there": {ingress: ofTwo, refused: class, why: "take the annotation out"},
		"another namespace was promised it, and serves it by another": {facts: fakeFacts{claim: promised, foreign: foreign}, refused: path,
			why: "held by Ingress blog/web since 2026-01-01T12:00:00Z"},
		"another namespace was promised it long ago": {facts: fakeFacts{claim: promised}, graceIsOver: true, refused: path, why: "held by Ingress blog/web"},
		"it has served it":                           {facts: fakeFacts{claim: theirs}, before: onPaths("web", host, "/login")},
		"it comes to another class":                  {facts: fakeFacts{claim: theirs}, before: internal, refused: path, why: "held by Ingress blog/web"},
		"a slash more than it has served":            {facts: fakeFacts{claim: theirs}, before: onPaths("web", host, "/login/")},
		"its second path": {facts: fakeFacts{claim: theirs}, ingress: onPaths("web", host, "/", "/login"), before: onPaths("web", host, "/"),
			refused: "spec.rules[0].http.paths[1].path", why: "held by Ingress blog/web"},
		"the name is one namespace's":                    {facts: fakeFacts{claim: theirs}, owned: true},
		"on all hosts":                                   {facts: fakeFacts{claim: theirs}, ingress: onPaths("web", "", "/login")},
		"it is being deleted":                            {ingress: leaving, refused: path, why: "is being deleted"},
		"it is being deleted, as before":                 {ingress: leaving, before: onPaths("web", host, "/login")},
		"another's from before there were classes":       {facts: fakeFacts{classless: classless}, refused: path, why: "held for Service blog/web"},
		"its namespace's from before there were classes": {facts: fakeFacts{classless: ours}, points: "/login"},
		"more at a time than are looked at": {
			ingress: onPaths("web", host, someIngressPaths(exposure.MostEntries+1)...), refused: "spec.rules", why: "at most 1024 hosts and paths at a time",
		},
		"many, of which it has most": {
			facts: fakeFacts{claim: by(claim.IngressHolder("shop", "web"))}, ingress: onPaths("web", host, someIngressPaths(exposure.MostEntries+1)...),
			before: onPaths("web", host, someIngressPaths(exposure.MostEntries)...), points: "/1024",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := exposure.PathRequest{Ingress: tc.ingress, Before: tc.before, IsOwned: func(string) bool { return tc.owned }}
			if r.Ingress == nil {
				r.Ingress = onPaths("web", host, "/login")
			}
			v := exposure.JudgePaths(tc.facts, r, func(*v1beta1.EdgeClaim) time.Duration {
				if tc.graceIsOver {
					return 0
				}
				return time.Minute
			})
			isRefused(t, v.Problems, tc.refused, tc.why)
			var points []string
			for _, p := range v.Points {
				points = append(points, p.Path())
			}
			if got := strings.Join(points, " "); got != tc.points && len(v.Problems) == 0 {
				t.Errorf("points %q, want %q", got, tc.points)
			}
		})
	}
}

// isRefused says so of problems: with a text at a field, or, for no field, that there are none.
func isRefused(t *testing.T, problems refusal.Problems, at, text string) {
	t.Helper()
	is := slices.ContainsFunc(problems, func(p refusal.Problem) bool { return p.Err.Field == at && strings.Contains(p.Err.Error(), text) })
	if is != (at != "") || at == "" && len(problems) > 0 {
		t.Errorf("refused with %v, want %q at %q", problems, text, at)
	}
}

// TestManyPathsAreClaimedInPart has an Ingress ask for more than are claimed at a time: of the others, one that is held is refused all the same.
func TestManyPathsAreClaimedInPart(t *testing.T) {
	r := exposure.PathRequest{Ingress: onPaths("web", "web.example.com", someIngressPaths(exposure.MostPaths+1)...), IsOwned: func(string) bool { return false }}
	left := func(*v1beta1.EdgeClaim) time.Duration { return 0 }
	if v := exposure.JudgePaths(fakeFacts{}, r, left); len(v.Problems) > 0 || len(v.Points) != exposure.MostPaths {
		t.Errorf("refused with %v, or %d points", v.Problems, len(v.Points))
	}
	last := exposure.PointsOf(r.Ingress)[exposure.MostPaths]
	held := claim.New(last.ServedBy(""), claim.Claimant{Holder: claim.ServiceHolder("blog", "web")})
	isRefused(t, exposure.JudgePaths(fakeFacts{classless: held}, r, left).Problems, "spec.rules[0].http.paths["+last.Path()[1:]+"].path", "Service blog/web")
}

func TestBeside(t *testing.T) {
	at := claim.HTTP("web.example.com", "/")
	made := onPaths("web", "web.example.com", "/")
	svc := requesting("web", "")
	exposure.Mark(made, svc)
	for name, tc := range map[string]struct {
		holder claim.Claimant
		want   claim.Beside
	}{
		"another namespace":                 {claim.Claimant{Holder: claim.IngressHolder("blog", "web")}, claim.Apart},
		"another namespace's Service":       {claim.Claimant{Holder: claim.ServiceHolder("blog", "web"), UID: svc.UID}, claim.Apart},
		"another Ingress":                   {claim.Claimant{Holder: claim.IngressHolder("shop", "old")}, claim.Relied},
		"another Service":                   {claim.Claimant{Holder: claim.ServiceHolder("shop", "old"), UID: svc.UID}, claim.Relied},
		"the Service that it is made for":   {claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: svc.UID}, claim.Kept},
		"one of that name that was before":  {claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: "old"}, claim.Relied},
		"one that was promised to any life": {claim.Claimant{Holder: claim.ServiceHolder("shop", "web")}, claim.Relied},
	} {
		if got := (exposure.PathRequest{Ingress: made}).Beside(claim.New(at, tc.holder)); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestRefusalsOfPathsAreFew has an Ingress of many paths meet one that has them all.
func TestRefusalsOfPathsAreFew(t *testing.T) {
	held := claim.New(claim.HTTP("web.example.com", "/"), claim.Claimant{Holder: claim.IngressHolder("blog", "web")})
	r := exposure.PathRequest{Ingress: onPaths("web", "web.example.com", someIngressPaths(100)...), IsOwned: func(string) bool { return false }}
	v := exposure.JudgePaths(fakeFacts{claim: held}, r, func(*v1beta1.EdgeClaim) time.Duration { return 0 })
	if len(v.Problems) != 8 {
		t.Errorf("refused for %d paths", len(v.Problems))
	}
}

func TestPathsLost(t *testing.T) {
	const host = "web.example.com"
	at := claim.HTTP(host, "/login").ServedBy("public")
	theirs := claim.New(at, claim.Claimant{Holder: claim.IngressHolder("blog", "web")})
	promised := theirs.DeepCopy()
	promised.Spec.Renewed = new(metav1.NowMicro())
	for name, tc := range map[string]struct {
		held  *v1beta1.EdgeClaim
		owned bool
		want  string
	}{
		"nobody has it":               {},
		"its own namespace has it":    {held: claim.New(at, claim.Claimant{Holder: claim.IngressHolder("shop", "main")})},
		"another has it":              {held: theirs, want: "spec.rules[0].http.paths[0].path: " + host + "/login of class public is held by Ingress blog/web"},
		"another was promised it":     {held: promised},
		"the name is one namespace's": {held: theirs, owned: true},
	} {
		t.Run(name, func(t *testing.T) {
			lost := exposure.PathsLost(fakeFacts{claim: tc.held}, onPaths("web", host, "/login"), func(string) bool { return tc.owned })
			switch {
			case tc.want == "" && len(lost) == 0:
			case len(lost) == 1 && lost[0].String() == tc.want && strings.HasSuffix(lost[0].Key(), " Ingress blog/web"):
			default:
				t.Errorf("lost %v, want %q", lost, tc.want)
			}
		})
	}
}
