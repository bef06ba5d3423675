package stream

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestMovesAndRedirects changes one field of a stream after the other. What neither moves nor redirects it is never
// judged again.
func TestMovesAndRedirects(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after    *v1beta1.StreamIngress
		moves, redirects bool
	}{
		"nothing":                            {sti(listen(80)), sti(listen(80)), false, false},
		"a label":                            {sti(listen(80)), sti(listen(80), func(s *v1beta1.StreamIngress) { s.Labels = map[string]string{"a": "b"} }), false, false},
		"the status":                         {sti(listen(80)), sti(listen(80), servedBy("public", 80)), false, false},
		"the port":                           {sti(listen(80)), sti(listen(81)), true, false},
		"a port is named now":                {sti(), sti(listen(81)), true, false},
		"no port is named any more":          {sti(listen(80)), sti(), true, false},
		"the protocol":                       {sti(listen(80)), sti(listen(80), isUDP), true, false},
		"the protocol is only spelled out":   {sti(listen(80)), sti(listen(80), func(s *v1beta1.StreamIngress) { s.Spec.Protocol = v1beta1.TCP }), false, false},
		"the class":                          {sti(listen(80)), sti(listen(80), of("internal")), true, false},
		"the PROXY protocol":                 {sti(), sti(func(s *v1beta1.StreamIngress) { s.Spec.ProxyProtocol = &v1beta1.ProxyProtocol{Send: true} }), false, false},
		"the Service":                        {sti(), sti(leadingTo("", "other", "5432")), false, true},
		"the namespace":                      {sti(), sti(leadingTo("data", "db", "5432")), false, true},
		"the namespace is only spelled out":  {sti(), sti(leadingTo("shop", "db", "5432")), false, false},
		"the port of the Service":            {sti(), sti(leadingTo("", "db", "80")), false, true},
		"the port, by name":                  {sti(), sti(leadingTo("", "db", "sql")), false, true},
		"service instead of host":            {sti(hosted("db")), sti(), false, false},
		"the Service, in the older spelling": {sti(hosted("x")), sti(), false, true},
		"to outside":                         {sti(), sti(outside("db.example.com")), false, true},
		"from outside":                       {sti(outside("db.example.com")), sti(), false, true},
		"that it is inside is spelled out":   {sti(), sti(func(s *v1beta1.StreamIngress) { s.Spec.IsService = new(true) }), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Moves(tc.before, tc.after); got != tc.moves {
				t.Errorf("Moves = %v", got)
			}
			if got := Redirects(tc.before, tc.after); got != tc.redirects {
				t.Errorf("Redirects = %v", got)
			}
		})
	}
}

// hosted is the older spelling of a Service as upstream.
func hosted(name string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Spec.Upstream = v1beta1.StreamUpstream{Host: name, Port: intstr.FromInt32(5432)}
	}
}
