package streams

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

func TestServiceWith(t *testing.T) {
	_, _, svc := accesstest.Public()
	svc.UID = "life"
	for name, tc := range map[string]struct {
		ports []stream.PortKey
		want  string
	}{
		// Without the UID, what is applied to a Service that was deleted meanwhile would create one of our ports alone.
		"no ports": {nil, `{"kind":"Service","apiVersion":"v1","metadata":{"name":"proxy","namespace":"edge","uid":"life",` +
			`"labels":{"nginx-stream.jeffthecoder.xyz/class":"public"}}}`},
		"two ports": {tcpPorts(80, 5432), `{"kind":"Service","apiVersion":"v1","metadata":{"name":"proxy","namespace":"edge","uid":"life",` +
			`"labels":{"nginx-stream.jeffthecoder.xyz/class":"public"}},"spec":{"ports":[` +
			`{"name":"tcp-80","protocol":"TCP","port":80,"targetPort":80},{"name":"tcp-5432","protocol":"TCP","port":5432,"targetPort":5432}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(serviceWith("public", svc, tc.ports))
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

// TestFingerprint changes a Service in one way after the other. What others decide makes another fingerprint, what we
// have opened does not.
func TestFingerprint(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Service, *stream.ServicePorts)
		new    bool
	}{
		"nothing":        {func(*corev1.Service, *stream.ServicePorts) {}, false},
		"a port of ours": {func(s *corev1.Service, _ *stream.ServicePorts) { s.Spec.Ports = s.Spec.Ports[:1] }, false},
		"a foreign port": {func(_ *corev1.Service, f *stream.ServicePorts) {
			f.Foreign[tcpPorts(81)[0]] = corev1.ServicePort{Port: 81}
		}, true},
		"a foreign name": {func(_ *corev1.Service, f *stream.ServicePorts) {
			f.Foreign[tcpPorts(80)[0]] = corev1.ServicePort{Port: 80, Name: "web"}
		}, true},
		"the type":        {func(s *corev1.Service, _ *stream.ServicePorts) { s.Spec.Type = corev1.ServiceTypeNodePort }, true},
		"the annotations": {func(s *corev1.Service, _ *stream.ServicePorts) { s.Annotations = map[string]string{"a": "b"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(change func(*corev1.Service, *stream.ServicePorts)) string {
				class, _, svc := accesstest.Public()
				p := &proxy{class: class, service: svc, front: stream.ServicePorts{Foreign: map[stream.PortKey]corev1.ServicePort{tcpPorts(80)[0]: {Port: 80}}}}
				change(p.service, &p.front)
				return fingerprint(p)
			}
			if got := at(tc.change) != at(func(*corev1.Service, *stream.ServicePorts) {}); got != tc.new {
				t.Errorf("the fingerprint is another: %v", got)
			}
		})
	}
}
