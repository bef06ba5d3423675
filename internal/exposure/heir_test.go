package exposure_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	brothers := claim.New(at, claim.Claimant{Holder: claim.IngressHolder("shop", "old")})
	ofService := claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("blog", "web")})
	foreign := onPaths("web", host, "/login")
	foreign.Namespace = "blog"
	made := onPaths("web", host, "/login")
	exposure.Mark(made, requesting("web", ""))
	mutual, ring := onPaths("web", host, "/login"), onPaths("web", host, "/login")
	metav1.SetMetaDataAnnotation(&mutual.ObjectMeta, v1beta1.AnnotationHandOverTo, "blog/web")
	metav1.SetMetaDataAnnotation(&ring.ObjectMeta, v1beta1.AnnotationHandOverTo, "late/x")
	const way = "; or have its holder hand it over, by the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: shop/web"
	const takesNothing = "; or remove the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: an Ingress that hands over what it has takes nothing over"
	for name, c := range map[string]struct {
		facts   fakeFacts
		ingress *networkingv1.Ingress
		why     string
	}{
		"to who asks, which names it, too":           {facts: fakeFacts{claim: held, gives: theirs, heir: self}, ingress: mutual, why: takesNothing},
		"to who asks, which names a third":           {facts: fakeFacts{claim: held, gives: theirs, heir: self}, ingress: ring, why: takesNothing},
		"to nobody, and who asks names it":           {facts: fakeFacts{claim: held}, ingress: mutual, why: "choose another host or path" + way},
		"it was promised to who asks, and gives now": {facts: fakeFacts{claim: promisedTo(held, self)}, ingress: mutual, why: takesNothing},
		"it hands nothing over":                      {facts: fakeFacts{claim: held}, why: "choose another host or path" + way},
		"it serves it, and hands nothing over":       {facts: fakeFacts{foreign: foreign}, why: "choose another host or path" + way},
		"to who asks":                                {facts: fakeFacts{claim: held, gives: theirs, heir: self}},
		"to who asks, and it only serves it":         {facts: fakeFacts{foreign: foreign, gives: theirs, heir: self}},
		"to a Service of that name":                  {facts: fakeFacts{claim: held, gives: theirs, heir: service}, why: "held by Ingress blog/web"},
		"it was promised to who asks":                {facts: fakeFacts{claim: promisedTo(held, self)}},
		"it was promised to another":                 {facts: fakeFacts{claim: promisedTo(held, claim.IngressHolder("late", "x"))}, why: "which is handing it over to Ingress late/x"},
		"a brother promised it to a stranger":        {facts: fakeFacts{claim: promisedTo(brothers, theirs)}, why: "held by Ingress shop/old, which is handing it over to Ingress blog/web"},
		"a brother promised it to a brother":         {facts: fakeFacts{claim: promisedTo(brothers, claim.IngressHolder("shop", "new"))}},
		"it promised it to a stranger itself":        {facts: fakeFacts{claim: promisedTo(claim.New(at, claim.Claimant{Holder: self}), theirs)}, why: "handed over to Ingress blog/web by what asks for it"},
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
			if c.facts.claim != nil && c.facts.claim.Spec.Heir != nil && (r.Beside(c.facts.claim) == claim.Apart) != (claim.HolderOf(c.facts.claim).Tenant() != "shop" || c.why != "") {
				t.Errorf("beside such a claim it is %v", r.Beside(c.facts.claim))
			}
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
	ofClass := own.DeepCopy()
	ofClass.Spec.IngressClassName = new("internal")
	for name, c := range map[string]struct {
		facts fakeFacts
		keeps bool
		// withheld says that it does not ask for it, though nobody has it.
		withheld bool
		// others says that its Ingress serves what another one has.
		others bool
	}{
		"it has it":                                {facts: fakeFacts{claim: by(self)}, keeps: true},
		"it has it, and has promised it":           {facts: fakeFacts{claim: promisedTo(by(self), heir)}, keeps: true},
		"the Ingress of its name has it":           {facts: fakeFacts{claim: by(claim.IngressHolder("shop", "web")), ingress: own}, keeps: true},
		"its Ingress serves what is free":          {facts: fakeFacts{ingress: own}, keeps: true},
		"one of its name serves it":                {facts: fakeFacts{ingress: theirs}, withheld: true},
		"its Ingress serves it for another class":  {facts: fakeFacts{ingress: ofClass}, keeps: true},
		"it is free":                               {withheld: true},
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
			if lost := exposure.Lost(c.facts, giving, e); len(lost) == 0 != (c.keeps || c.withheld) {
				t.Errorf("it has lost %v", lost)
			}
			if withheld := exposure.Withheld(c.facts, giving, e); len(withheld) > 0 != c.withheld {
				t.Errorf("it does not ask for %v", withheld)
			}
			if withheld := exposure.Withheld(c.facts, svc, e); len(withheld) > 0 {
				t.Errorf("one that hands over nothing does not ask for %v", withheld)
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

// TestKeeps looks whether there is anything on the Ingress of a Service that nobody else has.
func TestKeeps(t *testing.T) {
	svc := requesting("web", "")
	served := onPaths("web", "web.example.com", "/")
	exposure.Mark(served, svc)
	at := claim.HTTP("web.example.com", "/").ServedBy("public")
	by := func(h claim.Holder) *v1beta1.EdgeClaim { return claim.New(at, claim.Claimant{Holder: h}) }
	for name, c := range map[string]struct {
		facts fakeFacts
		want  bool
	}{
		"there is none":                 {fakeFacts{}, false},
		"it is somebody else's":         {fakeFacts{ingress: onPaths("web", "web.example.com", "/")}, false},
		"nobody has what it serves":     {fakeFacts{ingress: served}, true},
		"the Service has it":            {fakeFacts{ingress: served, claim: by(claim.ServiceHolder("shop", "web"))}, true},
		"its heir has all of it by now": {fakeFacts{ingress: served, claim: by(claim.ServiceHolder("blog", "new"))}, false},
	} {
		if got, is := exposure.Keeps(c.facts, svc); is != c.want || is && got != at {
			t.Errorf("%s: %v, %v", name, got, is)
		}
	}
}

// TestAsks has a Service be promised / on one host.
func TestAsks(t *testing.T) {
	at := claim.HTTP("web.example.com", "/").ServedBy("public")
	goes := requesting("web", "class=public")
	goes.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	silent := requesting("web", "")
	silent.Annotations = nil
	for name, c := range map[string]struct {
		svc  *corev1.Service
		want bool
	}{
		"it asks for it":               {requesting("web", "class=public"), true},
		"it asks for another path":     {requesting("web", "class=public, path=/x"), false},
		"it asks for another class":    {requesting("web", "class=internal"), false},
		"nobody can read what it asks": {requesting("web", "class=public, host=Web"), false},
		"it is being deleted":          {goes, false},
		"it asks for nothing":          {silent, false},
	} {
		if got := exposure.Asks(c.svc, fakeFacts{}.Defaults(types.NamespacedName{}), at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRefusalsAmongHeirs covers who is told what, where a point is promised.
func TestRefusalsAmongHeirs(t *testing.T) {
	at := claim.HTTP("web.example.com", "/")
	old, self, third := claim.ServiceHolder("blog", "old"), claim.ServiceHolder("shop", "web"), claim.ServiceHolder("late", "x")
	asks := requesting("old", "host=web.example.com")
	const way = "; or have its holder hand it over, by the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: shop/web"
	held := claim.New(at, claim.Claimant{Holder: old})
	for name, c := range map[string]struct {
		held         *v1beta1.EdgeClaim
		at           claim.Coordinate
		says, silent string
	}{
		"who was promised it, and is no longer": {promisedTo(held, self), at, "is held by Service blog/old; choose", "handing it over"},
		"the same, the way":                     {promisedTo(held, self), at, way, "handing it over"},
		"somebody else was":                     {promisedTo(held, third), at, "which is handing it over to Service late/x", way},
		"who has promised it away itself":       {promisedTo(claim.New(at, claim.Claimant{Holder: self}), third), at, "is handed over to Service late/x by what asks for it", way},
		"somebody has it of whichever class":    {held, at.ServedBy("public"), "is held by Service blog/old", way},
	} {
		t.Run(name, func(t *testing.T) {
			problems := exposure.Conflict(fakeFacts{service: asks}, requesting("web", ""), c.at, c.held, time.Minute)
			isOne(t, problems, v1beta1.ReasonHostConflict, c.says)
			if strings.Contains(problems[0].Err.Error(), c.silent) {
				t.Errorf("got %v", problems)
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
				t.Fatalf("it has lost %+v", lost)
			}
			if c.isLost && strings.HasSuffix(lost[0].Key(), ", given") != c.given {
				t.Errorf("what it is told of is %q", lost[0].Key())
			}
		})
	}
}

// TestHandedTo has an Ingress that is stored, which admission was not asked of or only in part, serve what others have.
func TestHandedTo(t *testing.T) {
	const host = "web.example.com"
	at := claim.HTTP(host, "/login").ServedBy("public")
	theirs, self := claim.IngressHolder("blog", "web"), claim.IngressHolder("shop", "web")
	held := claim.New(at, claim.Claimant{Holder: theirs})
	goes := onPaths("web", host, "/login")
	goes.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	mutual, ring := onPaths("web", host, "/login"), onPaths("web", host, "/login")
	metav1.SetMetaDataAnnotation(&mutual.ObjectMeta, v1beta1.AnnotationHandOverTo, "blog/web")
	metav1.SetMetaDataAnnotation(&ring.ObjectMeta, v1beta1.AnnotationHandOverTo, "late/x")
	for name, c := range map[string]struct {
		facts   fakeFacts
		ingress *networkingv1.Ingress
		owned   bool
		want    bool
	}{
		"by who names it":               {facts: fakeFacts{claim: held, gives: theirs, heir: self}, want: true},
		"by a brother":                  {facts: fakeFacts{claim: claim.New(at, claim.Claimant{Holder: claim.IngressHolder("shop", "old")}), gives: claim.IngressHolder("shop", "old"), heir: self}, want: true},
		"by who names it, and is named": {facts: fakeFacts{claim: held, gives: theirs, heir: self}, ingress: mutual},
		"by one of a ring":              {facts: fakeFacts{claim: held, gives: theirs, heir: self}, ingress: ring},
		"by nobody":                     {facts: fakeFacts{claim: held}},
		"nobody has it":                 {facts: fakeFacts{gives: theirs, heir: self}},
		"it has it":                     {facts: fakeFacts{claim: claim.New(at, claim.Claimant{Holder: self})}},
		"it was promised it, which is waited for": {facts: fakeFacts{claim: promisedTo(held, self), gives: theirs, heir: self}},
		"another was":                           {facts: fakeFacts{claim: promisedTo(held, claim.IngressHolder("late", "x")), gives: theirs, heir: self}},
		"it is being deleted":                   {facts: fakeFacts{claim: held, gives: theirs, heir: self}, ingress: goes},
		"it serves what somebody else has, too": {facts: fakeFacts{claim: held, gives: theirs, heir: self, foreign: foreignOf("blog")}, ingress: onPaths("web", host, "/login", "/other")},
		"the host is a namespace's":             {facts: fakeFacts{claim: held, gives: theirs, heir: self}, owned: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := exposure.PathRequest{Ingress: c.ingress, IsOwned: func(string) bool { return c.owned }}
			if r.Ingress == nil {
				r.Ingress = onPaths("web", host, "/login")
			}
			got := exposure.HandedTo(only{c.facts, at.Name()}, r, func(*v1beta1.EdgeClaim) time.Duration { return time.Minute })
			if len(got) > 0 != c.want || c.want && !slices.Equal(got, []claim.Coordinate{at}) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// only has the claim of one name alone.
type only struct {
	fakeFacts
	name string
}

func (o only) Claim(name string) *v1beta1.EdgeClaim {
	if name != o.name {
		return nil
	}
	return o.fakeFacts.Claim(name)
}

func foreignOf(namespace string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
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
