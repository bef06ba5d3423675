package exposure_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/test/annotations"
)

// standing are the defaults of the tables.
var standing = exposure.Defaults{Host: "example.com"}

// serviceOf is the Service of a case.
func serviceOf(c annotations.Case) *corev1.Service {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = "shop", "web"
	svc.Spec.Ports = c.ServicePorts()
	return svc
}

// says is everything that is wrong with a case, one line each; empty for nothing.
func says(t *testing.T, c annotations.Case) string {
	t.Helper()
	e, errs := exposure.Parse(c.Value)
	if len(errs) == 0 {
		e, err := standing.Complete(e, "shop", "web")
		if err == nil {
			_, err = e.FindPort(serviceOf(c))
		}
		if err == nil {
			return ""
		}
		return err.Detail
	}
	var details []string
	for _, err := range errs {
		if err.Field != "metadata.annotations[ingress/http]" {
			t.Errorf("%q: the error is about field %s", c.Value, err.Field)
		}
		details = append(details, err.Detail)
	}
	return strings.Join(details, "\n")
}

func TestRefusedValuesSayWhatIsWrong(t *testing.T) {
	cases, err := annotations.Refused()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 60 {
		t.Errorf("the table has %d cases", len(cases))
	}
	first := map[string]string{}
	for _, c := range cases {
		if diff := cmp.Diff(c.Says, says(t, c)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.Value, diff)
		}
		if other, there := first[c.Says]; there {
			t.Errorf("%q and %q are told the same", other, c.Value)
		}
		first[c.Says] = c.Value
		if !strings.Contains(c.Says, "for example") && !strings.Contains(c.Says, "a correct value is") {
			t.Errorf("%q: nothing right is shown: %s", c.Value, c.Says)
		}
	}
}

// TestWhatIsSaidOfAValueIsBounded has as many wrong fields as a value has room for. Each is told with the whole value.
func TestWhatIsSaidOfAValueIsBounded(t *testing.T) {
	const told = 8
	_, errs := exposure.Parse(strings.Repeat(",", exposure.MaxLength))
	if last := errs[len(errs)-1].Detail; len(errs) != told+1 || last != fmt.Sprintf("%d fields more are wrong", exposure.MaxLength+1-told) {
		t.Errorf("%d errors are told, the last is %s", len(errs), last)
	}
}

func TestAcceptedValuesGiveAnIngress(t *testing.T) {
	cases, err := annotations.Accepted()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Errorf("the table has %d cases", len(cases))
	}
	for _, c := range cases {
		e, errs := exposure.Parse(c.Value)
		if len(errs) > 0 {
			t.Errorf("%q: %v", c.Value, errs.ToAggregate())
			continue
		}
		if again, errs := exposure.Parse(e.String()); len(errs) > 0 || !cmp.Equal(e, again) {
			t.Errorf("%q is printed as %q, which is read as %+v %v", c.Value, e.String(), again, errs.ToAggregate())
		}
		e, wrong := standing.Complete(e, "shop", "web")
		if wrong != nil {
			t.Errorf("%q: %v", c.Value, wrong)
			continue
		}
		port, wrong := e.FindPort(serviceOf(c))
		if wrong != nil {
			t.Errorf("%q: %v", c.Value, wrong)
			continue
		}
		if diff := cmp.Diff(c.Gives, annotations.Describe(e.IngressSpec("web", port))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.Value, diff)
		}
	}
}

func TestIssuers(t *testing.T) {
	for value, want := range map[string]exposure.Issuer{
		"issuer=letsencrypt":        {Kind: "ClusterIssuer", Name: "letsencrypt"},
		"issuer=Issuer/letsencrypt": {Kind: "Issuer", Name: "letsencrypt"},
	} {
		e, errs := exposure.Parse(value)
		if len(errs) > 0 || e.Issuer != want || e.String() != value {
			t.Errorf("%q: %+v %v, printed as %q", value, e.Issuer, errs.ToAggregate(), e.String())
		}
		complete, wrong := standing.Complete(e, "shop", "web")
		if wrong != nil || complete.Secret != "web-tls" {
			t.Errorf("%q: the Secret is %q, %v", value, complete.Secret, wrong)
		}
	}
}

// FuzzParse looks for values that are read but not printed back, and for anything that means something in the
// configuration of a proxy.
func FuzzParse(f *testing.F) {
	for _, load := range []func() ([]annotations.Case, error){annotations.Accepted, annotations.Refused} {
		cases, err := load()
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range cases {
			f.Add(c.Value)
		}
	}
	f.Add("issuer=Issuer/letsencrypt, tls=a.b")
	f.Fuzz(func(t *testing.T, value string) {
		e, errs := exposure.Parse(value)
		if len(errs) > 0 {
			return
		}
		printed := e.String()
		again, errs := exposure.Parse(printed)
		if len(errs) > 0 || !cmp.Equal(e, again) {
			t.Errorf("%q is printed as %q, which is read as %+v %v", value, printed, again, errs.ToAggregate())
		}
		if at := strings.IndexAny(printed, "\\\"'`;{}()[]$^#?%&|<>!@:\r\n\t\x00"); at >= 0 {
			t.Errorf("%q lets %q pass", value, printed[at])
		}
		complete, wrong := standing.Complete(e, "shop", "web")
		if wrong != nil {
			t.Fatalf("%q: %v", value, wrong)
		}
		for _, at := range complete.Points() {
			if at.IsZero() {
				t.Errorf("%q asks for a point that the ledger can't have", value)
			}
			if bad := validation.IsDNS1123Subdomain(at.Name()); len(bad) > 0 {
				t.Errorf("%q: %q is not the name of an object: %v", value, at.Name(), bad)
			}
		}
	})
}
