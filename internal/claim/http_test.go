package claim

import (
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestHTTPCoordinates(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 49)+".", 5) + "bc" // 252 characters
	seen := map[string]Coordinate{}
	for _, at := range []Coordinate{
		HTTP("example.com", "/"), HTTP("example.com", "/a"), HTTP("*.example.com", "/"), HTTP("any.example.com", "/"),
		HTTP(long, "/"), HTTP(long+"d", "/"), HTTP("example.com", "/ä"), HTTP("example.com", "/"+strings.Repeat("x", 511)),
		Host("example.com"), Host("*.example.com"), Host(long), Host(long + "d"),
		HTTP("example.com", "/").ServedBy("nginx"), HTTP("example.com", "/").ServedBy("inside.nginx"), HTTP(long, "/").ServedBy(long),
		Host("example.com").ServedBy("nginx"), HTTP("example.com", "/nginx example.com/"),
	} {
		if at.IsZero() || !at.IsHTTP() || ScopeFamily(at.Scope()) != HTTPScope || at.Class() != "" {
			t.Errorf("%+v is no path", at)
		}
		if !strings.HasSuffix(at.Scope(), at.IngressClass()) || (at.Scope() == HTTPScope) != (at.IngressClass() == "") || at.ServedBy("").ServedBy(at.IngressClass()) != at {
			t.Errorf("%+v is of class %q in the scope %s", at, at.IngressClass(), at.Scope())
		}
		if at.IsHost() != (at.Path() == "") || at.Host() == "" {
			t.Errorf("%+v is a host: %v", at, at.IsHost())
		}
		if wrong := validation.IsDNS1123Subdomain(at.Name()); len(wrong) > 0 {
			t.Errorf("%q is not the name of an object: %v", at.Name(), wrong)
		}
		if other, taken := seen[at.Name()]; taken {
			t.Errorf("%s and %s have the same name", other, at)
		}
		seen[at.Name()] = at
		if got, err := Of(New(at, Claimant{Holder: IngressHolder("shop", "web")})); err != nil || got != at {
			t.Errorf("%s is read back as %s, %v", at, got, err)
		}
		if _, err := Parse(at.Name()); err == nil {
			t.Errorf("%q is read as a port", at.Name())
		}
	}
	if got := HTTP("shop.example.com", "/api").Name(); !strings.HasPrefix(got, "http.shop.example.com.") {
		t.Errorf("the name %q does not show the host", got)
	}
	for _, none := range []Coordinate{
		HTTP("", "/"), HTTP("Example.com", "/"), HTTP("a.*", "/"), HTTP("example.com", ""), HTTP("example.com", "a"),
		HTTP("example.com", "/"+strings.Repeat("x", 512)), HTTP("example.com", "/\xff"), Host(""), Host("Example.com"), Host("a.*"), Host("a/"),
	} {
		if !none.IsZero() || none.Name() != "" {
			t.Errorf("%+v is a path", none)
		}
	}
	forged := New(HTTP("example.com", "/"), Claimant{})
	forged.Name = HTTP("example.com", "/other").Name()
	if _, err := Of(forged); err == nil {
		t.Error("a claim is read by its point alone")
	}
}

// FuzzOf reads claims of any scope, name and point: what is read is what the claim says, and nothing else.
func FuzzOf(f *testing.F) {
	for _, at := range []Coordinate{HTTP("example.com", "/"), HTTP("*.example.com", "/a"), Host("example.com"), tcp(80), NodePort("TCP", 80)} {
		f.Add(at.Scope(), at.Name(), at.Point())
	}
	f.Add(HTTPScope, Host("example.com").Name(), "example.com/")
	f.Add(HTTPScope, "", "")
	onGateway := HTTP("example.com", "/a").OnGateway(infraEdge)
	f.Add(onGateway.Scope(), onGateway.Name(), onGateway.Point())
	f.Add("http/gateway/infra", onGateway.Name(), onGateway.Point())
	f.Add("http/nginx", Host("example.com").ServedBy("nginx").Name(), "example.com")
	f.Add("http/", Host("example.com").Name(), "example.com")
	f.Add(HTTPScope, "stream.public.tcp.80", "TCP/80")
	f.Fuzz(func(t *testing.T, scope, name, point string) {
		c := New(Coordinate{}, Claimant{})
		c.Name, c.Spec.Scope, c.Spec.Point = name, scope, point
		at, err := Of(c)
		if (err == nil) == at.IsZero() {
			t.Fatalf("Of(%q, %q, %q) = %#v, %v", scope, name, point, at, err)
		}
		if err == nil && (at.Name() != name || at.IsHTTP() && (at.Point() != point || at.ServedBy("") != Host(at.Host()) && at.ServedBy("") != HTTP(at.Host(), at.Path()))) {
			t.Errorf("Of(%q, %q, %q) = %#v", scope, name, point, at)
		}
		if err == nil && at.IsRoutePath() && (at.Scope() != scope || at.Point() != point || at != HTTP(at.Host(), at.Path()).OnGateway(at.Gateway())) {
			t.Errorf("Of(%q, %q, %q) = %#v", scope, name, point, at)
		}
	})
}

func TestVersions(t *testing.T) {
	for text, want := range map[string][2]int64{
		"0": {0, 1}, "41": {41, 42}, "": {-1, math.MaxInt64}, "a7": {-1, math.MaxInt64}, "-3": {-1, math.MaxInt64},
	} {
		if got := [2]int64{Version(text), AfterVersion(text)}; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
