package stream

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// edge is a proxy and what stands in front of it, after Portcullis has applied its plans.
type edge struct {
	entries map[v1beta1.Protocol]map[string]string
	open    map[PortKey]bool
}

// plan does to the files in testdata what the API server does when Portcullis applies its plans: what is ours and is no
// longer applied goes, unless others own it too.
func plan(t *testing.T, configMap, service string, wanted map[PortKey]string) edge {
	t.Helper()
	e := edge{entries: map[v1beta1.Protocol]map[string]string{}, open: map[PortKey]bool{}}
	open := map[PortKey]bool{}
	for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
		var now Current
		if protocol == v1beta1.TCP {
			now = must(Entries(configMapFrom(t, configMap)))(t)
		}
		asked := map[int32]Entry{}
		for at, text := range wanted {
			if at.Protocol == protocol {
				asked[at.Port], open[at] = entry(text), true
			}
		}
		p := PlanEntries(now, asked, MaxConfigMapBytes)
		data := maps.Clone(now.Data)
		if data == nil {
			data = map[string]string{}
		}
		maps.DeleteFunc(data, func(k, _ string) bool {
			port, ok := ParseKey(k)
			return ok && now.Ours[port] && !foreign(now, port)
		})
		maps.Copy(data, p.Data)
		e.entries[protocol] = data
	}
	front := must(Ports(serviceFrom(t, service)))(t)
	p := PlanPorts(front, open)
	for at := range front.Foreign {
		e.open[at] = true
	}
	for _, at := range append(p.Current, p.Missing...) {
		e.open[at] = true
	}
	return e
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// whoAnswers is where a connection to a port of the edge ends: nowhere, at the proxy itself, or at an upstream.
func (e edge) whoAnswers(at PortKey) string {
	upstream, listens := e.entries[at.Protocol][Key(at.Port)]
	switch {
	case !e.open[at] && !listens:
		return ""
	case !e.open[at]:
		return "closed, " + upstream
	case !listens:
		return "the proxy"
	default:
		return upstream
	}
}

// TestWhoAnswers asks what people ask, whatever stood there before.
func TestWhoAnswers(t *testing.T) {
	http, manual := key(v1beta1.TCP, 80), key(v1beta1.TCP, 9000)
	sql, dnsTCP, dnsUDP := key(v1beta1.TCP, 5432), key(v1beta1.TCP, 53), key(v1beta1.UDP, 53)
	for name, tc := range map[string]struct {
		configMap, service string
		wanted             map[PortKey]string
		want               map[PortKey]string
	}{
		"the first stream": {
			"foreign", "foreign", map[PortKey]string{sql: "shop/postgres:5432"},
			map[PortKey]string{sql: "shop/postgres:5432", http: "the proxy", manual: "closed, default/manual:80", dnsUDP: ""},
		},
		"the last stream goes, and only what is ours": {
			"beside", "beside", nil,
			map[PortKey]string{sql: "", dnsTCP: "", dnsUDP: "", http: "the proxy", manual: "closed, default/manual:80"},
		},
		"TCP and UDP on one number": {
			"beside", "beside", map[PortKey]string{dnsTCP: "dns/main:53", dnsUDP: "dns/udp:53"},
			map[PortKey]string{dnsTCP: "dns/main:53", dnsUDP: "dns/udp:53", sql: ""},
		},
		"a key that was edited by hand is set right": {
			"edited", "beside", map[PortKey]string{sql: "shop/postgres:5432", dnsTCP: "dns/main:53"},
			map[PortKey]string{sql: "shop/postgres:5432", dnsTCP: "dns/main:53", key(v1beta1.TCP, 7000): "closed, a/b:1"},
		},
		"a pair that somebody dropped is back": {
			"beside", "dropped", map[PortKey]string{dnsTCP: "dns/main:53", dnsUDP: "dns/udp:53"},
			map[PortKey]string{dnsTCP: "dns/main:53", dnsUDP: "dns/udp:53"},
		},
		"a port that somebody pointed elsewhere is back": {
			"beside", "edited", map[PortKey]string{dnsTCP: "dns/main:53"},
			map[PortKey]string{dnsTCP: "dns/main:53", dnsUDP: ""},
		},
		"an adopted key is theirs again when the stream goes": {
			"adopted", "foreign", nil,
			map[PortKey]string{manual: "closed, default/manual:80"},
		},
		"what others have applied too stays open": {
			"both", "both", nil,
			map[PortKey]string{sql: "closed, shop/postgres:5432", dnsTCP: "the proxy"},
		},
		"a Service that forgot who owns its ports loses none": {
			"beside", "reset", map[PortKey]string{dnsTCP: "dns/main:53"},
			map[PortKey]string{dnsTCP: "dns/main:53", http: "the proxy"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, got := plan(t, tc.configMap, tc.service, tc.wanted), map[PortKey]string{}
			for at := range tc.want {
				got[at] = e.whoAnswers(at)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
