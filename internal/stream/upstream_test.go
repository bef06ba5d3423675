package stream

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// postgres is a Service with a TCP and a UDP port, a pair on one number, and a port without protocol.
var postgres = &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
	{Name: "sql", Protocol: corev1.ProtocolTCP, Port: 5432},
	{Name: "stats", Protocol: corev1.ProtocolUDP, Port: 8125},
	{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53},
	{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53},
	{Name: "old", Port: 99},
}}}

func TestFindPort(t *testing.T) {
	for name, tc := range map[string]struct {
		port     string
		protocol v1beta1.Protocol
		want     int32
	}{
		"by number":                        {"5432", v1beta1.TCP, 5432},
		"by name":                          {"sql", v1beta1.TCP, 5432},
		"by number, for UDP":               {"8125", v1beta1.UDP, 8125},
		"one of a pair":                    {"53", v1beta1.UDP, 53},
		"the other of the pair":            {"dns-tcp", v1beta1.TCP, 53},
		"a name of the other protocol":     {"dns", v1beta1.TCP, 0},
		"a number of the other protocol":   {"5432", v1beta1.UDP, 0},
		"a port without protocol is TCP":   {"old", v1beta1.TCP, 99},
		"a port without protocol, for UDP": {"99", v1beta1.UDP, 0},
		"no such number":                   {"1", v1beta1.TCP, 0},
		"no such name":                     {"http", v1beta1.TCP, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := FindPort(postgres, intstr.Parse(tc.port), tc.protocol)
			if got != tc.want || found != (tc.want != 0) {
				t.Errorf("got %d, %v, want %d", got, found, tc.want)
			}
		})
	}
}

func TestEntryFor(t *testing.T) {
	for name, tc := range map[string]struct {
		spec    v1beta1.StreamIngressSpec
		svc     *corev1.Service
		current string
		want    string
	}{
		"a port by number": {
			spec: to("db", "5432"), svc: postgres, want: "shop/db:5432"},
		"a port by number needs no Service": {
			spec: to("db", "5432"), want: "shop/db:5432"},
		"a port by name becomes a number": {
			spec: to("db", "sql"), svc: postgres, want: "shop/db:5432"},
		"a port by name without Service is not known": {
			spec: to("db", "sql")},
		"a port by name that the Service has not is not known": {
			spec: to("db", "http"), svc: postgres},
		"a port by name keeps its number while the Service is away": {
			spec: to("db", "sql"), current: "shop/db:5432", want: "shop/db:5432"},
		"a port by name keeps its number while the Service has no such port": {
			spec: to("db", "http"), svc: postgres, current: "shop/db:8080", want: "shop/db:8080"},
		"a port by name takes no number that the Service has under another name": {
			spec: to("db", "http"), svc: postgres, current: "shop/db:5432"},
		"a port by name takes no number of another Service": {
			spec: to("db", "sql"), current: "shop/other:5432"},
		"a port by name takes no number of another namespace": {
			spec: to("db", "sql"), current: "web/db:5432"},
		"what stands there is set right": {
			spec: to("db", "5432"), svc: postgres, current: "shop/other:1", want: "shop/db:5432"},
		"what can't be read is set right": {
			spec: to("db", "5432"), svc: postgres, current: "%$", want: "shop/db:5432"},
		"an adopted entry keeps the name of its port": {
			spec: to("db", "5432"), svc: postgres, current: "shop/db:sql", want: "shop/db:sql"},
		"an adopted entry keeps the name of its port while the Service is away": {
			spec: to("db", "5432"), current: "shop/db:sql", want: "shop/db:sql"},
		"an entry that names another port is set right": {
			spec: to("db", "53"), svc: postgres, current: "shop/db:sql", want: "shop/db:53"},
		"an entry with another PROXY is set right": {
			spec: to("db", "5432"), svc: postgres, current: "shop/db:sql:PROXY", want: "shop/db:5432"},
		"the older spelling of a Service": {
			spec: v1beta1.StreamIngressSpec{Upstream: v1beta1.StreamUpstream{Host: "some-tcp-port", Port: intstr.FromInt32(1234)}},
			want: "shop/some-tcp-port:1234"},
		"another namespace": {
			spec: v1beta1.StreamIngressSpec{Upstream: v1beta1.StreamUpstream{Namespace: "dns", Service: "main", Port: intstr.FromInt32(53)}},
			want: "dns/main:53"},
		"an upstream outside": {
			spec: v1beta1.StreamIngressSpec{IsService: new(false), Upstream: v1beta1.StreamUpstream{Host: "db.example.com", Port: intstr.FromInt32(5432)}},
			want: "shop/sti-postgres:5432"},
		"accepting and sending PROXY": {
			spec: with(to("db", "5432"), func(s *v1beta1.StreamIngressSpec) { s.ProxyProtocol = &v1beta1.ProxyProtocol{Accept: true, Send: true} }),
			want: "shop/db:5432:PROXY:PROXY"},
		"sending PROXY": {
			spec: with(to("db", "5432"), func(s *v1beta1.StreamIngressSpec) { s.ProxyProtocol = &v1beta1.ProxyProtocol{Send: true} }),
			want: "shop/db:5432::PROXY"},
		"UDP knows no PROXY": {
			spec: with(to("db", "53"), func(s *v1beta1.StreamIngressSpec) {
				s.Protocol, s.ProxyProtocol = v1beta1.UDP, &v1beta1.ProxyProtocol{Accept: true}
			}),
			want: "shop/db:53"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &v1beta1.StreamIngress{Spec: tc.spec}
			s.Namespace, s.Name = "shop", "postgres"
			got, ok := EntryFor(s, tc.svc, tc.current)
			if ok != (tc.want != "") {
				t.Fatalf("got %v, %v", got, ok)
			}
			if ok && got.String() != tc.want {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

func to(service, port string) v1beta1.StreamIngressSpec {
	return v1beta1.StreamIngressSpec{Upstream: v1beta1.StreamUpstream{Service: service, Port: intstr.Parse(port)}}
}

func with(spec v1beta1.StreamIngressSpec, change func(*v1beta1.StreamIngressSpec)) v1beta1.StreamIngressSpec {
	change(&spec)
	return spec
}

func TestWithNumber(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		svc  *corev1.Service
		want string
	}{
		"a name that is known":    {"shop/db:sql:PROXY", postgres, "shop/db:5432:PROXY"},
		"a name that is not":      {"shop/db:http", postgres, "shop/db:http"},
		"a number":                {"shop/db:5432", postgres, "shop/db:5432"},
		"a number it has not":     {"shop/db:1", postgres, "shop/db:1"},
		"a name, without Service": {"shop/db:sql", nil, "shop/db:sql"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := entry(tc.in).WithNumber(tc.svc, v1beta1.TCP); got.String() != tc.want {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}
