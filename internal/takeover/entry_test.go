package takeover

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestStreams(t *testing.T) {
	asks := func(key string, listen int32, change func(*v1beta1.StreamIngress)) func(*Cluster) {
		return func(c *Cluster) {
			s := &v1beta1.StreamIngress{ObjectMeta: metaOf(key), Spec: v1beta1.StreamIngressSpec{
				ClassName: "public", Protocol: v1beta1.TCP, Listen: &listen, Upstream: v1beta1.StreamUpstream{Service: "db", Port: intstr.FromInt32(5432)},
			}}
			if change != nil {
				change(s)
			}
			c.Streams = append(c.Streams, s)
		}
	}
	elsewhere := func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Service = "other" }
	held := func(s *v1beta1.StreamIngress) {
		elsewhere(s)
		s.Status = v1beta1.StreamIngressStatus{ClassName: "public", Listen: 5432, Conditions: []metav1.Condition{
			{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionTrue}}}
	}
	for name, tc := range map[string]struct {
		port, entry string
		change      []func(*Cluster)
		in          string
		want        string // the upstream, empty for no stream
		held        bool
		says        string
	}{
		"a number":                           {port: "5432", entry: "shop/db:5432", want: "db:5432"},
		"a name":                             {port: "5432", entry: "shop/db:sql", want: "db:sql"},
		"PROXY":                              {port: "5432", entry: "shop/db:5432::proxy", want: "db:5432 false true"},
		"a Service that is not there":        {port: "5432", entry: "shop/later:1", want: "later:1"},
		"a name of a Service that is away":   {port: "5432", entry: "shop/later:sql", want: "later:sql", held: true, says: "there is no Service shop/later"},
		"a name that the Service lacks":      {port: "5432", entry: "shop/db:dns", want: "db:dns", held: true, says: `no TCP port "dns"`},
		"a namespace that is not there":      {port: "5432", entry: "gone/db:1", want: "db:1", held: true, says: "namespace gone does not exist"},
		"a port that is not open":            {port: "7000", entry: "shop/db:1", want: "db:1", held: true, says: "is not open"},
		"a port of the proxy":                {port: "443", entry: "shop/db:1", says: "listens on this port itself"},
		"no port":                            {port: "x", entry: "shop/db:1", says: "is no port"},
		"no entry":                           {port: "5432", entry: "shop", says: "is not namespace/service:port"},
		"lines":                              {port: "5432", entry: "a\n---\nb", says: `"a\n---\nb"`},
		"of another namespace":               {port: "5432", entry: "shop/db:1", in: "evil"},
		"of the namespace":                   {port: "5432", entry: "shop/db:1", in: "shop", want: "db:1"},
		"what can't be read, in a namespace": {port: "5432", entry: "x", in: "shop"},
		"a stream that says the same":        {port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/mine", 5432, nil)}},
		"a stream of another namespace": {
			port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("evil/x", 5432, held)}, want: "db:5432"},
		"a stream that has it and leads elsewhere": {port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/mine", 5432, held)}},
		"a stream that asks for it and leads elsewhere": {
			port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/mine", 5432, elsewhere)},
			want: "db:5432", held: true, says: "StreamIngress shop/mine is there"},
		"a stream of the name": {
			port: "5432", entry: "shop/db:5432", change: []func(*Cluster){asks("shop/public-tcp-5432", 1, nil)},
			want: "db:5432", held: true, says: "and says something else"},
		"the same port of a proxy in another place": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", change: []func(*Cluster){
				configMap("shop/tcp", map[string]string{"5432": "shop/db:1"}), workload("shop/p", "shop/tcp", "shop/front", 5432)}},
		"the same port of a proxy in the same place": {
			port: "5432", entry: "shop/db:5432", want: "db:5432", says: "ConfigMap ingress-nginx/second has this port, too", change: []func(*Cluster){
				configMap("ingress-nginx/second", map[string]string{"5432": "shop/db:1"}),
				workload("ingress-nginx/p", "ingress-nginx/second", "ingress-nginx/front", 5432), class("second", "ingress-nginx/second")},
			in: "shop"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWith(append([]func(*Cluster){
				configMap("ingress-nginx/tcp", map[string]string{tc.port: tc.entry}), class("public", "ingress-nginx/tcp"),
				workload("ingress-nginx/a", "ingress-nginx/tcp", "ingress-nginx/front", 80, 443, 5432),
			}, tc.change...)...)
			c.Services = uniqueFronts(c.Services)
			found, said := false, []string(nil)
			for _, d := range StreamsOf(c, Options{Namespace: tc.in}) {
				said = append(said, d.Decisions...)
				s, is := d.Object.(*v1beta1.StreamIngress)
				if !is || s.Spec.ClassName != "public" {
					continue
				}
				found = true
				got := s.Spec.Upstream.Service + ":" + s.Spec.Upstream.Port.String()
				if pp := s.Spec.ProxyProtocol; pp != nil {
					got += map[bool]string{true: " true", false: " false"}[pp.Accept] + map[bool]string{true: " true", false: " false"}[pp.Send]
				}
				if got != tc.want || d.Held != tc.held || s.Name != "public-tcp-"+tc.port {
					t.Errorf("got %s to %s, %v", s.Name, got, d.Held)
				}
			}
			if found != (tc.want != "") {
				t.Errorf("there is a stream: %v, %q", found, said)
			}
			if tc.says != "" || tc.change == nil {
				says(t, said, tc.says)
			}
		})
	}
}

// TestUDP has words behind the port of an entry that UDP does not know.
func TestUDP(t *testing.T) {
	c := clusterWith(configMap("ingress-nginx/udp", map[string]string{"53": "shop/db:dns:PROXY", "54": "shop/db:dns"}))
	public := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
	public.Spec.UDPConfigMap = &v1beta1.ObjectReference{Namespace: "ingress-nginx", Name: "udp"}
	c.Classes = append(c.Classes, public)
	docs := StreamsOf(c, Options{})
	says(t, docs[0].Decisions, "UDP has no PROXY protocol")
	if len(docs) != 2 || docs[1].Object.GetName() != "public-udp-54" || docs[1].Held {
		t.Errorf("got %+v", docs)
	}
}
