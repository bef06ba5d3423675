package v1beta1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// TestUpstream reads where the traffic of a stream goes, as people write it.
func TestUpstream(t *testing.T) {
	type upstream struct {
		Namespace, Service string
		Outside            bool
		Protocol           Protocol
		Port               intstr.IntOrString
	}
	for name, tc := range map[string]struct {
		spec string
		want upstream
	}{
		"a Service": {
			"upstream: {service: db, port: 5432}", upstream{"shop", "db", false, TCP, intstr.FromInt32(5432)}},
		"a port by name": {
			"upstream: {service: db, port: sql}", upstream{"shop", "db", false, TCP, intstr.FromString("sql")}},
		"the older spelling": {
			"upstream: {host: some-tcp-port, port: 1234}", upstream{"shop", "some-tcp-port", false, TCP, intstr.FromInt32(1234)}},
		"the older spelling, is_service spelled out": {
			"{is_service: true, upstream: {host: db, port: 1}}", upstream{"shop", "db", false, TCP, intstr.FromInt32(1)}},
		"another namespace": {
			"upstream: {namespace: data, service: db, port: 1}", upstream{"data", "db", false, TCP, intstr.FromInt32(1)}},
		"outside": {
			"{is_service: false, upstream: {host: db.example.com, port: 1}}", upstream{"shop", "sti-postgres", true, TCP, intstr.FromInt32(1)}},
		"UDP": {
			"{protocol: UDP, upstream: {service: db, port: 1}}", upstream{"shop", "db", false, UDP, intstr.FromInt32(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &StreamIngress{}
			s.Namespace, s.Name = "shop", "postgres"
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &s.Spec); err != nil {
				t.Fatal(err)
			}
			got := upstream{s.UpstreamNamespace(), s.UpstreamService(), s.Outside(), s.ProtocolOrDefault(), s.Spec.Upstream.Port}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
