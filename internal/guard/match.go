package guard

import (
	"cmp"
	"iter"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// MatchKind says which paths a match is for: those below its path, that one alone, or those that fit a pattern.
type MatchKind int

// The kinds.
const (
	PrefixMatch MatchKind = iota
	ExactMatch
	PatternMatch
)

// Match is the path of one match of a rule of an HTTPRoute or a GRPCRoute. What else the match asks of a request is not looked at.
type Match struct {
	Path string
	Kind MatchKind
	// Rule and Index say where it stands, Index -1 where a rule is for all that comes; Child is the field of the match.
	Rule, Index int
	Child       string
}

// Matches are those of a route, in their order: none of one that has no paths.
func Matches(route metav1.Object) iter.Seq[Match] {
	return func(yield func(Match) bool) {
		switch o := route.(type) {
		case *gatewayv1.HTTPRoute:
			for i := range o.Spec.Rules {
				matches := o.Spec.Rules[i].Matches
				if !eachMatch(i, len(matches), "path", func(j int) (string, MatchKind) { return httpPath(matches[j].Path) }, yield) {
					return
				}
			}
		case *gatewayv1.GRPCRoute:
			for i := range o.Spec.Rules {
				matches := o.Spec.Rules[i].Matches
				if !eachMatch(i, len(matches), "method", func(j int) (string, MatchKind) { return grpcPath(matches[j].Method) }, yield) {
					return
				}
			}
		}
	}
}

// eachMatch yields those of a rule with some matches, of which one without any is for all that comes, and says whether to go on.
func eachMatch(rule, matches int, child string, path func(match int) (string, MatchKind), yield func(Match) bool) bool {
	if matches == 0 {
		return yield(Match{Path: "/", Rule: rule, Index: -1})
	}
	for j := range matches {
		m := Match{Rule: rule, Index: j, Child: child}
		if m.Path, m.Kind = path(j); !yield(m) {
			return false
		}
	}
	return true
}

// httpPath is the path of a match of an HTTPRoute. A slash at the end of a prefix means nothing.
func httpPath(match *gatewayv1.HTTPPathMatch) (string, MatchKind) {
	if match == nil {
		return "/", PrefixMatch
	}
	path := ptr.Deref(match.Value, "/")
	switch ptr.Deref(match.Type, gatewayv1.PathMatchPathPrefix) {
	case gatewayv1.PathMatchExact:
		return normal(path), ExactMatch
	case gatewayv1.PathMatchPathPrefix:
		return cmp.Or(strings.TrimSuffix(normal(path), "/"), "/"), PrefixMatch
	default:
		return path, PatternMatch
	}
}

// grpcPath is the path of a match of a GRPCRoute: /service/method, or /service.
func grpcPath(match *gatewayv1.GRPCMethodMatch) (string, MatchKind) {
	m := ptr.Deref(match, gatewayv1.GRPCMethodMatch{})
	service, method := ptr.Deref(m.Service, ""), ptr.Deref(m.Method, "")
	switch {
	case ptr.Deref(m.Type, gatewayv1.GRPCMethodMatchExact) != gatewayv1.GRPCMethodMatchExact, service == "" && method != "":
		return "/" + cmp.Or(service, "[^/]+") + "/" + cmp.Or(method, "[^/]+"), PatternMatch
	case method == "":
		return "/" + service, PrefixMatch
	default:
		return "/" + service + "/" + method, ExactMatch
	}
}

// normal is a path as RFC 3986, 6.2.2 writes it: an octet that needs no percent-encoding has none, and the digits of others are in upper
// case. What is no percent-encoding leaves a path as it is.
func normal(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b.WriteByte(path[i])
			continue
		}
		if i+2 >= len(path) {
			return path
		}
		octet, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
		switch {
		case err != nil:
			return path
		case isUnreserved(byte(octet)):
			b.WriteByte(byte(octet))
		default:
			b.WriteString(strings.ToUpper(path[i : i+3]))
		}
		i += 2
	}
	return b.String()
}

// isUnreserved says whether an octet means the same with and without percent-encoding.
func isUnreserved(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
