package exposure

import (
	"fmt"
	"slices"
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
	ports := tcpPorts(svc)
	isNamed := func(p corev1.ServicePort) bool { return p.Name == e.Port || strconv.Itoa(int(p.Port)) == e.Port }
	if i := slices.IndexFunc(ports, isNamed); i >= 0 {
		return ports[i].Port, nil
	}
	if i := slices.IndexFunc(svc.Spec.Ports, isNamed); i >= 0 {
		return 0, field.Invalid(AnnotationPath(), e.String(), fmt.Sprintf(
			"port %s of the Service is a %s port, and HTTP needs TCP; %s", e.Port, svc.Spec.Ports[i].Protocol, offered(svc)))
	}
	return 0, field.Invalid(AnnotationPath(), e.String(), fmt.Sprintf("the Service has no port %s; %s", e.Port, offered(svc)))
}

func impliedPort(svc *corev1.Service) (int32, *field.Error) {
	ports := tcpPorts(svc)
	i := slices.IndexFunc(ports, func(p corev1.ServicePort) bool { return p.Name == defaultPortName })
	if i < 0 {
		i = slices.IndexFunc(ports, func(p corev1.ServicePort) bool { return p.Port == defaultPortNumber })
	}
	switch {
	case i >= 0:
		return ports[i].Port, nil
	case len(ports) == 1:
		return ports[0].Port, nil
	case len(ports) == 0:
		return 0, field.Required(AnnotationPath(),
			"the Service has no TCP port that an Ingress could lead to; give it one, for example http (80)")
	default:
		return 0, field.Required(AnnotationPath(), fmt.Sprintf(
			"port is left out, and of several ports none is named http or has number 80; %s", offered(svc)))
	}
}

// offered names the ports to choose from, and how.
func offered(svc *corev1.Service) string {
	ports := tcpPorts(svc)
	if len(ports) == 0 {
		return "it has no TCP port; give it one, for example http (80)"
	}
	var texts []string
	for _, p := range ports {
		text := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			text = p.Name + " (" + text + ")"
		}
		texts = append(texts, text)
	}
	return fmt.Sprintf("its TCP ports are %s; for example port=%d", strings.Join(texts, ", "), ports[0].Port)
}

func tcpPorts(svc *corev1.Service) []corev1.ServicePort {
	return slices.DeleteFunc(slices.Clone(svc.Spec.Ports), func(p corev1.ServicePort) bool {
		return p.Protocol != corev1.ProtocolTCP && p.Protocol != ""
	})
}
