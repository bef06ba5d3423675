package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/takeover"
)

// FuzzWriteDocuments holds that what others have written breaks out of no comment and no value: what is written are the manifests that are to
// be applied, and nothing else.
func FuzzWriteDocuments(f *testing.F) {
	f.Add("5432", "shop/db:5432", "192.0.2.0/24", "x", "team")
	f.Add("x\n---\nkind: Secret", "gone/db:1\u2028kind: Secret", "192.0.2.1\r\n---", "\u0085kind: Secret\ufeff", "a: b\n# c")
	f.Add("1", "gone/db:x\u2029", "10.0.0.0/8", "\x00\x1b]0;", "---")
	f.Add("70000", "\ufffe\uffff", "...", "%YAML 1.2", "|")
	f.Fuzz(func(t *testing.T, key, entry, address, value, name string) {
		for _, text := range []string{key, entry, address, value, name} {
			if !utf8.ValidString(text) {
				return // the API has no such text
			}
		}
		docs := documentsOf(key, entry, address, value, name)
		var written bytes.Buffer
		if err := writeDocuments(&written, docs, []Unread{{What: value, Why: name}}); err != nil {
			t.Fatal(err)
		}
		got := objectsIn(t, written.String())
		for i := range docs {
			if docs[i].Object == nil || docs[i].Held {
				continue
			}
			content, err := contentOf(docs[i].Object)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 || asJSON(t, got[0].Object) != asJSON(t, content) {
				t.Fatalf("want %v in:\n%s", content, written.String())
			}
			got = got[1:]
		}
		if len(got) > 0 {
			t.Fatalf("there is %v in:\n%s", got, written.String())
		}
		if strings.ContainsFunc(written.String(), func(r rune) bool { return r < ' ' && r != '\n' }) {
			t.Errorf("it moves the cursor: %q", written.String())
		}
	})
}

// documentsOf is what is imported of a cluster with texts of others in all places.
func documentsOf(key, entry, address, value, name string) (docs []takeover.Document) {
	c := &takeover.Cluster{Snapshot: &snapshot.Snapshot{}}
	for _, kind := range []string{"Namespace", "Service", "ConfigMap"} {
		c.MarkRead(kind, "")
	}
	c.AddNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	ref := &v1beta1.ObjectReference{Namespace: "in", Name: "tcp"}
	c.Classes = []*v1beta1.StreamIngressClass{{ObjectMeta: named("", "public"), Spec: v1beta1.StreamIngressClassSpec{TCPConfigMap: ref}}}
	c.ConfigMaps = []*corev1.ConfigMap{{ObjectMeta: named("in", "tcp"), Data: map[string]string{key: entry, "1": entry, "2": value, "3": "shop/db:" + name}}}
	spec := map[string]any{"addresses": []any{address}, "serviceAllocation": map[string]any{
		"namespaces": []any{value}, "serviceSelectors": []any{map[string]any{"matchLabels": map[string]any{name: value}}},
	}}
	c.MetalLB = []*unstructured.Unstructured{
		{Object: map[string]any{"metadata": map[string]any{"namespace": "m", "name": name}, "spec": spec}},
		{Object: map[string]any{"metadata": map[string]any{"namespace": "m", "name": "x"}, "spec": value}},
	}
	for i, asks := range []string{"metallb.io/loadBalancerIPs", "metallb.io/address-pool", "metallb.io/allow-shared-ip", v1beta1.AnnotationSharing} {
		for _, ips := range [][]corev1.LoadBalancerIngress{nil, {{IP: address}, {Hostname: value}}, {{IP: "192.0.2.1"}}} {
			svc := &corev1.Service{ObjectMeta: named("shop", string(rune('a'+i))), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
			svc.Annotations, svc.Status.LoadBalancer.Ingress = map[string]string{asks: value}, ips
			if i == 3 && len(ips) == 1 {
				svc.Spec.LoadBalancerClass = &name
			}
			c.Services = append(c.Services, svc)
		}
	}
	docs = append(takeover.PoolsOf(c), takeover.StreamsOf(c, takeover.Options{})...)
	return append(docs, takeover.ServicesOf(c, takeover.Options{}, nil))
}

func asJSON(t *testing.T, content map[string]any) string {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLongTexts holds that nobody makes a line longer than one can read.
func TestLongTexts(t *testing.T) {
	if got := inOneLine(strings.Repeat("ä\n", longest)); len(got) > longest+4 || !utf8.ValidString(got) || strings.Contains(got, "\n") {
		t.Errorf("got %d bytes", len(got))
	}
}

// broken can't be written to.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWhatCantBeWritten(t *testing.T) {
	if err := writeDocuments(broken{}, nil, nil); err == nil {
		t.Error("it was written")
	}
}
