package exposure

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The port that is meant when none is named.
const (
	defaultPortName   = "http"
	defaultPortNumber = 80
)

// FindPort finds the port that an exposure means: the one that it names; else the one named http; else port 80; else
// the only one. Only TCP ports count.
func (e Exposure) FindPort(svc *corev1.Service) (int32, *field.Error) {
	if e.Port == "" {
		return impliedPort(svc)
	}
	for _, p := range svc.Spec.Ports {
		if isTCP(p) && (p.Name == e.Port || strconv.Itoa(int(p.Port)) == e.Port) {
			return p.Port, nil
		}
	}
	for _, p := range svc.Spec.Ports {
		if p.Name == e.Port || strconv.Itoa(int(p.Port)) == e.Port {
			return 0, field.Invalid(AnnotationPath(), e.String(), fmt.Sprintf(
				"port %s of the Service is a %s port, and HTTP needs TCP; %s", e.Port, p.Protocol, offered(svc)))
		}
	}
	return 0, field.Invalid(AnnotationPath(), e.String(), fmt.Sprintf("the Service has no port %s; %s", e.Port, offered(svc)))
}

func impliedPort(svc *corev1.Service) (int32, *field.Error) {
	var ports []corev1.ServicePort
	for _, p := range svc.Spec.Ports {
		if isTCP(p) {
			ports = append(ports, p)
		}
	}
	for _, p := range ports {
		if p.Name == defaultPortName {
			return p.Port, nil
		}
	}
	for _, p := range ports {
		if p.Port == defaultPortNumber {
			return p.Port, nil
		}
	}
	if len(ports) == 1 {
		return ports[0].Port, nil
	}
	if len(ports) == 0 {
		return 0, field.Required(AnnotationPath(),
			"the Service has no TCP port that an Ingress could lead to; give it one, for example http (80)")
	}
	return 0, field.Required(AnnotationPath(), fmt.Sprintf(
		"port is left out, and of several ports none is named http or has number 80; %s", offered(svc)))
}

// offered names the ports to choose from, and how.
func offered(svc *corev1.Service) string {
	var ports []string
	choice := ""
	for _, p := range svc.Spec.Ports {
		if !isTCP(p) {
			continue
		}
		number := strconv.Itoa(int(p.Port))
		if choice == "" {
			choice = number
		}
		if p.Name != "" {
			number = p.Name + " (" + number + ")"
		}
		ports = append(ports, number)
	}
	if len(ports) == 0 {
		return "it has no TCP port; give it one, for example http (80)"
	}
	return fmt.Sprintf("its TCP ports are %s; for example port=%s", strings.Join(ports, ", "), choice)
}

func isTCP(p corev1.ServicePort) bool { return p.Protocol == corev1.ProtocolTCP || p.Protocol == "" }
