package plugin

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/findings"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

func TestSaysWhatItCouldNotRead(t *testing.T) {
	c := twice()
	c.refuses = func(plural, namespace string) error {
		switch {
		case plural == "gateways" || plural == "streamingressclasses":
			return missing(plural)
		case plural == "ingresses" && namespace != "team":
			return forbid(plural)
		case plural == "nodes" || plural == "services" || plural == "configmaps":
			return forbid(plural)
		}
		return nil
	}
	got := run(t, c, "kubectl-portcullis", "audit")
	if got.status != ExitFindings || !strings.Contains(got.out, "PathTwice") {
		t.Errorf("got %d: %s", got.status, got.out)
	}
	for _, line := range []string{
		"could not read services, nodes, configmaps named tcp-services, configmaps named udp-services: forbidden\n",
		"could not read ingresses: forbidden in all namespaces; those of namespace team were read\n",
		"not installed: gateways, streamingressclasses\n",
	} {
		if !strings.Contains(got.err, line) {
			t.Errorf("%q is missing in:\n%s", line, got.err)
		}
	}
}

// TestReadsConfigMapsOfOneNamespace holds that those of the user's namespace are read where not all may be.
func TestReadsConfigMapsOfOneNamespace(t *testing.T) {
	c := &fake{objects: map[string][]runtime.Object{"configmaps": {
		&corev1.ConfigMap{ObjectMeta: named("team", "tcp-services"), Data: map[string]string{"5432": "bad"}},
	}}}
	c.refuses = func(plural, namespace string) error {
		if namespace != "team" {
			return forbid(plural)
		}
		return nil
	}
	got := run(t, c, "kubectl-portcullis", "audit")
	if got.status != ExitFindings || !strings.Contains(got.out, "EntryLeadsNowhere") ||
		!strings.Contains(got.err, "configmaps: forbidden in all namespaces; those of namespace team were read") {
		t.Errorf("got %d: %s%s", got.status, got.out, got.err)
	}
}

func TestOneNamespace(t *testing.T) {
	c := &fake{objects: map[string][]runtime.Object{"ingresses": {
		ingress("a", "x", "shop.example.com"), ingress("b", "x", "shop.example.com"),
	}}}
	if got := run(t, c, "kubectl-portcullis", "audit"); got.status != ExitFindings {
		t.Errorf("got %d: %s", got.status, got.err)
	}
	if got := run(t, c, "kubectl-portcullis", "audit", "-n", "a"); got.status != ExitFine {
		t.Errorf("got %d: %s", got.status, got.out)
	}
}

// TestReadsConfigMapsThatAreNamed holds that those are read that workloads and classes name, and those of the usual names.
func TestReadsConfigMapsThatAreNamed(t *testing.T) {
	class := &v1beta1.StreamIngressClass{ObjectMeta: named("", "public")}
	class.Spec.UDPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "by-class"}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "not-there"}
	proxy := &appsv1.DaemonSet{ObjectMeta: named("edge", "proxy")}
	proxy.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--tcp-services-configmap=edge/by-argument"}}}
	bad := map[string]string{"5432": "bad"}
	c := &fake{objects: map[string][]runtime.Object{
		"streamingressclasses": {class}, "daemonsets": {proxy},
		"configmaps": {
			&corev1.ConfigMap{ObjectMeta: named("edge", "by-class"), Data: bad}, &corev1.ConfigMap{ObjectMeta: named("edge", "by-argument"), Data: bad},
			&corev1.ConfigMap{ObjectMeta: named("old", "tcp-services"), Data: bad},
		},
	}}
	report := Audit{}
	if err := json.Unmarshal([]byte(run(t, c, "kubectl-portcullis", "audit", "-o", "json").out), &report); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range report.Findings {
		if f.Rule == findings.EntryLeadsNowhere {
			found[f.Scope] = true
		}
	}
	for _, name := range []string{"edge/by-class", "edge/by-argument", "old/tcp-services"} {
		if !found["ConfigMap "+name] {
			t.Errorf("ConfigMap %s was not looked at: %v", name, found)
		}
	}
	c.refuses = func(plural, _ string) error {
		if plural == "configmap" {
			return forbid(plural)
		}
		return nil
	}
	c.objects["configmaps"] = nil
	if got := run(t, c, "kubectl-portcullis", "audit"); !strings.Contains(got.err, "ConfigMap edge/by-argument") {
		t.Errorf("it is not said which ConfigMap was not read: %s", got.err)
	}
}

// TestConfigMapThatFails holds that no finding is made of a ConfigMap that is named and could not be read.
func TestConfigMapThatFails(t *testing.T) {
	c := proxied(corev1.ServicePort{Port: 5432})
	c.refuses = func(plural, _ string) error {
		if plural == "configmap" {
			return apierrors.NewServiceUnavailable("down")
		}
		return nil
	}
	if got := run(t, c, "kubectl-portcullis", "audit"); got.status != ExitFine || !strings.Contains(got.err, "could not read ConfigMap edge/tcp: down") {
		t.Errorf("got %d: %s%s", got.status, got.out, got.err)
	}
}

// proxied is a cluster with a proxy, and its Service with some ports.
func proxied(ports ...corev1.ServicePort) *fake {
	proxy := &appsv1.Deployment{ObjectMeta: named("edge", "proxy")}
	proxy.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{
		"/nginx-ingress-controller", "--tcp-services-configmap=edge/tcp", "--publish-service=edge/proxy",
	}}}
	return &fake{objects: map[string][]runtime.Object{
		"deployments": {proxy}, "services": {&corev1.Service{ObjectMeta: named("edge", "proxy"), Spec: corev1.ServiceSpec{Ports: ports}}},
	}}
}

// TestOlderClusters holds that of the API server's own kinds, none is said not to be there that is served in another version.
func TestOlderClusters(t *testing.T) {
	for _, row := range []struct {
		version schema.GroupVersion
		want    bool
	}{
		{discoveryv1.SchemeGroupVersion, false}, {corev1.SchemeGroupVersion, false}, {v1beta1.GroupVersion, true},
	} {
		c := &fake{refuses: func(plural, _ string) error { return missing(plural) }}
		r := &reader{cluster: c, progress: newProgress(io.Discard, clock.RealClock{})}
		s, k := &snapshot.Snapshot{}, &kind{name: "X", plural: "xs", version: row.version}
		if err := r.readKind(t.Context(), k, s); err != nil || len(r.unread) != 1 || s.Knows("X", "") != row.want {
			t.Errorf("%s: known %v, unread %v, %v", row.version, s.Knows("X", ""), r.unread, err)
		}
	}
}
