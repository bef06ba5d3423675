package exposure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// rule is how one field is read.
type rule struct {
	// set reads the value, which is not empty, into an exposure.
	set func(*Exposure, string) *flaw
	// repeats says whether the field may be given more than once.
	repeats bool
	// example is a correct field.
	example string
	// mistaken are names that people write when they mean this field.
	mistaken []string
}

// names are the names of the fields, in the order in which String writes them.
var names = []string{"class", "host", "path", "exact", "port", "issuer", "tls"}

var grammar = map[string]rule{
	"class": {set: (*Exposure).setClass, example: "class=nginx",
		mistaken: []string{"ingressclass", "classname", "ingressclassname", "ingress-class"}},
	"host": {set: (*Exposure).addHost, repeats: true, example: "host=shop.example.com",
		mistaken: []string{"hostname", "domain", "fqdn", "server"}},
	"path": {set: (*Exposure).addPrefix, repeats: true, example: "path=/api",
		mistaken: []string{"prefix", "url", "uri", "location"}},
	"exact": {set: (*Exposure).addExact, repeats: true, example: "exact=/health",
		mistaken: []string{"exactpath", "exact-path"}},
	"port": {set: (*Exposure).setPort, example: "port=http",
		mistaken: []string{"targetport", "serviceport", "service-port"}},
	"issuer": {set: (*Exposure).setIssuer, example: "issuer=letsencrypt, or issuer=Issuer/letsencrypt for one in the namespace",
		mistaken: []string{"clusterissuer", "cluster-issuer", "cert-manager"}},
	"tls": {set: (*Exposure).setSecret, example: "tls=shop-tls",
		mistaken: []string{"secret", "secretname", "cert", "certificate"}},
}

func (e *Exposure) setClass(value string) *flaw {
	e.Class = value
	return nameFlaw(value, "an IngressClass")
}

func (e *Exposure) setSecret(value string) *flaw {
	e.Secret = value
	return nameFlaw(value, "a Secret")
}

func (e *Exposure) setIssuer(value string) *flaw {
	kind, name, found := strings.Cut(value, "/")
	switch {
	case !found:
		e.Issuer = Issuer{Kind: clusterIssuer, Name: value}
		return nameFlaw(value, "a ClusterIssuer")
	case kind == clusterIssuer:
		return &flaw{text: "a ClusterIssuer is named without its kind"}
	case kind != issuer:
		return &flaw{text: fmt.Sprintf("%q is not a kind of issuer that can be named here", kind)}
	case name == "":
		return &flaw{text: "the name of the Issuer is missing", offset: len(value)}
	}
	e.Issuer = Issuer{Kind: issuer, Name: name}
	f := nameFlaw(name, "an Issuer")
	if f != nil {
		f.offset += len(kind) + 1
	}
	return f
}

func (e *Exposure) setPort(value string) *flaw {
	e.Port = value
	if strings.Trim(value, "0123456789") != "" {
		if strings.Trim(value, "-+.0123456789") == "" {
			return &flaw{text: "a port is a whole number from 1 to 65535"}
		}
		if wrong := validation.IsValidPortName(value); len(wrong) > 0 {
			return &flaw{text: "neither a number nor the name of a port, which has at most 15 lower-case letters, digits and single hyphens, " +
				"one letter at least"}
		}
		return nil
	}
	number, err := strconv.ParseUint(value, 10, 16)
	switch {
	case err != nil || number == 0:
		return &flaw{text: "a port is a number from 1 to 65535"}
	case strconv.FormatUint(number, 10) != value:
		return &flaw{text: "a port is written without leading zeros"}
	}
	return nil
}

func (e *Exposure) addHost(value string) *flaw {
	switch {
	case slices.Contains(e.Hosts, value):
		return &flaw{text: "the host is given twice"}
	case len(e.Hosts) >= MaxHosts:
		return &flaw{text: fmt.Sprintf("%d hosts are the most for one Service", MaxHosts)}
	}
	e.Hosts = append(e.Hosts, value)
	return hostFlaw(value)
}

func (e *Exposure) addPrefix(value string) *flaw {
	return e.addPath(Path{networkingv1.PathTypePrefix, value})
}

func (e *Exposure) addExact(value string) *flaw {
	return e.addPath(Path{networkingv1.PathTypeExact, value})
}

func (e *Exposure) addPath(p Path) *flaw {
	same := func(other Path) bool { return other.point() == p.point() }
	switch {
	case slices.ContainsFunc(e.Paths, same):
		return &flaw{text: "the path is given twice (a path covers the exact path of the same name, and a slash at its end counts for nothing)"}
	case len(e.Paths) >= maxPaths:
		return &flaw{text: fmt.Sprintf("%d paths are the most for one Service", maxPaths)}
	}
	e.Paths = append(e.Paths, p)
	return pathFlaw(p.Value)
}
