package doors

import (
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
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
		return Door{Holder: "port", port: claimPort{protocol, number}, Addresses: addresses}
	}
	path := func(holder, host, path string, exact bool) Door {
		return Door{Holder: holder, Way: ByIngress, host: host, path: path, exact: exact}
	}
	all := []Door{
		port(v1beta1.TCP, 5432, "192.0.2.1"), port(v1beta1.UDP, 5432), port(v1beta1.TCP, 443, "192.0.2.1", "192.0.2.2"),
		path("root", "shop.example.com", "/", false), path("api", "shop.example.com", "/api", false),
		path("exact", "shop.example.com", "/api", true), path("wild", "*.example.com", "/", false),
	}
	for asked, want := range map[string][]string{
		"tcp/5432": {"port"}, "5432": {"port", "port"}, "tcp/1": nil,
		"192.0.2.1": {"port", "port"}, "192.0.2.1:443": {"port"}, "192.0.2.2:5432": nil,
		"shop.example.com": {"root", "api", "exact", "wild"}, "shop.example.com/api": {"exact"}, "shop.example.com/api/v1": {"api"},
		"shop.example.com/apiary": {"root", "wild"}, "blog.example.com/": {"wild"}, "a.b.example.com": nil, "example.com": nil,
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
