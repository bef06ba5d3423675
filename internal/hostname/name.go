package hostname

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
)

// Exposed stands for the annotation ingress/http, whose hosts are judged in any case.
const Exposed guard.Kind = "ingress/http"

const (
	// MostNames is how many host names that are given to namespaces an object may ask for at a time.
	MostNames = 128
	// MaxAnnotation is how long an annotation with host names may be, in bytes. Of a longer one nobody could keep in mind all that it says.
	MaxAnnotation = 1024
	// MostLabels is how many labels a name has at most that can be a namespace's: all wildcards above it are looked at.
	MostLabels = 16
)

// scripts has names in other scripts as the DNS has them. Underscores and wildcards stay.
var scripts = idna.New(idna.MapForLookup(), idna.StrictDomainName(false))

// Name is a host name that an object uses.
type Name struct {
	// Host is the name, in lower case and without a dot at its end; it may have a * as its first label. Empty where it can't be read.
	Host string
	// Text is what stands there.
	Text string
	Path *field.Path
	// Kind is what the name is guarded as.
	Kind guard.Kind
	// Flaw says why the names can't be told, empty where they can. Whole is then a digest of all that stands there.
	Flaw  string
	Whole [sha256.Size]byte
}

// User is an object that uses host names.
type User struct {
	claim.Holder
	UID     types.UID
	Version string
	Created time.Time
	Names   []Name
	// Heir is to whom the object hands over what it has, the zero name for nobody.
	Heir types.NamespacedName
	// IsMade says of an Ingress that it was made for the Service of its name.
	IsMade bool
	// Deleting says that the object is being deleted.
	Deleting bool
}

// Uses says whether a user uses a host name.
func (u *User) Uses(host string) bool {
	return slices.ContainsFunc(u.Names, func(n Name) bool { return n.Host == host })
}

// Same says whether two versions of an object say the same host names, guarded as the same, and hand them over to the same. Routes may take
// others over.
func (u *User) Same(other User) bool {
	return u.Heir == other.Heir &&
		slices.EqualFunc(u.Names, other.Names, func(a, b Name) bool { return a.Host == b.Host && a.Kind == b.Kind })
}

// Claimant is the namespace of an object, which claims what the object uses, once this is stored at a version or later.
func (u *User) Claimant(version int64) claim.Claimant {
	return claim.Claimant{Holder: claim.NamespaceHolder(u.Namespace), UID: u.UID, Generation: version, For: u.Holder}
}

// Of is an object with the host names that it uses; those that a route takes over from listeners are inherited, see Inherits. ok is false
// for kinds that use none. Rules without a host use none either.
func Of(obj metav1.Object, defaults exposure.Defaults) (u User, ok bool) {
	switch o := obj.(type) {
	case *corev1.Service:
		u.Holder = claim.ServiceHolder(o.Namespace, o.Name)
		u.Names = ofExposed(o, defaults)
	case *networkingv1.Ingress:
		u.Holder = claim.IngressHolder(o.Namespace, o.Name)
		u.Names, u.IsMade = ofIngress(o), exposure.MadeFor(o) != ""
	default:
		route, is := guard.OfRoute(obj)
		if !is {
			return u, false
		}
		u.route(route.Kind, obj, route.Hosts)
	}
	u.UID, u.Version, u.Created = obj.GetUID(), obj.GetResourceVersion(), obj.GetCreationTimestamp().Time
	u.Heir, _ = claim.NamedHeir(obj)
	u.Deleting = obj.GetDeletionTimestamp() != nil
	for _, annotation := range dnsAnnotations {
		u.Names = append(u.Names, listed(obj, annotation, guard.ExternalDNS)...)
	}
	return u, true
}

// dnsAnnotations are those by which external-dns makes names lead to an object.
var dnsAnnotations = []string{v1beta1.AnnotationExternalDNS, v1beta1.AnnotationExternalDNSInternal}

// IsInDNS says whether an object gives names to external-dns.
func IsInDNS(obj metav1.Object) bool {
	return slices.ContainsFunc(dnsAnnotations, func(name string) bool { return obj.GetAnnotations()[name] != "" })
}

// route has the names that a route says itself.
func (u *User) route(kind guard.Kind, obj metav1.Object, hosts []gatewayv1.Hostname) {
	u.Holder = claim.RouteHolder(string(kind), obj.GetNamespace(), obj.GetName())
	path := field.NewPath("spec", "hostnames")
	for i, host := range hosts[:min(len(hosts), guard.MostRoutePoints)] {
		u.Names = append(u.Names, read(string(host), path.Index(i), kind))
	}
	if len(hosts) > guard.MostRoutePoints { // which the cache does not keep
		u.Names = append(u.Names, untold(path, kind, fmt.Sprint(len(hosts)),
			fmt.Sprintf("has more than %d hosts", guard.MostRoutePoints), fmt.Sprint(hosts)))
	}
}

// ofExposed are the hosts that the annotation ingress/http of a Service asks for, none where that can't be read.
func ofExposed(svc *corev1.Service, defaults exposure.Defaults) (names []Name) {
	if _, requests := exposure.Annotation(svc); !requests {
		return nil
	}
	request, _ := exposure.RequestOf(svc, defaults)
	for _, host := range request.Hosts {
		names = append(names, read(host, exposure.AnnotationPath(), Exposed))
	}
	return names
}

func ofIngress(ing *networkingv1.Ingress) (names []Name) {
	for i := range ing.Spec.Rules {
		host := ing.Spec.Rules[i].Host
		if host == "" || strings.HasPrefix(host, "\x00") { // for all hosts; or packed, see exposure.Pack
			continue
		}
		names = append(names, read(host, field.NewPath("spec", "rules").Index(i).Child("host"), guard.Ingress))
	}
	if exposure.HasManyHosts(ing) { // which the cache does not keep
		names = append(names, untold(field.NewPath("spec", "rules"), guard.Ingress, fmt.Sprint(len(ing.Spec.Rules)),
			fmt.Sprintf("has more than %d hosts", exposure.MostEntries), hostsIn(names)))
	}
	for _, n := range listed(ing, v1beta1.AnnotationServerAlias, guard.Ingress) {
		names = append(names, alias(n)...)
	}
	return names
}

// listed are the names that an annotation has, separated by commas.
func listed(obj metav1.Object, annotation string, kind guard.Kind) (names []Name) {
	value, there := obj.GetAnnotations()[annotation]
	if !there {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(annotation)
	if len(value) > MaxAnnotation {
		return []Name{untold(path, kind, value[:32]+"...", fmt.Sprintf("is longer than %d bytes", MaxAnnotation), value)}
	}
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text != "" {
			names = append(names, read(text, path, kind))
		}
	}
	return names
}

// untold stands for names that can't be told.
func untold(path *field.Path, kind guard.Kind, text, flaw, whole string) Name {
	return Name{Text: text, Path: path, Kind: kind, Flaw: flaw, Whole: sha256.Sum256([]byte(whole))}
}

func hostsIn(names []Name) string {
	hosts := make([]string, 0, len(names))
	for _, n := range names {
		hosts = append(hosts, n.Host)
	}
	return strings.Join(hosts, "\n")
}

// alias reads an alias as nginx does: .example.com is example.com and all names below it, and shop.example.* a name of any suffix. See
// https://nginx.org/en/docs/http/server_names.html.
func alias(n Name) []Name {
	if strings.HasSuffix(n.Host, ".*") {
		return []Name{untold(n.Path, n.Kind, n.Text, "is a name of any suffix", n.Text)}
	}
	if below, also := strings.CutPrefix(n.Host, "."); also {
		n.Host = below
		wild := n
		wild.Host = "*." + below
		return []Name{n, wild}
	}
	return []Name{n}
}

// read reads a host name as those who serve it do: case and a dot at its end mean nothing, and other scripts are written in ASCII.
func read(text string, path *field.Path, kind guard.Kind) Name {
	n := Name{Text: text, Path: path, Kind: kind, Host: strings.ToLower(strings.TrimRight(strings.ReplaceAll(text, " ", ""), "."))}
	if strings.HasPrefix(n.Host, "~") {
		return untold(path, kind, text, "is a regular expression, and nobody can say which names it is for", text)
	}
	if strings.ContainsFunc(n.Host, func(r rune) bool { return r > 127 }) {
		if ascii, err := scripts.ToASCII(n.Host); err == nil {
			n.Host = strings.ToLower(strings.TrimRight(ascii, "."))
		}
	}
	return n
}

// SaysNone says whether an object is a route that says no host name itself.
func (u *User) SaysNone() bool {
	kind := guard.Kind(u.Kind)
	return mayInherit(kind) && len(ofKind(u.Names, kind)) == 0
}

// mayInherit says whether routes of a kind are for host names of listeners.
func mayInherit(kind guard.Kind) bool {
	return kind == guard.HTTPRoute || kind == guard.GRPCRoute || kind == guard.TLSRoute
}

// Inherits says whether a route is for host names of the listeners that it attaches to: it says none itself, or one that stands for more.
func (u *User) Inherits(kind guard.Kind) bool {
	own := ofKind(u.Names, kind)
	return mayInherit(kind) && (len(own) == 0 || slices.ContainsFunc(own, func(n Name) bool { return strings.HasPrefix(n.Host, "*.") }))
}

// Inherit adds the host names of listeners, those for which names of its own stand if it says any: there, it is served for the narrower of
// the two, as the Gateway API has it.
func (u *User) Inherit(kind guard.Kind, hosts []guard.InheritedHost) {
	own := ofKind(u.Names, kind)
	for _, host := range hosts {
		n := read(host.Name, host.Path, kind)
		if len(own) == 0 || slices.ContainsFunc(own, func(o Name) bool { return standsFor(o.Host, n.Host) }) {
			u.Names = append(u.Names, n)
		}
	}
}

// standsFor says whether a wildcard stands for a name, or a wildcard, below it.
func standsFor(wildcard, name string) bool {
	suffix, wild := strings.CutPrefix(wildcard, "*")
	return wild && strings.HasSuffix(name, suffix) && name != wildcard
}

// ofKind are the names of a kind.
func ofKind(names []Name, kind guard.Kind) []Name {
	return slices.DeleteFunc(slices.Clone(names), func(n Name) bool { return n.Kind != kind })
}

// Only leaves the names of a kind.
func (u *User) Only(kind guard.Kind) { u.Names = ofKind(u.Names, kind) }

// Drop takes names off what is known of an object.
func (u *User) Drop(hosts ...string) {
	u.Names = slices.DeleteFunc(slices.Clone(u.Names), func(n Name) bool { return slices.Contains(hosts, n.Host) })
}

// IsRoute says whether the object is a route of the Gateway API.
func (u *User) IsRoute() bool { return u.Group == gatewayv1.GroupName }
