package stream

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

var me = claim.StreamHolder("shop", "postgres")

func TestClassOf(t *testing.T) {
	internal := func(port int32) claim.Coordinate { return claim.Stream("internal", v1beta1.TCP, port) }
	for name, tc := range map[string]struct {
		facts facts
		in    *v1beta1.StreamIngress
		class string
		want  []verdict
	}{
		"the one it names": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("internal"), class("public", isDefault)}},
			in:    sti(of("internal")), class: "internal",
		},
		"the one it names, even when another serves it": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("internal"), class("public")}},
			in:    sti(of("internal"), servedBy("public", 80)), class: "internal",
		},
		"the default class": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("internal"), class("public", isDefault)}},
			in:    sti(of("")), class: "public",
		},
		"the one that serves it, when another is the default now": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("internal"), class("public", isDefault)}},
			in:    sti(of(""), servedBy("internal", 80)), class: "internal",
		},
		"the one it holds a port of, when its status is not written yet": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("internal"), class("public", isDefault)}, claims: claims(me, internal(80))},
			in:    sti(of("")), class: "internal",
		},
		"the one that serves it, when there are several defaults": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("internal", isDefault), class("public", isDefault)}},
			in:    sti(of(""), servedBy("public", 80)), class: "public",
		},
		"none of that name": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("internal"), class("public")}},
			in:    sti(of("nosuch")),
			want: []verdict{{v1beta1.ReasonClassNotFound,
				`spec.className: Not found: "nosuch": there is no StreamIngressClass of this name; name one of internal, public`}},
		},
		"none at all": {
			in: sti(of("nosuch")),
			want: []verdict{{v1beta1.ReasonClassNotFound,
				`spec.className: Not found: "nosuch": there is no StreamIngressClass of this name; there are no classes yet`}},
		},
		"the one that served it is gone": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("public", isDefault)}},
			in:    sti(of(""), servedBy("internal", 80)),
			want: []verdict{{v1beta1.ReasonClassNotFound,
				`spec.className: Not found: "internal": there is no StreamIngressClass of this name; name one of public`}},
		},
		"no default": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("internal"), class("public")}},
			in:    sti(of("")),
			want: []verdict{{v1beta1.ReasonClassNotFound,
				`spec.className: Required value: no class is named, and no StreamIngressClass is annotated ` +
					`nginx-stream.jeffthecoder.xyz/is-default-class: "true"; name one of internal, public`}},
		},
		"several defaults": {
			facts: facts{classes: []*v1beta1.StreamIngressClass{class("a", isDefault), class("b"), class("c", isDefault)}},
			in:    sti(of("")),
			want: []verdict{{v1beta1.ReasonClassAmbiguous,
				`spec.className: Required value: no class is named, and several are marked as default: name one of a, c`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var found *v1beta1.StreamIngressClass
			decide(t, &tc.facts, func(f Facts) (problems refusal.Problems) {
				found, problems = ClassOf(f, tc.in)
				return problems
			}, tc.want...)
			if got := nameOf(found); got != tc.class {
				t.Errorf("class %q, want %q", got, tc.class)
			}
		})
	}
}

func nameOf(c *v1beta1.StreamIngressClass) string {
	if c == nil {
		return ""
	}
	return c.Name
}

func TestWanted(t *testing.T) {
	elsewhere := claim.Stream("internal", v1beta1.TCP, 20001)
	for name, tc := range map[string]struct {
		in   *v1beta1.StreamIngress
		held []claim.Coordinate
		want claim.Coordinate
	}{
		"the port it names":                         {sti(listen(80)), nil, tcp(80)},
		"the port it names, whatever it holds":      {sti(listen(80)), []claim.Coordinate{tcp(20001)}, tcp(80)},
		"the UDP port it names":                     {sti(listen(53), isUDP), nil, udp(53)},
		"nothing, when it names and holds none":     {sti(), nil, claim.Coordinate{}},
		"the port it was given":                     {sti(), []claim.Coordinate{tcp(20001)}, tcp(20001)},
		"the port its status tells, of several":     {sti(servedBy("public", 20002)), []claim.Coordinate{tcp(20001), tcp(20002)}, tcp(20002)},
		"the first of several, when it tells none":  {sti(), []claim.Coordinate{tcp(20001), tcp(20002)}, tcp(20001)},
		"nothing that lies in another class":        {sti(), []claim.Coordinate{elsewhere}, claim.Coordinate{}},
		"nothing of the other protocol":             {sti(), []claim.Coordinate{udp(20001)}, claim.Coordinate{}},
		"the first, when it has lost what it tells": {sti(servedBy("public", 20009)), []claim.Coordinate{tcp(20001)}, tcp(20001)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Wanted(tc.in, "public", tc.held); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestPort leaves out who holds a port: that is for the ledger to say.
func TestPort(t *testing.T) {
	noUDP := func(c *v1beta1.StreamIngressClass) { c.Spec.UDPConfigMap = nil }
	data := map[string]labels.Set{"shop": {"team": "data"}}
	for name, tc := range map[string]struct {
		facts facts
		class *v1beta1.StreamIngressClass
		in    *v1beta1.StreamIngress
		at    claim.Coordinate
		free  []int32
		want  []verdict
	}{
		"any port, where the class has no policy": {
			class: class("public"), in: sti(listen(8080)), at: tcp(8080),
		},
		"the same port again is nobody's business but the ledger's": {
			facts: facts{claims: claims(me, tcp(8080))}, class: class("public"), in: sti(listen(8080)), at: tcp(8080),
		},
		"UDP, where the class has none": {
			class: class("public", noUDP), in: sti(listen(53), isUDP),
			want: []verdict{{v1beta1.ReasonProtocolNotSupported,
				`spec.protocol: Invalid value: "UDP": class "public" has no UDP ports: its udpConfigMap is not set`}},
		},
		"a reserved port": {
			class: class("public", reserved(8080, 8089), autoAssign(20000, 20002)), in: sti(listen(8081)), at: tcp(8081),
			want: []verdict{{v1beta1.ReasonPortReserved,
				`spec.listen: Invalid value: 8081: class "public" reserves this port for itself; ` +
					`free for namespace "shop" nearby: 8077, 8078, 8079; or leave listen out to be given a port`}},
		},
		"a port that no rule gives, and some that one does": {
			facts: facts{namespaces: data}, class: class("public", allow(1, 99, "web"), allow(5000, 5009, "data")), in: sti(listen(80)), at: tcp(80),
			want: []verdict{{v1beta1.ReasonPortNotAllowed,
				`spec.listen: Invalid value: 80: class "public" does not give TCP/80 to namespace "shop"; ` +
					`free for namespace "shop" nearby: 5000, 5001, 5002`}},
		},
		"a port that no rule gives, nor any other": {
			class: class("public", allow(1, 99, "web"), autoAssign(1, 99)), in: sti(listen(80)), at: tcp(80),
			want: []verdict{{v1beta1.ReasonPortNotAllowed,
				`spec.listen: Invalid value: 80: class "public" does not give TCP/80 to namespace "shop"; no port of this class is free for namespace "shop"`}},
		},
		"claimed ports are not free, and a range that is not for the namespace is no advice": {
			facts: facts{namespaces: data, claims: claims(claim.StreamHolder("a", "b"), tcp(5000), tcp(5002), udp(5001))},
			class: class("public", allow(5000, 5009, "data"), autoAssign(20000, 20999)), in: sti(listen(80)), at: tcp(80),
			want: []verdict{{v1beta1.ReasonPortNotAllowed,
				`spec.listen: Invalid value: 80: class "public" does not give TCP/80 to namespace "shop"; ` +
					`free for namespace "shop" nearby: 5001, 5003, 5004`}},
		},
		"a port to be auto-assigned": {
			facts: facts{claims: claims(claim.StreamHolder("a", "b"), tcp(20001), udp(20000))},
			class: class("public", autoAssign(20000, 20003), reserved(20003, 0)), in: sti(), free: []int32{20000, 20002},
		},
		"the port that was auto-assigned before is not assigned again": {
			facts: facts{claims: claims(me, tcp(20001))}, class: class("public", autoAssign(20000, 20003)), in: sti(), at: tcp(20001),
		},
		"the port that was auto-assigned before is kept when the range is gone": {
			facts: facts{claims: claims(me, tcp(20001))}, class: class("public"), in: sti(), at: tcp(20001),
		},
		"no range to auto-assign from": {
			class: class("public"), in: sti(),
			want: []verdict{{v1beta1.ReasonAutoAssignDisabled,
				`spec.listen: Required value: class "public" has no autoAssign range to draw a port from, so the port must be named`}},
		},
		"a range that is used up": {
			facts: facts{claims: claims(claim.StreamHolder("a", "b"), tcp(20000), tcp(20001))},
			class: class("public", autoAssign(20000, 20001)), in: sti(),
			want: []verdict{{v1beta1.ReasonNoFreePort,
				`spec.listen: Required value: the autoAssign range 20000-20001 of class "public" has no free TCP port left for namespace "shop"; ` +
					`name a port, or delete a stream`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.classes = []*v1beta1.StreamIngressClass{tc.class}
			var req Request
			decide(t, &tc.facts, func(f Facts) refusal.Problems {
				var problems refusal.Problems
				req, problems = PortFor(f, tc.in, tc.class)
				return problems
			}, tc.want...)
			if req.At != tc.at || req.Class != tc.class {
				t.Errorf("asks for %v of %s, want %v", req.At, nameOf(req.Class), tc.at)
			}
			if diff := cmp.Diff(tc.free, listed(req.Free)); len(tc.want) == 0 && diff != "" {
				t.Error(diff)
			}
		})
	}
}
