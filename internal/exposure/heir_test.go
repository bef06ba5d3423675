package exposure_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// promisedTo is a claim with an heir.
func promisedTo(c *v1beta1.EdgeClaim, heir claim.Holder) *v1beta1.EdgeClaim {
	next := c.DeepCopy()
	next.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: heir.Spec(""), Renewed: metav1.NowMicro()}
	return next
}

func TestConflictsWithWhoHandsOver(t *testing.T) {
	at := claim.HTTP("web.example.com", "/")
	old, self, third := claim.ServiceHolder("blog", "old"), claim.ServiceHolder("shop", "web"), claim.ServiceHolder("late", "x")
	held := claim.New(at, claim.Claimant{Holder: old})
	asks := requesting("old", "host=web.example.com")
	const way = "; or have its holder hand it over, by the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: shop/web"
	for name, c := range map[string]struct {
		facts        fakeFacts
		text, silent string
	}{
		"it hands nothing over":           {facts: fakeFacts{claim: held, service: asks}, text: "choose another host or path, for example host=web.example.com, path=/other" + way},
		"to another":                      {facts: fakeFacts{claim: held, service: asks, gives: old, heir: third}, text: "is held by Service blog/old;"},
		"to who asks":                     {facts: fakeFacts{claim: held, service: asks, gives: old, heir: self}},
		"it was promised to who asks":     {facts: fakeFacts{claim: promisedTo(held, self), service: asks}},
		"it was promised to another":      {facts: fakeFacts{claim: promisedTo(held, third), service: asks, gives: old, heir: self}, text: "is held by Service blog/old, which is handing it over to Service late/x;", silent: way},
		"an Ingress can't, to a Service":  {facts: fakeFacts{claim: claim.New(at, claim.Claimant{Holder: claim.IngressHolder("blog", "old")}), gives: claim.IngressHolder("blog", "old"), heir: self}, text: "held by Ingress blog/old", silent: way},
		"nor can who no longer has it so": {facts: fakeFacts{claim: held}, text: "which is not stored or no longer asks for it", silent: way},
	} {
		t.Run(name, func(t *testing.T) {
			left := func(*v1beta1.EdgeClaim) time.Duration { return 90 * time.Second }
			problems := exposure.Conflicts(c.facts, requesting("web", ""), []claim.Coordinate{at}, left)
			if c.text == "" {
				if len(problems) > 0 {
					t.Errorf("got %v", problems)
				}
				return
			}
			isOne(t, problems, v1beta1.ReasonHostConflict, c.text)
			if c.silent != "" && strings.Contains(problems[0].Err.Error(), c.silent) {
				t.Errorf("got %v", problems)
			}
		})
	}
}

func TestJudgePathsThatAreHandedOver(t *testing.T) {
	const host = "web.example.com"
	at := claim.HTTP(host, "/login").ServedBy("public")
	theirs, self, service := claim.IngressHolder("blog", "web"), claim.IngressHolder("shop", "web"), claim.ServiceHolder("shop", "web")
	held := claim.New(at, claim.Claimant{Holder: theirs})
	ofService := claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("blog", "web")})
	foreign := onPaths("web", host, "/login")
	foreign.Namespace = "blog"
	made := onPaths("web", host, "/login")
	exposure.Mark(made, requesting("web", ""))
	const way = "; or have its holder hand it over, by the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: shop/web"
	for name, c := range map[string]struct {
		facts   fakeFacts
		ingress *networkingv1.Ingress
		why     string
	}{
		"it hands nothing over":                      {facts: fakeFacts{claim: held}, why: "choose another host or path" + way},
		"it serves it, and hands nothing over":       {facts: fakeFacts{foreign: foreign}, why: "choose another host or path" + way},
		"to who asks":                                {facts: fakeFacts{claim: held, gives: theirs, heir: self}},
		"to who asks, and it only serves it":         {facts: fakeFacts{foreign: foreign, gives: theirs, heir: self}},
		"to a Service of that name":                  {facts: fakeFacts{claim: held, gives: theirs, heir: service}, why: "held by Ingress blog/web"},
		"it was promised to who asks":                {facts: fakeFacts{claim: promisedTo(held, self)}},
		"it was promised to another":                 {facts: fakeFacts{claim: promisedTo(held, claim.IngressHolder("late", "x"))}, why: "which is handing it over to Ingress late/x"},
		"a Service to a Service, which it is not":    {facts: fakeFacts{claim: promisedTo(ofService, service)}, why: "held by Service blog/web"},
		"a Service to the Service that it is of":     {facts: fakeFacts{claim: promisedTo(ofService, service)}, ingress: made},
		"the same, which nobody was promised before": {facts: fakeFacts{claim: ofService, gives: claim.HolderOf(ofService), heir: service}, ingress: made},
	} {
		t.Run(name, func(t *testing.T) {
			r := exposure.PathRequest{Ingress: c.ingress, IsOwned: func(string) bool { return false }}
			if r.Ingress == nil {
				r.Ingress = onPaths("web", host, "/login")
			}
			c.facts.service = requesting("web", "host="+host+", path=/login, class=public")
			v := exposure.JudgePaths(c.facts, r, func(*v1beta1.EdgeClaim) time.Duration { return time.Minute })
			switch {
			case c.why != "":
				isOne(t, v.Problems, v1beta1.ReasonHostConflict, c.why)
			case len(v.Problems) > 0 || !slices.Equal(v.Points, []claim.Coordinate{at}):
				t.Errorf("got %v, %v", v.Points, v.Problems)
			}
		})
	}
}

// TestLost has a Service that asks for / on one host hand over what it holds.
func TestLost(t *testing.T) {
	at := claim.HTTP("web.example.com", "/")
	by := func(h claim.Holder) *v1beta1.EdgeClaim { return claim.New(at, claim.Claimant{Holder: h}) }
	self, heir := claim.ServiceHolder("shop", "web"), claim.ServiceHolder("blog", "new")
	own := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "web.example.com"}}},
	}
	theirs := own.DeepCopy()
	exposure.Mark(own, requesting("web", ""))
	for name, c := range map[string]struct {
		facts fakeFacts
		keeps bool
		// others says that its Ingress serves what another one has.
		others bool
	}{
		"it has it":                                {facts: fakeFacts{claim: by(self)}, keeps: true},
		"it has it, and has promised it":           {facts: fakeFacts{claim: promisedTo(by(self), heir)}, keeps: true},
		"the Ingress of its name has it":           {facts: fakeFacts{claim: by(claim.IngressHolder("shop", "web")), ingress: own}, keeps: true},
		"its Ingress serves what is free":          {facts: fakeFacts{ingress: own}, keeps: true},
		"one of its name serves it":                {facts: fakeFacts{ingress: theirs}},
		"it is free":                               {},
		"the heir has it":                          {facts: fakeFacts{claim: by(heir)}},
		"the heir has it, and it serves it":        {facts: fakeFacts{claim: by(heir), ingress: own}, others: true},
		"a third one has it":                       {facts: fakeFacts{claim: by(claim.ServiceHolder("late", "x")), ingress: own}, others: true},
		"an Ingress has it":                        {facts: fakeFacts{claim: by(claim.IngressHolder("late", "x")), ingress: own}},
		"one of its name serves what the heir has": {facts: fakeFacts{claim: by(heir), ingress: theirs}},
	} {
		t.Run(name, func(t *testing.T) {
			svc := requesting("web", "")
			e, _ := exposure.RequestOf(svc, c.facts.Defaults(types.NamespacedName{}))
			if lost := exposure.Lost(c.facts, svc, e); len(lost) > 0 {
				t.Errorf("one that hands over nothing has lost %v", lost)
			}
			if got := exposure.ServedForOthers(c.facts, svc); len(got) > 0 != c.others {
				t.Errorf("it serves for others %v", got)
			}
			giving := requesting("web", "")
			metav1.SetMetaDataAnnotation(&giving.ObjectMeta, v1beta1.AnnotationHandOverTo, "blog/new")
			if lost := exposure.Lost(c.facts, giving, e); len(lost) == 0 != c.keeps {
				t.Errorf("it has lost %v", lost)
			}
			if lost := exposure.LostBefore(c.facts, giving, giving); len(lost) == 0 != c.keeps {
				t.Errorf("by a change it does not ask for %v", lost)
			}
			for _, before := range []*struct{ value, heir string }{nil, {"path=/other", "blog/new"}, {"host=Web", "blog/new"}} {
				if before == nil {
					if lost := exposure.LostBefore(c.facts, nil, giving); len(lost) > 0 {
						t.Errorf("a new one does not ask for %v", lost)
					}
					continue
				}
				was := requesting("web", before.value)
				lost := exposure.LostBefore(c.facts, was, giving)
				if slices.Contains(lost, at) {
					t.Errorf("it does not ask for what it comes to ask for: %v", lost)
				}
			}
			if lost := exposure.LostBefore(c.facts, giving, svc); len(lost) > 0 {
				t.Errorf("without the annotation it does not ask for %v", lost)
			}
		})
	}
}

// TestPathsLostToAnHeir has an Ingress serve a path that it, or the Service that it is made for, may have handed over.
func TestPathsLostToAnHeir(t *testing.T) {
	const host = "web.example.com"
	at := claim.HTTP(host, "/login").ServedBy("public")
	by := func(h claim.Holder) *v1beta1.EdgeClaim { return claim.New(at, claim.Claimant{Holder: h}) }
	giving := func(obj metav1.ObjectMeta) metav1.ObjectMeta {
		metav1.SetMetaDataAnnotation(&obj, v1beta1.AnnotationHandOverTo, "blog/new")
		return obj
	}
	asks := requesting("web", "")
	gives := requesting("web", "")
	gives.ObjectMeta = giving(gives.ObjectMeta)
	byHand, silent, made := onPaths("web", host, "/login"), onPaths("web", host, "/login"), onPaths("web", host, "/login")
	byHand.ObjectMeta = giving(byHand.ObjectMeta)
	exposure.Mark(made, asks)
	for name, c := range map[string]struct {
		facts         fakeFacts
		ingress       *networkingv1.Ingress
		isLost, given bool
	}{
		"to whom it says":                        {fakeFacts{claim: by(claim.IngressHolder("blog", "new"))}, byHand, true, true},
		"to another":                             {fakeFacts{claim: by(claim.IngressHolder("late", "x"))}, byHand, true, false},
		"to nobody":                              {fakeFacts{claim: by(claim.IngressHolder("blog", "new"))}, silent, true, false},
		"of a Service, to whom that says":        {fakeFacts{claim: by(claim.ServiceHolder("blog", "new")), service: gives}, made, false, false},
		"of a Service, to another":               {fakeFacts{claim: by(claim.IngressHolder("blog", "new")), service: gives}, made, true, false},
		"of a Service that says so to nobody":    {fakeFacts{claim: by(claim.IngressHolder("blog", "new")), service: asks}, made, true, false},
		"of a Service that is gone":              {fakeFacts{claim: by(claim.IngressHolder("blog", "new"))}, made, true, false},
		"of a Service that says so, and is new":  {fakeFacts{service: gives}, made, false, false},
		"to a Service of the name that it tells": {fakeFacts{claim: by(claim.ServiceHolder("blog", "new")), service: requesting("new", "host="+host+", path=/login, class=public")}, byHand, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			lost := exposure.PathsLost(c.facts, c.ingress, func(string) bool { return false })
			if len(lost) > 0 != c.isLost || c.isLost && lost[0].Given != c.given {
				t.Errorf("it has lost %+v", lost)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	spec := onPaths("web", "a.test", "/", "/api/").Spec
	spec.Rules = append(spec.Rules, onPaths("web", "b.test", "/").Spec.Rules[0], networkingv1.IngressRule{Host: "c.test"})
	spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.test", "b.test", "elsewhere.test"}}, {Hosts: []string{"b.test"}}}
	for name, c := range map[string]struct {
		lost []claim.Coordinate
		want string
	}{
		"nothing":            {nil, "a.test/ a.test/api/ b.test/ c.test tls a.test,b.test,elsewhere.test tls b.test"},
		"a path":             {[]claim.Coordinate{claim.HTTP("a.test", "/api").ServedBy("public")}, "a.test/ b.test/ c.test tls a.test,b.test,elsewhere.test tls b.test"},
		"a host":             {[]claim.Coordinate{claim.HTTP("b.test", "/")}, "a.test/ a.test/api/ c.test tls a.test,elsewhere.test"},
		"one without paths":  {[]claim.Coordinate{claim.HTTP("c.test", "/")}, "a.test/ a.test/api/ b.test/ tls a.test,b.test,elsewhere.test tls b.test"},
		"one that is not in": {[]claim.Coordinate{claim.HTTP("d.test", "/")}, "a.test/ a.test/api/ b.test/ c.test tls a.test,b.test,elsewhere.test tls b.test"},
	} {
		t.Run(name, func(t *testing.T) {
			before := spec.DeepCopy()
			if got := inWords(exposure.Without(&spec, c.lost)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if inWords(*before) != inWords(spec) {
				t.Error("it has changed what it was given")
			}
		})
	}
	both := []claim.Coordinate{claim.HTTP("a.test", "/"), claim.HTTP("a.test", "/").ServedBy("public"), claim.HTTP("b.test", "/")}
	if got := exposure.But(both, both[:1]); !slices.Equal(got, both[2:]) || len(exposure.But(both, nil)) != 3 {
		t.Errorf("got %v", got)
	}
}

// inWords is what an Ingress says, in one line.
func inWords(spec networkingv1.IngressSpec) string {
	var words []string
	for _, rule := range spec.Rules {
		if rule.HTTP == nil {
			words = append(words, rule.Host)
			continue
		}
		for _, path := range rule.HTTP.Paths {
			words = append(words, rule.Host+path.Path)
		}
	}
	for _, tls := range spec.TLS {
		words = append(words, "tls "+strings.Join(tls.Hosts, ","))
	}
	return strings.Join(words, " ")
}
