package integration

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestWarnings(t *testing.T) {
	e := shared(t).newEdge("warn")
	e.create(namespace("warn"), service("warn/web", port("http", 80), port("dns", 53, UDP)))
	k := e.warned()
	for name, test := range map[string]struct {
		options []streamOption
		want    string
	}{
		"everything is there":      {[]streamOption{to("web", 80)}, ""},
		"the port has that name":   {[]streamOption{to("web", "http")}, ""},
		"outside":                  {[]streamOption{outside("192.0.2.1", 80)}, ""},
		"no such Service":          {[]streamOption{to("nobody", 80)}, "spec.upstream.service: there is no Service warn/nobody yet; the port answers once there is"},
		"no such port":             {[]streamOption{to("web", 81)}, "spec.upstream.port: Service warn/web has no such TCP port yet, it has TCP/80 (http), UDP/53 (dns)"},
		"no port of that name":     {[]streamOption{to("web", "https")}, "spec.upstream.port: Service warn/web has no such TCP port yet"},
		"no port of that protocol": {[]streamOption{to("web", "dns")}, "spec.upstream.port: Service warn/web has no such TCP port yet"},
	} {
		t.Run(name, func(t *testing.T) {
			// A replica that has not seen the Service yet warns that there is none.
			e.in(t).eventually("the warnings to be right", func() error {
				s := sti("warn/s", append([]streamOption{of("warn"), tcp(1000)}, test.options...)...)
				if err := k.Create(t.Context(), s, client.DryRunAll); err != nil {
					return err
				}
				got := k.said()
				if test.want == "" {
					return is(got, "")
				}
				return saysAll(got, test.want)
			})
		})
	}

	t.Log("a change that sends the traffic elsewhere warns, any other does not")
	s := sti("warn/s", of("warn"), tcp(1000))
	if err := k.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	k.said()
	patch := func(change func(*v1beta1.StreamIngress)) string {
		t.Helper()
		next := s.DeepCopy()
		change(next)
		if err := k.Patch(t.Context(), next, client.MergeFrom(s)); err != nil {
			t.Fatal(err)
		}
		return k.said()
	}
	mustContain(t, patch(func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Service = "nobody" }), "there is no Service warn/nobody yet")
	if got := patch(func(s *v1beta1.StreamIngress) { s.Labels = map[string]string{"a": "b"} }); got != "" {
		t.Errorf("a label warned: %s", got)
	}
}
