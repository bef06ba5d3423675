package e2e

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
)

// edge is a proxy with a class of its own, and a Service to lead to, in one namespace.
type edge struct {
	namespace, class string
}

// newEdge makes an edge, which goes when the test ends. Its proxy has a Service and entries that Portcullis did not make.
func newEdge(t *testing.T, name string) edge {
	t.Helper()
	ns := newNamespace(t, name)
	e := edge{namespace: ns, class: ns}
	apply(t, ns, `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: proxy}
spec: {selector: {app: proxy}, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: tcp-services}
data: {"9": "manual/discard:9"}
`)
	t.Cleanup(func() {
		if _, err := tryKubectl("", "delete", "streamingressclass", e.class, "--ignore-not-found"); err != nil && !strings.Contains(err.Error(), "resource type") {
			t.Error(err)
		}
	})
	e.makeClass(t)
	return e
}

// makeClass makes the class of the edge.
func (e edge) makeClass(t *testing.T) {
	t.Helper()
	apply(t, e.namespace, fmt.Sprintf(`
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngressClass
metadata: {name: %[2]s}
spec:
  tcpConfigMap: {namespace: %[1]s, name: tcp-services}
  udpConfigMap: {namespace: %[1]s, name: udp-services}
  service: {namespace: %[1]s, name: proxy}
  autoAssign: {from: 20000, to: 20999}
`, e.namespace, e.class))
}

// stream is what the tests read of StreamIngresses.
type stream struct {
	Metadata struct{ Name string }
	Status   struct {
		Listen     int
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

// is says whether a condition is true, and what it says.
func (s stream) is(kind string) (met bool, words string) {
	for _, c := range s.Status.Conditions {
		if c.Type == kind {
			return c.Status == "True", c.Reason + ": " + c.Message
		}
	}
	return false, "there is no condition " + kind
}

// programmed waits until every StreamIngress of the edge is, and returns their names by port.
func (e edge) programmed(t *testing.T) (holders map[int]string) {
	t.Helper()
	eventually(t, "every StreamIngress to be programmed", func() error {
		streams, err := list[stream]("streamingresses", "-n", e.namespace)
		holders = map[int]string{}
		for _, s := range streams {
			if met, words := s.is("Programmed"); !met {
				err = errors.Join(err, fmt.Errorf("%s: %s", s.Metadata.Name, words))
			}
			if former := holders[s.Status.Listen]; former != "" {
				err = errors.Join(err, fmt.Errorf("TCP/%d is held by both %s and %s", s.Status.Listen, former, s.Metadata.Name))
			}
			holders[s.Status.Listen] = s.Metadata.Name
		}
		return err
	})
	return holders
}

// leadsTo waits until the proxy has just these entries, and those that somebody else made.
func (e edge) leadsTo(t *testing.T, entries map[int]string) {
	t.Helper()
	keys, ports := map[string]string{"9": "manual/discard:9"}, map[int]bool{443: true}
	for port, to := range entries {
		keys[strconv.Itoa(port)] = to
		ports[port] = true
	}
	eventually(t, fmt.Sprintf("just %d entries and ports", len(entries)), func() error {
		cm, err := read[struct{ Data map[string]string }]("configmap", "tcp-services", "-n", e.namespace)
		if err != nil || !maps.Equal(cm.Data, keys) {
			return fmt.Errorf("the ConfigMap has %d entries, want %d: %v: %w", len(cm.Data), len(keys), cm.Data, err)
		}
		svc, err := read[struct {
			Spec struct{ Ports []struct{ Port int } }
		}]("service", "proxy", "-n", e.namespace)
		open := map[int]bool{}
		for _, p := range svc.Spec.Ports {
			open[p.Port] = true
		}
		if err != nil || !maps.Equal(open, ports) {
			return fmt.Errorf("the Service has %d ports, want %d: %w", len(open), len(ports), err)
		}
		return nil
	})
}
