package stream

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

var (
	rival     = claim.StreamHolder("team-b", "redis")
	tcpMap    = claim.ConfigMapHolder("edge", "public-tcp")
	proxy     = claim.ServiceHolder("edge", "public")
	theirs    = sti(named("team-b", "redis"), listen(6379))
	isRunning = map[string]*v1beta1.StreamIngress{"team-b/redis": theirs}
)

// TestConflict has the whole text of each refusal: people read it inline, and it is all they get.
func TestConflict(t *testing.T) {
	const (
		free   = `; free for namespace "shop" nearby: 6377, 6378, 6380`
		handed = `; or have its holder hand it over, by the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: shop/postgres`
	)
	conflict := func(text string) []verdict {
		return []verdict{{v1beta1.ReasonPortConflict, `spec.listen: Duplicate value: "TCP/6379": ` + text}}
	}
	for name, tc := range map[string]struct {
		facts facts
		class *v1beta1.StreamIngressClass
		grace time.Duration
		want  []verdict
	}{
		"a stream has it": {
			facts: facts{streams: isRunning, claims: claims(rival, tcp(6379))},
			want:  conflict(`held by StreamIngress team-b/redis since 2026-07-01T12:30:00Z on class "public"` + free + handed),
		},
		"a key of a ConfigMap has it": {
			facts: facts{claims: claims(tcpMap, tcp(6379))},
			want:  conflict(`held by ConfigMap edge/public-tcp since 2026-07-01T12:30:00Z on class "public"` + free),
		},
		"a port of the proxy's Service has it": {
			facts: facts{claims: claims(proxy, tcp(6379))},
			want:  conflict(`held by Service edge/public since 2026-07-01T12:30:00Z on class "public"` + free),
		},
		"the free ports are those that the namespace may use": {
			facts: facts{streams: isRunning, claims: both(claims(rival, tcp(6379), tcp(7001)), claims(proxy, tcp(7003)))},
			class: class("public", allow(6379, 6379, ""), allow(7000, 7004, ""), reserved(7000, 0)),
			want: conflict(`held by StreamIngress team-b/redis since 2026-07-01T12:30:00Z on class "public"` +
				`; free for namespace "shop" nearby: 7002, 7004` + handed),
		},
		"no port at all is free": {
			facts: facts{streams: isRunning, claims: claims(rival, tcp(6379))},
			class: class("public", allow(6379, 6379, ""), autoAssign(20000, 20999)),
			want: conflict(`held by StreamIngress team-b/redis since 2026-07-01T12:30:00Z on class "public"` +
				`; no port of this class is free for namespace "shop"` + handed),
		},
		"a port could be auto-assigned instead": {
			facts: facts{streams: isRunning, claims: claims(rival, tcp(6379))}, class: class("public", autoAssign(20000, 20999)),
			want: conflict(`held by StreamIngress team-b/redis since 2026-07-01T12:30:00Z on class "public"` + free +
				`; or leave listen out to be given a port` + handed),
		},
		"none could be auto-assigned instead": {
			facts: facts{streams: isRunning, claims: claims(rival, tcp(6379), tcp(20000))}, class: class("public", autoAssign(20000, 20000)),
			want: conflict(`held by StreamIngress team-b/redis since 2026-07-01T12:30:00Z on class "public"` + free + handed),
		},
		"its holder is not stored, and may be on its way": {
			facts: facts{claims: claims(rival, tcp(6379))}, grace: 104*time.Second + 600*time.Millisecond,
			want: conflict(`held for StreamIngress team-b/redis, which is not stored or no longer asks for it, on class "public"; ` +
				`it is free again in at most 1m45s, try again then` + free),
		},
		"its holder was deleted just now": {
			facts: facts{claims: claims(rival, tcp(6379))},
			want: conflict(`held for StreamIngress team-b/redis, which is not stored or no longer asks for it, on class "public"; ` +
				`it is free again within seconds, try again then` + free),
		},
		"its holder has moved to another port": {
			facts: facts{streams: map[string]*v1beta1.StreamIngress{"team-b/redis": sti(named("team-b", "redis"), listen(6380))}, claims: claims(rival, tcp(6379))},
			want: conflict(`held for StreamIngress team-b/redis, which is not stored or no longer asks for it, on class "public"; ` +
				`it is free again within seconds, try again then` + free),
		},
		"its holder has moved to another class": {
			facts: facts{streams: map[string]*v1beta1.StreamIngress{"team-b/redis": sti(named("team-b", "redis"), of("internal"), listen(6379))}, claims: claims(rival, tcp(6379))},
			want: conflict(`held for StreamIngress team-b/redis, which is not stored or no longer asks for it, on class "public"; ` +
				`it is free again within seconds, try again then` + free),
		},
		"its holder was given it": {
			facts: facts{streams: map[string]*v1beta1.StreamIngress{"team-b/redis": sti(named("team-b", "redis"), of(""), servedBy("public", 6379))}, claims: claims(rival, tcp(6379))},
			want:  conflict(`held by StreamIngress team-b/redis since 2026-07-01T12:30:00Z on class "public"` + free + handed),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.class == nil {
				tc.class = class("public")
			}
			tc.facts.classes = []*v1beta1.StreamIngressClass{tc.class}
			decide(t, &tc.facts, func(f Facts) refusal.Problems {
				return Conflict(f, sti(listen(6379)), tcp(6379), tc.facts.claims[tcp(6379)], tc.grace)
			}, tc.want...)
		})
	}
}

// TestAdoption asks what a stream may take over from what stood there before Portcullis.
func TestAdoption(t *testing.T) {
	entry := func(text string) map[PortKey]Foreign {
		return map[PortKey]Foreign{{Protocol: v1beta1.TCP, Port: 6379}: {Holder: claim.Claimant{Holder: tcpMap, UID: "cm"}, Entry: text}}
	}
	port := map[PortKey]Foreign{{Protocol: v1beta1.TCP, Port: 6379}: {Holder: claim.Claimant{Holder: proxy, UID: "svc"}}}
	services := map[string]*corev1.Service{"shop/db": db, "data/db": db}
	heldBy := func(holder string) []verdict {
		return []verdict{{v1beta1.ReasonPortConflict, `spec.listen: Duplicate value: "TCP/6379": held by ` + holder +
			` on class "public"; free for namespace "shop" nearby: 6377, 6378, 6380`}}
	}
	for name, tc := range map[string]struct {
		foreign map[PortKey]Foreign
		claims  map[claim.Coordinate]*v1beta1.EdgeClaim
		grants  map[string]bool
		in      *v1beta1.StreamIngress
		adopts  bool
		want    []verdict
	}{
		"nothing stands there":                    {in: sti(listen(6379))},
		"something stands at another port":        {foreign: entry("shop/db:5432"), in: sti(listen(6380))},
		"the same entry":                          {foreign: entry("shop/db:5432"), in: sti(listen(6379)), adopts: true},
		"the same entry, its port by name":        {foreign: entry("shop/db:sql"), in: sti(listen(6379)), adopts: true},
		"the same entry, our port by name":        {foreign: entry("shop/db:5432"), in: sti(listen(6379), leadingTo("", "db", "sql")), adopts: true},
		"the same entry, in another spelling":     {foreign: entry("shop/db:5432::"), in: sti(listen(6379)), adopts: true},
		"the same entry in another namespace":     {foreign: entry("data/db:5432"), grants: map[string]bool{"shop -> data/db": true}, in: sti(listen(6379), leadingTo("data", "db", "5432")), want: heldBy("ConfigMap edge/public-tcp")},
		"the same entry, without consent":         {foreign: entry("data/db:5432"), in: sti(listen(6379), leadingTo("data", "db", "5432")), want: heldBy("ConfigMap edge/public-tcp")},
		"another Service":                         {foreign: entry("shop/other:5432"), in: sti(listen(6379)), want: heldBy("ConfigMap edge/public-tcp")},
		"another port":                            {foreign: entry("shop/db:80"), in: sti(listen(6379)), want: heldBy("ConfigMap edge/public-tcp")},
		"another PROXY":                           {foreign: entry("shop/db:5432:PROXY"), in: sti(listen(6379)), want: heldBy("ConfigMap edge/public-tcp")},
		"an entry that can't be read":             {foreign: entry("#{}"), in: sti(listen(6379)), want: heldBy("ConfigMap edge/public-tcp")},
		"our port by name, which no Service has":  {foreign: entry("shop/db:5432"), in: sti(listen(6379), leadingTo("", "db", "nosuch")), want: heldBy("ConfigMap edge/public-tcp")},
		"a port of the Service":                   {foreign: port, in: sti(listen(6379)), want: heldBy("Service edge/public")},
		"another Service, and the ledger knows":   {foreign: entry("shop/other:5432"), claims: claims(tcpMap, tcp(6379)), in: sti(listen(6379))},
		"another Service, and a stream claims it": {foreign: entry("shop/other:5432"), claims: claims(me, tcp(6379)), in: sti(listen(6379))},
	} {
		t.Run(name, func(t *testing.T) {
			w := &facts{classes: []*v1beta1.StreamIngressClass{class("public")}, foreign: tc.foreign, claims: tc.claims, grants: tc.grants, services: services}
			var adopted *v1beta1.AdoptedEntry
			decide(t, w, func(f Facts) refusal.Problems {
				a := AdoptionOf(f, tc.in, w.classes[0], tcp(*tc.in.Spec.Listen))
				adopted = a.Adopts
				return a.Problems
			}, tc.want...)
			var want *v1beta1.AdoptedEntry
			if tc.adopts {
				f := tc.foreign[PortKey{Protocol: v1beta1.TCP, Port: 6379}]
				want = &v1beta1.AdoptedEntry{Holder: tcpMap.Spec("cm"), Entry: f.Entry}
			}
			if !reflect.DeepEqual(adopted, want) {
				t.Errorf("it adopts %+v, want %+v", adopted, want)
			}
		})
	}
}

// crowded is a class with every port but one claimed.
type crowded struct {
	facts
	claimed PortSet
}

func (c *crowded) Unclaimed(ports *PortSet, _ string, _ v1beta1.Protocol) {
	ports.Subtract(&c.claimed)
}

func BenchmarkConflictAmong65535Claims(b *testing.B) {
	c := &crowded{facts: facts{classes: []*v1beta1.StreamIngressClass{class("public", autoAssign(20000, 20999), reserved(1, 1023))}, streams: isRunning}}
	c.claimed.AddRange(1, 65534)
	held, s := claims(rival, tcp(6379))[tcp(6379)], sti(listen(6379))
	for b.Loop() {
		Conflict(c, s, tcp(6379), held, 0)
	}
}
