package guard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// asks is a request of an opener, which is alone on its Gateway.
func asks(o Opener, before ...Listener) *Request {
	return &Request{Opener: o, Before: before, Scopes: []types.NamespacedName{o.Of}}
}

func TestPointsThatAreNew(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after []Listener
		want          []string
	}{
		"of a new object":                      {nil, []Listener{tcp(80), http(81, "a")}, []string{"gateway/edge/public TCP/80", "gateway/edge/public/81 HTTP/a"}},
		"of one that is as it was":             {[]Listener{tcp(80)}, []Listener{tcp(80)}, nil},
		"of one whose listeners change place":  {[]Listener{tcp(80), udp(80)}, []Listener{udp(80), tcp(80)}, nil},
		"of one that turns from TLS to HTTPS":  {[]Listener{tls(443, "a")}, []Listener{https(443, "a")}, nil},
		"of one that turns from HTTPS to HTTP": {[]Listener{https(443, "a")}, []Listener{http(443, "a")}, []string{"gateway/edge/public/443 HTTP/a"}},
		"of one that turns from a host to all": {[]Listener{https(443, "a")}, []Listener{https(443, "*")}, []string{"gateway/edge/public/443 TLS/*"}},
		"of one that turns whole":              {[]Listener{https(443, "a")}, []Listener{tcp(443)}, []string{"gateway/edge/public TCP/443"}},
		"of what is TCP, and may be UDP, too":  {[]Listener{tcp(443)}, []Listener{other(443)}, []string{"gateway/edge/public UDP/443"}},
		"of what may be both, and is UDP":      {[]Listener{other(443)}, []Listener{udp(443)}, nil},
		"of one that has fewer":                {[]Listener{tcp(80), tcp(81)}, []Listener{tcp(81)}, nil},
		"of what no listener can be":           {nil, []Listener{tcp(0), http(80, "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := asks(opener(me, tc.after...), opener(me, tc.before...).Listeners...)
			if diff := cmp.Diff(tc.want, points(r.Points())); diff != "" {
				t.Error(diff)
			}
			r.Scopes = append(r.Scopes, first)
			mustBe(t, "points at two Gateways", len(r.Points()), 2*len(tc.want))
		})
	}
}

// TestListenersOfOneObject covers what conflicts in one object.
func TestListenersOfOneObject(t *testing.T) {
	const text = ": another listener of this object has it, too; at most one of them can be served"
	both := func(paths ...string) (all []verdict) {
		for i := 0; i < len(paths); i += 2 {
			all = append(all, verdict{v1beta1.ReasonPortConflict, "spec.listeners[" + paths[i] + `: Duplicate value: "` + paths[i+1] + `"` + text})
		}
		return all
	}
	for name, tc := range map[string]struct {
		before, in []Listener
		want       []verdict
	}{
		"nothing":                               {},
		"the same port":                         {nil, []Listener{tcp(80), tcp(80)}, both("0].port", "TCP/80", "1].port", "TCP/80")},
		"the same port, of which one was there": {[]Listener{tcp(80)}, []Listener{tcp(80), http(80, "a")}, both("1].hostname", "a")},
		"a port, and host names at it": {nil, []Listener{http(80, "a"), tcp(80), tls(80, "*")},
			both("0].hostname", "a", "1].port", "TCP/80", "2].port", "TCP/80")},
		"TCP and UDP":                       {nil, []Listener{tcp(80), udp(80), http(81, "a")}, nil},
		"HTTP and HTTPS":                    {nil, []Listener{http(80, "a"), https(80, "a")}, nil},
		"TLS and HTTPS":                     {nil, []Listener{tls(443, "a"), https(443, "a")}, both("0].hostname", "a", "1].hostname", "a")},
		"several host names":                {nil, []Listener{tls(443, "a"), tls(443, "*.a"), tls(443, "*")}, nil},
		"one for all names twice":           {nil, []Listener{tls(443, "*"), tls(443, "*")}, both("0].port", "TCP/443", "1].port", "TCP/443")},
		"what may be UDP, too":              {nil, []Listener{other(443), udp(443)}, both("0].port", "UDP/443", "1].port", "UDP/443")},
		"what was at odds before":           {[]Listener{tcp(80), http(80, "a")}, []Listener{tcp(80), http(80, "a")}, nil},
		"what was at odds before, and more": {[]Listener{tcp(80), http(80, "a")}, []Listener{tcp(80), http(80, "a"), tcp(81)}, nil},
		"a host name more, of what was at odds": {[]Listener{tcp(80), http(80, "a")}, []Listener{tcp(80), http(80, "a"), http(80, "b")},
			both("2].hostname", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			r := asks(opener(me, tc.in...), opener(me, tc.before...).Listeners...)
			r.Scopes = append(r.Scopes, first) // where the same is at odds: it is told once
			if diff := cmp.Diff(tc.want, verdicts(Judge(&facts{}, r, noGrace))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestConflicts covers who has what a request asks for, and how it is told.
func TestConflicts(t *testing.T) {
	const moves = "; for two to change places, one of them first moves to a free port"
	stream := claim.StreamHolder("rival", "db")
	public := class("public")
	in := func(path, value, text string) []verdict {
		return []verdict{{v1beta1.ReasonPortConflict, "spec.listeners[" + path + `: Duplicate value: "` + value + `": ` + text}}
	}
	near80 := `; free for namespace "shop" nearby: 78, 79, 81`
	for name, tc := range map[string]struct {
		facts   facts
		classes []*v1beta1.StreamIngressClass
		scopes  []types.NamespacedName
		before  []Listener
		in      []Listener
		grace   time.Duration
		want    []verdict
	}{
		"a free port":           {in: []Listener{tcp(80)}},
		"its own claim":         {facts: facts{claims: held(me, whole(80))}, in: []Listener{tcp(80)}},
		"its own claims beside": {facts: facts{claims: join(held(me, whole(80)), held(me, name(80, "a")))}, in: []Listener{tls(80, "b")}},
		"a port that another has": {
			facts: facts{claims: held(rival, whole(80)), openers: []Opener{opener(rival, tcp(80))}}, in: []Listener{udp(9), tcp(80)},
			want: in("1].port", "TCP/80", "held by ListenerSet rival/web since 2026-07-01T12:00:00Z, on port TCP/80 of Gateway edge/public"+near80),
		},
		"a port whose holder is gone": {
			facts: facts{claims: held(rival, whole(80))}, in: []Listener{tcp(80)}, grace: 90 * time.Second,
			want: in("0].port", "TCP/80", "held for ListenerSet rival/web, which is not stored or no longer asks for it; it is free again in at most 1m30s, try again then, "+
				"on port TCP/80 of Gateway edge/public"+near80),
		},
		"a port of the Gateway itself": {
			facts: facts{claims: held(itsOwn, whole(80)), openers: []Opener{opener(itsOwn, tcp(80))}}, in: []Listener{tcp(80)},
			want: in("0].port", "TCP/80", "held by Gateway edge/public since 2026-07-01T12:00:00Z, on port TCP/80 of Gateway edge/public"+near80),
		},
		"a port of a Gateway that stands without a claim": {
			facts: facts{openers: []Opener{opener(itsOwn, tcp(80))}}, in: []Listener{tcp(80)},
			want: in("0].port", "TCP/80", "held by Gateway edge/public, on port TCP/80 of Gateway edge/public"+near80),
		},
		"what it stands at itself without a claim": {facts: facts{openers: []Opener{opener(me, tcp(80), http(81, "a"))}}, in: []Listener{tcp(80), tcp(81)}},
		"a host name that another has": {
			facts: facts{claims: held(rival, name(80, "a.example.com")), openers: []Opener{opener(rival, tls(80, "a.example.com"))}}, in: []Listener{https(80, "a.example.com")},
			want: in("0].hostname", "a.example.com", "held by ListenerSet rival/web since 2026-07-01T12:00:00Z, on port TCP/80 of Gateway edge/public"+near80),
		},
		"all host names, which another has": {
			facts: facts{claims: held(rival, name(80, "*")), openers: []Opener{opener(rival, tls(80, "*"))}}, in: []Listener{tls(80, "*")},
			want: in("0].port", "TCP/80", "held by ListenerSet rival/web since 2026-07-01T12:00:00Z for all host names that no other listener has, on port TCP/80 of Gateway edge/public"+near80),
		},
		"a name beside all host names": {facts: facts{claims: held(rival, name(80, "*")), openers: []Opener{opener(rival, tls(80, "*"))}}, in: []Listener{tls(80, "a.example.com")}},
		"the same name of HTTP":        {facts: facts{claims: held(rival, name(80, "a")), openers: []Opener{opener(rival, tls(80, "a"))}}, in: []Listener{http(80, "a")}},
		"a port with host names": {
			facts: facts{claims: held(rival, name(80, "a.example.com")), openers: []Opener{opener(rival, tls(80, "a.example.com"))}}, in: []Listener{tcp(80)},
			want: in("0].port", "TCP/80", "held by ListenerSet rival/web since 2026-07-01T12:00:00Z, which shares the port by host name (it has TLS/a.example.com), on port TCP/80 of Gateway edge/public"+near80),
		},
		"a port with host names, of which nothing says that they share it": {
			facts: facts{claims: without(held(rival, name(80, "a.example.com")), claim.Listener(edge, claim.HTTPListener, 80)), openers: []Opener{opener(rival, tls(80, "a.example.com"))}}, in: []Listener{tcp(80)},
			want: in("0].port", "TCP/80", "held by ListenerSet rival/web since 2026-07-01T12:00:00Z, which shares the port by host name (it has TLS/a.example.com), on port TCP/80 of Gateway edge/public"+near80),
		},
		"a port with host names that stand without a claim": {
			facts: facts{openers: []Opener{opener(rival, tls(80, "a.example.com"))}}, in: []Listener{tcp(80)},
			want: in("0].port", "TCP/80", "held by ListenerSet rival/web, on port TCP/80 of Gateway edge/public"+near80),
		},
		"only the word that host names share it": {facts: facts{claims: map[string]*v1beta1.EdgeClaim{
			claim.Listener(edge, claim.HTTPListener, 80).Name(): claim.New(claim.Listener(edge, claim.HTTPListener, 80), claim.Claimant{Holder: itsOwn}),
		}}, in: []Listener{tcp(80)}},
		"a host name at a whole port": {
			facts: facts{claims: held(rival, whole(80)), openers: []Opener{opener(rival, tcp(80))}}, in: []Listener{http(80, "a.example.com")},
			want: in("0].port", "TCP/80", "held by ListenerSet rival/web since 2026-07-01T12:00:00Z, on port TCP/80 of Gateway edge/public"+near80),
		},
		"a host name at a whole port that stands without a claim": {
			facts: facts{openers: []Opener{opener(rival, tcp(80))}}, in: []Listener{http(80, "a.example.com")},
			want: in("0].port", "TCP/80", "held by ListenerSet rival/web, on port TCP/80 of Gateway edge/public"+near80),
		},
		"a port of a stream": {
			facts: facts{claims: held(stream, claim.Stream("public", v1beta1.TCP, 80))}, classes: []*v1beta1.StreamIngressClass{public}, in: []Listener{http(80, "*")},
			want: in("0].port", "TCP/80", `held by StreamIngress rival/db since 2026-07-01T12:00:00Z, of StreamIngressClass "public", on port TCP/80 of Gateway edge/public`+near80),
		},
		"a port of a stream of UDP":      {facts: facts{claims: held(stream, claim.Stream("public", v1beta1.UDP, 80))}, classes: []*v1beta1.StreamIngressClass{public}, in: []Listener{tcp(80)}},
		"a port of another class":        {facts: facts{claims: held(stream, claim.Stream("private", v1beta1.TCP, 80))}, classes: []*v1beta1.StreamIngressClass{public}, in: []Listener{tcp(80)}},
		"what the class has by others":   {facts: facts{claims: held(itsOwn, claim.Stream("public", v1beta1.TCP, 80))}, classes: []*v1beta1.StreamIngressClass{public}, in: []Listener{tcp(80)}},
		"what it has before":             {facts: facts{claims: held(rival, whole(80)), openers: []Opener{opener(rival, tcp(80))}}, before: []Listener{tcp(80)}, in: []Listener{tcp(80), tcp(81)}},
		"what it had under another name": {facts: facts{claims: held(rival, whole(80)), openers: []Opener{opener(rival, tcp(80))}}, before: []Listener{udp(1), tcp(80)}, in: []Listener{tcp(80)}},
		"a port that it moves to": {
			facts: facts{claims: held(rival, whole(80)), openers: []Opener{opener(rival, tcp(80)), opener(me, tcp(81))}}, before: []Listener{tcp(81)}, in: []Listener{tcp(80)},
			want: in("0].port", "TCP/80", `held by ListenerSet rival/web since 2026-07-01T12:00:00Z, on port TCP/80 of Gateway edge/public; free for namespace "shop" nearby: 78, 79, 82`+moves),
		},
		"a port of a Gateway at the same address": {
			facts:  facts{claims: held(rival, claim.Listener(first, v1beta1.TCP, 80)), openers: []Opener{at(first, opener(rival, tcp(80)))}},
			scopes: []types.NamespacedName{edge, first}, in: []Listener{tcp(80)},
			want: in("0].port", "TCP/80", "held by ListenerSet rival/web since 2026-07-01T12:00:00Z, on port TCP/80 of Gateway edge/first, which has an address in common with edge/public"+near80),
		},
		"two, of which one is free": {
			facts: facts{claims: held(rival, whole(80)), openers: []Opener{opener(rival, tcp(80))}}, in: []Listener{tcp(79), tcp(80)},
			want: in("1].port", "TCP/80", `held by ListenerSet rival/web since 2026-07-01T12:00:00Z, on port TCP/80 of Gateway edge/public; free for namespace "shop" nearby: 78, 81, 82`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := asks(opener(me, tc.in...), opener(me, tc.before...).Listeners...)
			r.Classes = tc.classes
			if tc.scopes != nil {
				r.Scopes = tc.scopes
			}
			got := verdicts(Judge(&tc.facts, r, func(*v1beta1.EdgeClaim) time.Duration { return tc.grace }))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func without(claims map[string]*v1beta1.EdgeClaim, at claim.Coordinate) map[string]*v1beta1.EdgeClaim {
	delete(claims, at.Name())
	return claims
}

// at is an opener on another Gateway.
func at(of types.NamespacedName, o Opener) Opener {
	o.Of = of
	return o
}

// TestConflictFoundWhileClaiming covers what is told when a claim of somebody else is found only as a point is claimed.
func TestConflictFoundWhileClaiming(t *testing.T) {
	r := asks(opener(me, tcp(80), http(443, "a.example.com")))
	held := func(at claim.Coordinate) *v1beta1.EdgeClaim {
		c := claim.New(at, claim.Claimant{Holder: rival})
		c.CreationTimestamp = metav1.NewTime(since)
		return c
	}
	f := &facts{openers: []Opener{opener(rival, tcp(80), tcp(443))}}
	got := verdicts(Conflict(f, r, whole(80), held(name(80, "b")), 0))
	want := []verdict{{v1beta1.ReasonPortConflict, `spec.listeners[0].port: Duplicate value: "TCP/80": held for ListenerSet rival/web, which is not stored or no longer asks for it; ` +
		`it is free again within seconds, try again then, on port TCP/80 of Gateway edge/public; free for namespace "shop" nearby: 78, 79, 81`}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if problems := Conflict(f, r, whole(81), held(whole(81)), 0); len(problems) != 1 {
		t.Errorf("a conflict is told, whatever it is about: %v", problems)
	}
}

// TestPolicyOfAClass covers the rules of a class that names the Gateway, for listeners of tenants.
func TestPolicyOfAClass(t *testing.T) {
	ruled := class("public", reserved(1, 1023), allow(5000, 5009, "data", 0), allow(6000, 6009, "", 0, v1beta1.UDP))
	refused := func(path, text string) verdict {
		return verdict{v1beta1.ReasonPortNotAllowed, "spec.listeners[" + path + `].port: Forbidden: no allow rule of StreamIngressClass "public", which names the Gateway, gives port ` + text}
	}
	inEdge := claim.ListenerSetHolder("edge", "extra")
	for name, tc := range map[string]struct {
		by      claim.Holder
		classes []*v1beta1.StreamIngressClass
		labels  labels.Set
		before  []Listener
		in      []Listener
		want    []verdict
	}{
		"a port that it gets": {in: []Listener{tcp(5000), udp(5009), http(5001, "a")}},
		"a port that is reserved": {in: []Listener{tcp(5000), http(80, "a")}, want: []verdict{{v1beta1.ReasonPortReserved,
			`spec.listeners[1].port: Invalid value: 80: StreamIngressClass "public", which names the Gateway, reserves this port; free for namespace "shop" nearby: 5001, 5002, 5003`}}},
		"a port that nobody gets":       {in: []Listener{tcp(7000)}, want: []verdict{refused("0", `TCP/7000 to namespace "shop"; free for namespace "shop" nearby: 5007, 5008, 5009`)}},
		"a port of UDP only":            {in: []Listener{udp(6000), tcp(6000)}, want: []verdict{refused("1", `TCP/6000 to namespace "shop"; free for namespace "shop" nearby: 5007, 5008, 5009`)}},
		"a port of another team":        {labels: labels.Set{"team": "web"}, in: []Listener{udp(5000)}, want: []verdict{refused("0", `UDP/5000 to namespace "shop"; free for namespace "shop" nearby: 6000, 6001, 6002`)}},
		"nothing that it could get":     {labels: labels.Set{"team": "web"}, in: []Listener{tcp(5000)}, want: []verdict{refused("0", `TCP/5000 to namespace "shop"; no port of this Gateway is free for namespace "shop"`)}},
		"a protocol that may be UDP":    {in: []Listener{other(6000)}, want: []verdict{refused("0", `TCP/6000 to namespace "shop"; free for namespace "shop" nearby: 5007, 5008, 5009`)}},
		"a port that it had":            {before: []Listener{tcp(80), tcp(7000)}, in: []Listener{tcp(7000), tcp(80), tcp(5000)}},
		"of the Gateway itself":         {by: itsOwn, in: []Listener{tcp(80), tcp(7000)}},
		"of the Gateway's namespace":    {by: inEdge, in: []Listener{tcp(80), tcp(7000)}},
		"of a class of another Gateway": {classes: []*v1beta1.StreamIngressClass{class("private", reserved(80, 80), elsewhere)}, in: []Listener{tcp(80)}},
		"of a class without rules":      {classes: []*v1beta1.StreamIngressClass{class("public")}, in: []Listener{tcp(80)}},
		"several": {in: []Listener{tcp(80), tcp(7000)}, want: []verdict{
			{v1beta1.ReasonPortReserved, `spec.listeners[0].port: Invalid value: 80: StreamIngressClass "public", which names the Gateway, reserves this port; free for namespace "shop" nearby: 5000, 5001, 5002`},
			refused("1", `TCP/7000 to namespace "shop"; free for namespace "shop" nearby: 5007, 5008, 5009`)}},
		"of two classes, of which either refuses": {classes: []*v1beta1.StreamIngressClass{class("a"), ruled}, in: []Listener{tcp(7000)},
			want: []verdict{refused("0", `TCP/7000 to namespace "shop"; free for namespace "shop" nearby: 5007, 5008, 5009`)}},
		"of two classes, which give what both give": {classes: []*v1beta1.StreamIngressClass{ruled, class("more", allow(5003, 6500, "", 0))}, in: []Listener{tcp(7000)},
			want: []verdict{refused("0", `TCP/7000 to namespace "shop"; free for namespace "shop" nearby: 5007, 5008, 5009`)}},
		"of two classes, of which one is of another Gateway": {classes: []*v1beta1.StreamIngressClass{ruled, class("more", allow(5003, 5003, "", 0), elsewhere)}, in: []Listener{tcp(7000)},
			want: []verdict{refused("0", `TCP/7000 to namespace "shop"; free for namespace "shop" nearby: 5007, 5008, 5009`)}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.by == (claim.Holder{}) {
				tc.by = me
			}
			if tc.classes == nil {
				tc.classes = []*v1beta1.StreamIngressClass{ruled}
			}
			if tc.labels == nil {
				tc.labels = labels.Set{"team": "data"}
			}
			r := asks(opener(tc.by, tc.in...), opener(tc.by, tc.before...).Listeners...)
			r.Classes, r.Scopes = tc.classes, append(r.Scopes, first)
			f := &facts{namespaces: map[string]labels.Set{"shop": tc.labels}}
			if diff := cmp.Diff(tc.want, verdicts(Judge(f, r, noGrace))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// crowded are facts of a Gateway on which somebody listens at every port.
type crowded struct {
	facts
	asked int
}

func (f *crowded) Listens(types.NamespacedName, stream.PortKey) bool {
	f.asked++
	return true
}

// TestRefusalsTakeNoLongerWhereManyListen has an object ask for as much as it can where all is taken, by which it would be stored unjudged if
// that took longer than the API server waits.
func TestRefusalsTakeNoLongerWhereManyListen(t *testing.T) {
	f := &crowded{facts: facts{claims: map[string]*v1beta1.EdgeClaim{}}}
	var listeners []Listener
	for port := range int32(64) {
		listeners = append(listeners, tcp(5000+port))
		for name, c := range held(rival, whole(5000+port)) {
			f.claims[name] = c
		}
	}
	problems := Judge(f, asks(opener(me, listeners...)), func(*v1beta1.EdgeClaim) time.Duration { return 0 })
	if len(problems) == 0 || len(problems) > 8 {
		t.Errorf("refused for %d reasons", len(problems))
	}
	if f.asked > 500 {
		t.Errorf("asked %d times who listens", f.asked)
	}
}

func TestWithin(t *testing.T) {
	o := Opener{Of: types.NamespacedName{Namespace: "edge", Name: "gw"}, Listeners: []Listener{http(80, "a"), tcp(81)}}
	if problems := Within(o); len(problems) > 0 {
		t.Errorf("got %v", problems.ErrorList())
	}
	o.Listeners = append(o.Listeners, tcp(80))
	if problems := Within(o); len(problems) != 2 || problems[0].Err.BadValue != "a" || problems[1].Err.BadValue != "TCP/80" {
		t.Errorf("got %v", problems.ErrorList())
	}
}
