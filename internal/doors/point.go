package doors

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Point is what somebody asks about: a port, an address or a port there, a host or a path there. One of IP, Host and Port is set.
type Point struct {
	// Protocols are those of the port.
	Protocols []v1beta1.Protocol
	Port      int32
	IP        netip.Addr
	// Host is a name in lower case, Path empty or one that begins with a slash.
	Host, Path string
}

// ParsePoint reads tcp/5432, udp/53, 5432, 192.0.2.7, 192.0.2.7:443, [2001:db8::1]:443, shop.example.com or shop.example.com/api.
func ParsePoint(text string) (Point, error) {
	both := []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP}
	if port, ok := stream.ParseKey(text); ok {
		return Point{Protocols: both, Port: port}, nil
	}
	if before, after, found := strings.Cut(text, "/"); found {
		protocol := v1beta1.Protocol(strings.ToUpper(before))
		if port, ok := stream.ParseKey(after); ok && slices.Contains(both, protocol) {
			return Point{Protocols: []v1beta1.Protocol{protocol}, Port: port}, nil
		}
	}
	if at, err := netip.ParseAddrPort(text); err == nil && at.Port() != 0 {
		return Point{Protocols: both, Port: int32(at.Port()), IP: at.Addr().Unmap()}, nil
	}
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return Point{IP: ip.Unmap()}, nil
	}
	rest := text
	for _, scheme := range []string{"https://", "http://"} {
		rest = strings.TrimPrefix(rest, scheme)
	}
	host, path, slash := strings.Cut(rest, "/")
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "*."))) > 0 || strings.Trim(host, "0123456789.") == "" {
		return Point{}, fmt.Errorf("%q is no point: want a port (tcp/5432), an address (192.0.2.7, 192.0.2.7:443), "+
			"or a host (shop.example.com/api)", text)
	}
	if slash {
		path = "/" + path
	}
	return Point{Host: host, Path: path}, nil
}

// String is the point as ParsePoint reads it.
func (p Point) String() string {
	switch {
	case p.Host != "":
		return p.Host + p.Path
	case p.IP.IsValid() && p.Port != 0:
		return netip.AddrPortFrom(p.IP, uint16(p.Port)).String() //nolint:gosec // a port
	case p.IP.IsValid():
		return p.IP.String()
	case len(p.Protocols) == 1:
		return fmt.Sprintf("%s/%d", strings.ToLower(string(p.Protocols[0])), p.Port)
	}
	return strconv.Itoa(int(p.Port))
}

// Find are the doors that a point is, of a list, those first that are closest to what is asked about. Of the paths that one class or
// listener serves, those count that answer for the one that is asked about.
func Find(doors []Door, p Point) (found []Door) {
	for i := range doors {
		if d := &doors[i]; p.isPort(d) || p.isHost(d) && (p.Path == "" || d.path == "" || d.answers(p.Path) > 0) {
			found = append(found, *d)
		}
	}
	if p.Path != "" {
		found = p.closest(found)
	}
	slices.SortStableFunc(found, func(a, b Door) int { return p.Compare(&a, &b) })
	return found
}

// closest are the doors that answer for a path: of each class or listener the best ones. What has no path stays, as it may be why those are
// reached, and so does what has a pattern: who comes first is up to who serves it.
func (p Point) closest(found []Door) (kept []Door) {
	isRanked := func(d *Door) bool { return d.path != "" && d.kind != pattern }
	best := map[string]*Door{} // by what serves it
	for i := range found {
		if d := &found[i]; isRanked(d) && (best[d.On] == nil || p.compare(d, best[d.On]) < 0) {
			best[d.On] = d
		}
	}
	for i := range found {
		if d := &found[i]; !isRanked(d) || p.compare(d, best[d.On]) == 0 {
			kept = append(kept, *d)
		}
	}
	return kept
}

// Compare compares doors that a point is by how close they are to it: hosts before wildcards, and what has a path before what has none.
func (p Point) Compare(a, b *Door) int {
	if p.Host == "" {
		return 0
	}
	return p.compare(a, b)
}

// compare compares by host, then, if a path is asked about, by path.
func (p Point) compare(a, b *Door) int {
	if p.Path == "" {
		return cmp.Compare(len(strings.TrimPrefix(b.host, "*")), len(strings.TrimPrefix(a.host, "*")))
	}
	return cmp.Or(cmp.Compare(min(len(a.path), 1), min(len(b.path), 1))*-1,
		cmp.Compare(len(strings.TrimPrefix(b.host, "*")), len(strings.TrimPrefix(a.host, "*"))),
		cmp.Compare(b.answers(p.Path), a.answers(p.Path)))
}

// isPort says whether a door is the port, or at the address, that is asked about. An address may be a name that a cloud has given.
func (p Point) isPort(d *Door) bool {
	if p.Host != "" {
		return p.Path == "" && slices.Contains(d.Addresses, p.Host)
	}
	if p.IP.IsValid() && !slices.Contains(d.Addresses, p.IP.String()) && !d.nodes[p.IP.String()] {
		return false
	}
	if p.Port == 0 {
		return true
	}
	return d.port.Port == p.Port && slices.Contains(p.Protocols, d.port.Protocol)
}

// isHost says whether a door is for the host that is asked about: by name, by a wildcard, or as it is for all.
func (p Point) isHost(d *Door) bool {
	if p.Host == "" || !d.named {
		return false
	}
	if d.host == "" || d.host == p.Host {
		return true
	}
	suffix, wild := strings.CutPrefix(d.host, "*")
	label, _, _ := strings.Cut(p.Host, ".")
	return wild && strings.HasSuffix(p.Host, suffix) && (d.Way != ByIngress || label+suffix == p.Host)
}

// answers is how well a door answers for a path: 0 for not at all, and more for the longer of two, and for an exact one. One with a pattern
// answers a little: who comes first is up to who serves it.
func (d *Door) answers(path string) int {
	switch {
	case d.path == "": // a listener answers for all paths, and is not what has one
		return 0
	case d.kind == pattern:
		if fits, err := regexp.MatchString("^(?:"+d.path+")", path); err != nil || fits {
			return 1
		}
		return 0
	case d.path == path:
		n := 2*len(path) + 2
		if d.kind == exactly {
			n++
		}
		return n
	case d.kind == exactly:
		return 0
	case strings.HasPrefix(path, strings.TrimSuffix(d.path, "/")+"/"):
		return 2 * len(d.path)
	}
	return 0
}
