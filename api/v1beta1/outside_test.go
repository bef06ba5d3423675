package v1beta1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestOutsideServiceName(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"a short name":                       {"postgres", "sti-postgres"},
		"a name of one letter":               {"p", "sti-p"},
		"a name that begins with a digit":    {"1st", "sti-1st"},
		"the longest name that fits":         {strings.Repeat("a", 59), "sti-" + strings.Repeat("a", 59)},
		"one letter more":                    {strings.Repeat("a", 60), "sti-" + strings.Repeat("a", 48) + "-11ee391211"},
		"the longest name there is":          {strings.Repeat("a", 253), "sti-" + strings.Repeat("a", 48) + "-32859a3ab6"},
		"a name with dots":                   {"db.example.com", "sti-db-example-com-4e513f9abb"},
		"a name with a dash where a dot was": {"db-example.com", "sti-db-example-com-1bb5db2842"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OutsideServiceName(tc.in); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// FuzzOutsideServiceName names the Service of every stream that can be, and no two of a pair alike.
func FuzzOutsideServiceName(f *testing.F) {
	f.Add("postgres", "postgres2")
	f.Add("a.b", "a-b")
	f.Add(strings.Repeat("x", 60), strings.Repeat("x", 61))
	f.Add(strings.Repeat("x.", 100)+"x", "x")
	f.Add("0", "0.0")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(validation.IsDNS1123Subdomain(a)) > 0 || len(validation.IsDNS1123Subdomain(b)) > 0 {
			return
		}
		nameOfA, nameOfB := OutsideServiceName(a), OutsideServiceName(b)
		if errs := validation.IsDNS1035Label(nameOfA); len(errs) > 0 || !IsOutsideServiceName(nameOfA) {
			t.Errorf("%q gets a Service %q: %v", a, nameOfA, errs)
		}
		// Whoever writes out the hash of another name gets that name's Service; that is told when it is made.
		if a != b && nameOfA == nameOfB && !strings.HasPrefix(nameOfA, "sti-"+a) && !strings.HasPrefix(nameOfB, "sti-"+b) {
			t.Errorf("%q and %q share the Service %q", a, b, nameOfA)
		}
	})
}
