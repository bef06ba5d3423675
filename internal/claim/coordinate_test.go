package claim

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// tcp is a point on the class that most tests use.
func tcp(port int32) Coordinate { return Stream("public", v1beta1.TCP, port) }

func TestStream(t *testing.T) {
	type forms struct{ Name, Scope, Point, Text string }
	for name, tc := range map[string]struct {
		class    string
		protocol v1beta1.Protocol
		port     int32
		want     forms
	}{
		"a TCP port":             {"public", v1beta1.TCP, 8080, forms{"stream.public.tcp.8080", "stream/public", "TCP/8080", "stream/public TCP/8080"}},
		"a UDP port":             {"public", v1beta1.UDP, 53, forms{"stream.public.udp.53", "stream/public", "UDP/53", "stream/public UDP/53"}},
		"a class with dots":      {"edge.v1.tcp", v1beta1.TCP, 1, forms{"stream.edge.v1.tcp.tcp.1", "stream/edge.v1.tcp", "TCP/1", "stream/edge.v1.tcp TCP/1"}},
		"the last port":          {"a", v1beta1.TCP, 65535, forms{"stream.a.tcp.65535", "stream/a", "TCP/65535", "stream/a TCP/65535"}},
		"port 0 is no point":     {"a", v1beta1.TCP, 0, forms{}},
		"port 65536 is no point": {"a", v1beta1.TCP, 65536, forms{}},
		"a negative port is none, whatever its lower bits": {"a", v1beta1.TCP, -65456, forms{}},
		"no class is no point":                             {"", v1beta1.TCP, 80, forms{}},
		"another protocol is no point":                     {"a", "SCTP", 80, forms{}},
		"no protocol is no point":                          {"a", "", 80, forms{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Stream(tc.class, tc.protocol, tc.port)
			if c.IsZero() != (tc.want == forms{}) {
				t.Fatalf("IsZero() = %v", c.IsZero())
			}
			if c.IsZero() {
				if c.Name() != "" {
					t.Errorf("no point has the name %q", c.Name())
				}
				return
			}
			if diff := cmp.Diff(tc.want, forms{c.Name(), c.Scope(), c.Point(), c.String()}); diff != "" {
				t.Error(diff)
			}
			if c.Class() != tc.class || c.Protocol() != tc.protocol || c.Port() != tc.port {
				t.Errorf("parts are %q %q %d", c.Class(), c.Protocol(), c.Port())
			}
			if back, err := Parse(c.Name()); err != nil || back != c {
				t.Errorf("Parse(%q) = %v, %v", c.Name(), back, err)
			}
			if errs := validation.IsDNS1123Subdomain(c.Name()); len(errs) > 0 {
				t.Errorf("%q can't be the name of an object: %v", c.Name(), errs)
			}
		})
	}
}

func TestParseRefusesWhatIsNotItsOwn(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":                       "",
		"too few parts":                 "stream.tcp.80",
		"an empty class":                "stream..tcp.80",
		"another scope":                 "http.public.tcp.80",
		"another protocol":              "stream.public.sctp.80",
		"a protocol in upper case":      "stream.public.TCP.80",
		"a leading zero":                "stream.public.tcp.080",
		"a sign":                        "stream.public.tcp.+80",
		"port 0":                        "stream.public.tcp.0",
		"a port that is too high":       "stream.public.tcp.65536",
		"a port that wraps to one":      "stream.public.tcp.65616",
		"a port that is no number":      "stream.public.tcp.http",
		"no port":                       "stream.public.tcp.",
		"another part behind":           "stream.public.tcp.80.",
		"blanks":                        "stream.public.tcp. 80",
		"a number in hexadecimal":       "stream.public.tcp.0x50",
		"a number with an underscore":   "stream.public.tcp.8_0",
		"a scope that is only a prefix": "streams.public.tcp.80",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse(in)
			if err == nil || !c.IsZero() {
				t.Fatalf("Parse(%q) = %v, %v", in, c, err)
			}
			if want := `"` + in + `" is not a coordinate: want stream.<class>.<tcp|udp>.<port>`; err.Error() != want {
				t.Errorf("it says %q, want %q", err, want)
			}
		})
	}
}

func TestCompareOrdersByClassPortProtocol(t *testing.T) {
	want := []Coordinate{
		Stream("a", v1beta1.TCP, 9), Stream("a", v1beta1.UDP, 9), Stream("a", v1beta1.TCP, 80), Stream("b", v1beta1.TCP, 1),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Compare)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{
		"", ".", "...", "stream.public.tcp.8080", "stream.a.b.c.udp.53", "stream..tcp.1", "stream.x.tcp.65536", "stream.x.tcp.01",
		"addr.192-0-2-1.tcp.443", "node.tcp.80", "addr.192-0-2-1", "addr.0--1", "addr.fd00--0.udp.53", "addr", "node", "addr.-",
		"addr.--1", "node.tcp.0", "addr.192-0-2-07", "addr.0--ffff-c000-207", "addr..tcp.80", "addr.1-2-3-4.tcp", "stream.tcp.tcp.1", "stream.\x00.tcp.1", "stream.x.TCP.1", "stream.x.t\u017fp.1",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		c, err := Parse(name)
		if (err == nil) == c.IsZero() {
			t.Fatalf("Parse(%q) = %#v, %v", name, c, err)
		}
		if err != nil {
			return
		}
		if c.Name() != name {
			t.Errorf("Parse(%q).Name() = %q", name, c.Name())
		}
		if c.IsStream() && c != Stream(c.Class(), c.Protocol(), c.Port()) {
			t.Errorf("%q: %#v is not the sum of its parts", name, c)
		}
	})
}
