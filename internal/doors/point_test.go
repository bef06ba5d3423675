package doors

import (
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

func TestParsePoint(t *testing.T) {
	for text, want := range map[string]string{
		"5432": "5432", "tcp/5432": "tcp/5432", "UDP/53": "udp/53", "192.0.2.7": "192.0.2.7", "192.0.2.7:443": "192.0.2.7:443",
		"::ffff:192.0.2.7": "192.0.2.7", "[2001:db8::1]:443": "[2001:db8::1]:443", "[2001:db8::1]": "2001:db8::1",
		"Shop.example.com": "shop.example.com", "shop.example.com/api": "shop.example.com/api", "https://shop.example.com/": "shop.example.com/",
		"*.example.com": "*.example.com", "tcp": "tcp", "tcp/0": "tcp/0",
	} {
		p, err := ParsePoint(text)
		if err != nil || p.String() != want {
			t.Errorf("%s: got %s, %v; want %s", text, p, err, want)
		}
	}
	for _, text := range []string{"", "192.0.2.300", "a b", "-", "a..b", "/api", "0"} {
		if p, err := ParsePoint(text); err == nil {
			t.Errorf("%q is no point, and was read as %s", text, p)
		}
	}
}

func TestFind(t *testing.T) {
	port := func(protocol v1beta1.Protocol, number int32, addresses ...string) Door {
		return Door{Holder: "port", port: stream.PortKey{Protocol: protocol, Port: number}, Addresses: addresses}
	}
	path := func(holder, host, path string, exact bool) Door {
		d := Door{Holder: holder, Way: ByIngress, named: true, host: host, path: path}
		if exact {
			d.kind = exactly
		}
		return d
	}
	all := []Door{
		port(v1beta1.TCP, 5432, "192.0.2.1"), port(v1beta1.UDP, 5432), port(v1beta1.TCP, 443, "192.0.2.1", "192.0.2.2"),
		port(v1beta1.UDP, 53, "lb.example.net"), path("root", "shop.example.com", "/", false), path("api", "shop.example.com", "/api", false),
		path("exact", "shop.example.com", "/api", true), path("wild", "*.example.com", "/", false),
		path("deep", "*.example.com", "/deep/er", false), {Holder: "listener", Way: ByListener, On: "Gateway", named: true, host: "*.example.com"},
		{Holder: "all", Way: ByRoute, On: "Gateway", named: true, path: "/all"},
		{Holder: "fits", Way: ByRoute, On: "Gateway", named: true, path: "/a.l", kind: pattern},
	}
	for asked, want := range map[string][]string{
		"tcp/5432": {"port"}, "5432": {"port", "port"}, "tcp/1": nil,
		"192.0.2.1": {"port", "port"}, "192.0.2.1:443": {"port"}, "192.0.2.2:5432": nil,
		"shop.example.com":     {"root", "api", "exact", "wild", "deep", "listener", "all", "fits"},
		"shop.example.com/api": {"exact", "listener"}, "shop.example.com/api/v1": {"api", "listener"},
		"shop.example.com/apiary": {"root", "listener"}, "shop.example.com/deep/er": {"root", "listener"},
		"blog.example.com/": {"wild", "listener"}, "blog.example.com/deep/er/": {"deep", "listener"},
		"a.b.example.com/": {"listener"}, "example.com/": nil,
		"lb.example.net": {"port", "all", "fits"}, "lb.example.net/x": nil,
		"shop.example.org/all": {"all", "fits"}, "shop.example.org/abl": {"fits"},
	} {
		p, err := ParsePoint(asked)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range Find(all, p) {
			got = append(got, d.Holder)
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %v, want %v", asked, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: got %v, want %v", asked, got, want)
			}
		}
	}
}
