package stream

import (
	"net/netip"
	"strings"
	"testing"
)

func TestOutsideHost(t *testing.T) {
	const unicast, credentials, inside = "must be a unicast address", "told its credentials", "must be outside the cluster"
	for host, want := range map[string]string{
		"db.example.com": "", "DB.Example.com.": "", "localhost.example.com": "", "svc": inside, "svc.example.com": "",
		"192.0.2.1": "", "10.0.0.7": "", "2001:db8::1": "", "::ffff:192.0.2.1": "", "64:ff9b::192.0.2.1": "", "2002:c000:201::1": "",
		"db.shop.svc": inside, "db.shop.SVC.": inside, "db.shop.svc.corp.example.org": inside, "node.corp.example.org": inside,
		"corp.example.org": inside, "localhost": inside, "a.localhost": inside,
		"127.0.0.1": unicast, "::1": unicast, "0.0.0.0": unicast, "::": unicast, "169.254.169.254": unicast, "224.0.0.1": unicast,
		"fe80::1": unicast, "fe80::1%eth0": unicast, "ff02::1": unicast, "255.255.255.255": unicast,
		"::ffff:169.254.169.254": unicast, "::127.0.0.1": unicast, "::ffff:0:127.0.0.1": unicast, "64:ff9b::a9fe:a9fe": unicast,
		"64:ff9b:1::a9fe:a9fe": unicast, "64:ff9b:1:a9fe:a9:fe00::": unicast, "64:ff9b:1:a9:fe:a9fe::": unicast,
		"64:ff9b:1:0:a9:fea9:fe00::": unicast, "64:ff9b:1:7::6464:64c8": credentials, "64:ff9b:1::1": unicast, "64:ff9b:1:7::1": unicast, "64:ff9b:1:fffe::1": unicast,
		"64:ff9b:1::192.0.2.1": "", "64:ff9b:1:c000:2:100::": "", "2002:a9fe:a9fe::1": unicast, "2002:7f00:1::": unicast,
		"fd00:ec2::254": credentials, "fd20:ce::254": credentials, "fd00:ec2:0:0:0:0:0:254": credentials, "fd00:ec2::253": "", "100.100.100.200": credentials,
		"64:ff9b::6464:64c8": credentials, "168.63.129.16": credentials, "192.0.0.192": credentials, "0.0.0.1": unicast, "::2": unicast,
	} {
		if got := OutsideHost(host, "corp.example.org"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
}

// FuzzOutsideHost holds that no IPv4 address is refused and then let through when it is written as IPv6, and that nothing of the
// cluster is let through.
func FuzzOutsideHost(f *testing.F) {
	f.Add("169.254.169.254", "cluster.local")
	f.Add("db.shop.svc.cluster.local", "cluster.local")
	f.Fuzz(func(t *testing.T, host, domain string) {
		why := OutsideHost(host, domain)
		if why == "" && (strings.HasSuffix(host, ".svc") || host == "localhost") {
			t.Errorf("%q is let through", host)
		}
		ip, err := netip.ParseAddr(host)
		if err != nil || !ip.Is4() || why == "" {
			return
		}
		four := ip.As4()
		for _, e := range embedding {
			six := e.prefix.Addr().As16()
			for i, at := range e.at {
				six[at] = four[i]
			}
			if four[0] == 0 && e.prefix.Bits() == 48 {
				continue // zeros are what the prefix of another length has there
			}
			if form := netip.AddrFrom16(six); OutsideHost(form.String(), domain) == "" {
				t.Errorf("%s is refused, and not as %s", host, form)
			}
		}
	})
}
