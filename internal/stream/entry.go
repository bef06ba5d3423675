// Package stream knows how a proxy is told about streams: the entries of the tcp-services and udp-services ConfigMaps
// that ingress-nginx and the HAProxy ingress controllers read, the ports on the Service in front of it, the policy of a
// class's ports, and the difference between what stands there and what should.
//
// It reads and writes nothing: values go in, values come out.
package stream

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Entry is the value of one key in a tcp-services or udp-services ConfigMap: where the traffic of a port goes. It is
// comparable.
//
// Format: namespace/service:port[:PROXY[:PROXY]], as documented by ingress-nginx ("Exposing TCP and UDP services"). The
// first PROXY makes the proxy accept the PROXY protocol, the second makes it send it.
type Entry struct {
	Namespace string
	Service   string
	// Port is the number or the name of a port of the Service.
	Port string
	// Accept and Send say where the PROXY protocol is spoken.
	Accept, Send bool
}

const proxyMark = "PROXY"

// ParseEntry reads the value of a ConfigMap key. The error says what is wrong with it.
func ParseEntry(value string) (Entry, error) {
	parts := strings.Split(value, ":")
	if len(parts) < 2 || len(parts) > 4 {
		return Entry{}, fmt.Errorf("%q is not namespace/service:port[:PROXY[:PROXY]]", value)
	}
	namespace, service, found := strings.Cut(parts[0], "/")
	if !found {
		return Entry{}, fmt.Errorf("%q names no namespace before the service", value)
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 {
		return Entry{}, fmt.Errorf("%q is not the name of a namespace", namespace)
	}
	if len(validation.IsDNS1123Label(service)) > 0 {
		return Entry{}, fmt.Errorf("%q is not the name of a Service", service)
	}
	if !isPort(parts[1]) {
		return Entry{}, fmt.Errorf("%q is neither a port number nor the name of a port", parts[1])
	}
	e := Entry{Namespace: namespace, Service: service, Port: parts[1]}
	for i, mark := range parts[2:] {
		switch {
		case mark == "":
		case strings.EqualFold(mark, proxyMark) && i == 0:
			e.Accept = true
		case strings.EqualFold(mark, proxyMark):
			e.Send = true
		default:
			return Entry{}, fmt.Errorf("%q is not PROXY", mark)
		}
	}
	return e, nil
}

func isPort(s string) bool {
	if _, ok := ParseKey(s); ok {
		return true
	}
	return len(validation.IsValidPortName(s)) == 0
}

// String is the value of the ConfigMap key. It is the inverse of ParseEntry.
func (e Entry) String() string {
	s := e.Namespace + "/" + e.Service + ":" + e.Port
	switch {
	case e.Accept && e.Send:
		s += ":" + proxyMark + ":" + proxyMark
	case e.Accept:
		s += ":" + proxyMark
	case e.Send:
		s += "::" + proxyMark
	}
	return s
}

// ParseKey reads a key of the ConfigMap: a port number from 1 to 65535, in decimal without leading zeros. Other keys
// are nothing that a proxy listens on.
func ParseKey(key string) (port int32, ok bool) {
	n, err := strconv.ParseUint(key, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != key {
		return 0, false
	}
	return int32(n), true
}

// Key is the key of a port in the ConfigMap.
func Key(port int32) string { return strconv.Itoa(int(port)) }
