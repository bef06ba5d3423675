package guard

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestListenersOfANamespace has a rule for 5000-5009, of which a namespace gets two, and one for 5005-5099, of which it gets three.
func TestListenersOfANamespace(t *testing.T) {
	limited := class("public", allow(5000, 5009, "data", 2), allow(5005, 5099, "", 3), allow(8000, 8999, "", 0))
	stream, mine := claim.StreamHolder("shop", "db"), claim.ListenerSetHolder("shop", "other")
	of := func(class string, port int32) claim.Coordinate { return claim.Stream(class, v1beta1.TCP, port) }
	refused := func(index, port, has int) []verdict {
		return []verdict{{v1beta1.ReasonNamespaceLimitReached, fmt.Sprintf(`spec.listeners[%d].port: Invalid value: %d: StreamIngressClass "public", which names the Gateway, `+
			`gives at most 2 port(s) of 5000-5009 to one namespace (spec.allow[0].maxPerNamespace), and namespace "shop" would have %d: delete a stream or a listener`, index, port, has)}}
	}
	for name, tc := range map[string]struct {
		class  *v1beta1.StreamIngressClass
		claims map[string]*v1beta1.EdgeClaim
		labels labels.Set
		before []Listener
		in     []Listener
		want   []verdict
	}{
		"two":                              {in: []Listener{tcp(5000), udp(5001)}},
		"three":                            {in: []Listener{tcp(5000), tcp(5001), tcp(5002)}, want: refused(0, 5000, 3)},
		"three, of which one is elsewhere": {in: []Listener{tcp(5000), tcp(5001), tcp(5050)}},
		"a port with many host names":      {in: []Listener{tls(5000, "a"), tls(5000, "b"), https(5000, "*"), http(5000, "a"), tcp(5001)}},
		"a port of both protocols":         {in: []Listener{tcp(5000), udp(5000)}},
		"a port of a protocol that may be both counts twice": {in: []Listener{other(5000), tcp(5001)}, want: refused(0, 5000, 3)},
		"one beside a stream":                                {claims: held(stream, of("public", 5001)), in: []Listener{tcp(5000)}},
		"one beside two streams":                             {claims: held(stream, of("public", 5001), of("public", 5002)), in: []Listener{tcp(5000)}, want: refused(0, 5000, 3)},
		"one beside streams of another class":                {claims: held(stream, of("private", 5001), of("private", 5002)), in: []Listener{tcp(5000)}},
		"one beside what is no stream":                       {claims: held(claim.ConfigMapHolder("shop", "tcp"), of("public", 5001), of("public", 5002)), in: []Listener{tcp(5000)}},
		"one beside a stream and a listener":                 {claims: join(held(stream, of("public", 5001)), held(mine, whole(5002))), in: []Listener{tcp(5000)}, want: refused(0, 5000, 3)},
		"one beside host names at one port":                  {claims: held(mine, name(5002, "a"), name(5002, "b"), name(5002, "*")), in: []Listener{tcp(5000)}},
		"a host name at a port of the namespace":             {claims: join(held(mine, name(5002, "a")), held(stream, of("public", 5001))), in: []Listener{tls(5002, "b")}},
		"one beside listeners at another Gateway":            {claims: held(mine, claim.Listener(first, v1beta1.TCP, 5001), claim.Listener(first, v1beta1.TCP, 5002)), in: []Listener{tcp(5000)}},
		"one beside those of another namespace":              {claims: held(rival, whole(5001), whole(5002)), in: []Listener{tcp(5000)}},
		"one more than it has":                               {claims: held(me, whole(5000), whole(5001)), before: []Listener{tcp(5000), tcp(5001)}, in: []Listener{tcp(5000), tcp(5001), tcp(5002)}, want: refused(2, 5002, 3)},
		"one instead of one that it has":                     {claims: held(me, whole(5000), whole(5001)), before: []Listener{tcp(5000), tcp(5001)}, in: []Listener{tcp(5000), tcp(5002)}},
		"another host name where it has too many":            {claims: held(me, name(5000, "a"), whole(5001), whole(5002)), before: []Listener{tls(5000, "a"), tcp(5001), tcp(5002)}, in: []Listener{tls(5000, "a"), tcp(5001), tcp(5002), tls(5000, "b")}},
		"fewer, of what is too many":                         {claims: held(me, whole(5000), whole(5001), whole(5002), whole(5003)), before: []Listener{tcp(5000), tcp(5001), tcp(5002), tcp(5003)}, in: []Listener{tcp(5001), tcp(5002), tcp(5003)}},
		"what another rule gives":                            {claims: held(mine, whole(5001), whole(5002)), in: []Listener{tcp(5010), tcp(5011), tcp(5012)}},
		"what a rule without a limit gives":                  {claims: held(mine, whole(5001), whole(5002)), in: []Listener{tcp(8000), tcp(8001), tcp(8002), tcp(8003)}},
		"a namespace that another rule is for":               {labels: labels.Set{"team": "web"}, claims: held(mine, whole(5006)), in: []Listener{tcp(5007), tcp(5008)}},
		"a class of another Gateway":                         {class: class("public", allow(1, 65535, "", 1), elsewhere), in: []Listener{tcp(5000), tcp(5001)}},
		"a class without limits":                             {class: class("public", allow(1, 65535, "", 0)), claims: held(mine, whole(5001), whole(5002)), in: []Listener{tcp(5000)}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.class == nil {
				tc.class = limited
			}
			if tc.labels == nil {
				tc.labels = labels.Set{"team": "data"}
			}
			r := asks(opener(me, tc.in...), opener(me, tc.before...).Listeners...)
			r.Classes, r.Scopes = []*v1beta1.StreamIngressClass{tc.class}, append(r.Scopes, first)
			f := &facts{namespaces: map[string]labels.Set{"shop": tc.labels}, claims: tc.claims}
			if diff := cmp.Diff(tc.want, verdicts(Judge(f, r, noGrace))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
