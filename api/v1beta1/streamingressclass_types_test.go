package v1beta1

import "testing"

func TestIsDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"no annotations":  {nil, false},
		"true":            {map[string]string{"nginx-stream.jeffthecoder.xyz/is-default-class": "true"}, true},
		"false":           {map[string]string{"nginx-stream.jeffthecoder.xyz/is-default-class": "false"}, false},
		"another word":    {map[string]string{"nginx-stream.jeffthecoder.xyz/is-default-class": "yes"}, false},
		"another default": {map[string]string{"ingressclass.kubernetes.io/is-default-class": "true"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &StreamIngressClass{}
			c.Annotations = tc.annotations
			if got := c.IsDefault(); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestConfigMap(t *testing.T) {
	tcp, udp := &ObjectReference{Namespace: "edge", Name: "tcp"}, &ObjectReference{Namespace: "edge", Name: "udp"}
	for name, tc := range map[string]struct {
		spec     StreamIngressClassSpec
		protocol Protocol
		want     *ObjectReference
	}{
		"TCP of both": {StreamIngressClassSpec{TCPConfigMap: tcp, UDPConfigMap: udp}, TCP, tcp},
		"UDP of both": {StreamIngressClassSpec{TCPConfigMap: tcp, UDPConfigMap: udp}, UDP, udp},
		"UDP of none": {StreamIngressClassSpec{TCPConfigMap: tcp}, UDP, nil},
		"TCP of none": {StreamIngressClassSpec{UDPConfigMap: udp}, TCP, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&StreamIngressClass{Spec: tc.spec}).ConfigMap(tc.protocol); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
