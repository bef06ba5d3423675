package exposure

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Defaults stand in for what an annotation leaves out.
type Defaults struct {
	// Class is the name of an IngressClass; empty for the one that the cluster marks as default.
	Class string
	// Host in which {service} and {namespace} stand for the names of the Service and its namespace.
	Host string
}

// Validate says what is wrong with the defaults themselves.
func (d Defaults) Validate() error {
	var errs []error
	if d.Class != "" {
		if f := nameFlaw(d.Class, "an IngressClass"); f != nil {
			errs = append(errs, fmt.Errorf("class %q: %s", d.Class, f.text))
		}
	}
	host := d.host("namespace", "service")
	if f := hostFlaw(host); host == "" || f != nil {
		errs = append(errs, fmt.Errorf("host %q: not a host name with {service} and {namespace} filled in", d.Host))
	}
	return errors.Join(errs...)
}

func (d Defaults) host(namespace, service string) string {
	return strings.NewReplacer("{namespace}", namespace, "{service}", service).Replace(d.Host)
}

// Complete fills in what an exposure of a Service leaves out, except for the port. The error says that the names of the
// Service and its namespace make no host.
func (d Defaults) Complete(e Exposure, namespace, service string) (Exposure, *field.Error) {
	e.Class = cmp.Or(e.Class, d.Class)
	if len(e.Hosts) == 0 {
		host := d.host(namespace, service)
		if f := hostFlaw(host); f != nil {
			return e, field.Required(AnnotationPath(), fmt.Sprintf(
				"no host is given, and the one that would be given, %q, is not right: %s; name one, for example host=shop.example.com",
				host, f.text))
		}
		e.Hosts = []string{host}
	}
	if len(e.Paths) == 0 {
		e.Paths = []Path{{networkingv1.PathTypePrefix, "/"}}
	}
	if !e.Issuer.IsZero() && e.Secret == "" {
		e.Secret = service + "-tls"
	}
	return e, nil
}
