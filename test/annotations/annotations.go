// Package annotations has values of ingress/http on a Service, with what is said about the wrong ones and the Ingress
// that the right ones give. The grammar's own tests and those through a real API server go through the same tables.
package annotations

import (
	"embed"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// Case is one value.
type Case struct {
	// Value of the annotation.
	Value string `json:"value"`
	// Ports of the Service, each "name number" or "name number UDP"; left out for http 80 alone.
	Ports []string `json:"ports"`
	// Says is what is wrong with it, in full.
	Says string `json:"says"`
	// Gives is the Ingress, as Describe writes it.
	Gives string `json:"gives"`
}

// Accepted are values that give an Ingress.
func Accepted() ([]Case, error) { return load("accepted.yaml") }

// Refused are values that are refused.
func Refused() ([]Case, error) { return load("refused.yaml") }

func load(name string) ([]Case, error) {
	content, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var cases []Case
	if err := yaml.UnmarshalStrict(content, &cases); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cases, nil
}

// ServicePorts are the ports of the Service of a case.
func (c Case) ServicePorts() []corev1.ServicePort {
	texts := c.Ports
	if texts == nil {
		texts = []string{"http 80"}
	}
	ports := make([]corev1.ServicePort, 0, len(texts))
	for _, text := range texts {
		p := corev1.ServicePort{Protocol: corev1.ProtocolTCP}
		words := strings.Fields(text)
		if len(words) == 3 {
			p.Protocol = corev1.Protocol(words[2])
		}
		p.Name = strings.TrimPrefix(words[0], "-")
		if _, err := fmt.Sscan(words[1], &p.Port); err != nil {
			panic(err) // the tables are part of the program
		}
		ports = append(ports, p)
	}
	return ports
}

// Describe writes what an Ingress says, one line for the class, each path and each certificate.
func Describe(spec networkingv1.IngressSpec) string {
	var lines []string
	if spec.IngressClassName != nil {
		lines = append(lines, "class "+*spec.IngressClassName)
	}
	if spec.DefaultBackend != nil {
		lines = append(lines, "default backend")
	}
	for _, rule := range spec.Rules {
		for _, p := range rule.HTTP.Paths {
			to := p.Backend.Service
			lines = append(lines, fmt.Sprintf("%s %s%s -> %s:%d", *p.PathType, rule.Host, p.Path, to.Name, to.Port.Number))
		}
	}
	for _, tls := range spec.TLS {
		lines = append(lines, fmt.Sprintf("tls %s for %s", tls.SecretName, strings.Join(tls.Hosts, " ")))
	}
	return strings.Join(lines, "\n")
}
