package takeover

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// metaOf is the metadata of an object, by its namespace/name.
func metaOf(key string) metav1.ObjectMeta {
	namespace, name, _ := strings.Cut(key, "/")
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// keyOf is the key of an object, by its namespace/name.
func keyOf(key string) types.NamespacedName {
	return snapshot.Key(&corev1.Service{ObjectMeta: metaOf(key)})
}

// clusterWith is a cluster with a namespace shop, in which is a Service db, and all was read.
func clusterWith(change ...func(*Cluster)) *Cluster {
	c := &Cluster{Snapshot: &snapshot.Snapshot{}}
	for _, kind := range []string{"Namespace", "Service", "ConfigMap", "AddressPool", "IPAddressPool"} {
		c.MarkRead(kind, "")
	}
	for _, name := range []string{"shop", "ingress-nginx", "evil"} {
		c.AddNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}})
	}
	c.Services = append(c.Services, &corev1.Service{ObjectMeta: metaOf("shop/db"), Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}},
	}})
	for _, f := range change {
		f(c)
	}
	return c
}

// configMap adds one with entries.
func configMap(key string, data map[string]string) func(*Cluster) {
	return func(c *Cluster) {
		c.ConfigMaps = append(c.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metaOf(key), Data: data})
	}
}

// workload adds a proxy that reads a ConfigMap, and publishes a Service, which it adds with ports.
func workload(key, tcp, front string, ports ...int32) func(*Cluster) {
	return func(c *Cluster) {
		w := snapshot.Workload{Kind: "Deployment", Own: sets.New[int32](80, 443), IsNginx: true, Publishes: keyOf(front)}
		w.Namespace, w.Name, _ = strings.Cut(key, "/")
		w.ConfigMaps = map[v1beta1.Protocol]types.NamespacedName{v1beta1.TCP: keyOf(tcp)}
		c.Workloads = append(c.Workloads, w)
		svc := &corev1.Service{ObjectMeta: metaOf(front), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		for _, port := range ports {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: port})
		}
		c.Services = append(c.Services, svc)
	}
}

// class adds a class.
func class(name, tcp string) func(*Cluster) {
	return func(c *Cluster) {
		class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		key := keyOf(tcp)
		class.Spec.TCPConfigMap, class.Spec.Adopt = &v1beta1.ObjectReference{Namespace: key.Namespace, Name: key.Name}, v1beta1.AdoptTake
		c.Classes = append(c.Classes, class)
	}
}

// says fails the test unless one of some texts, or, for the empty one, none, has what is wanted.
func says(t *testing.T, texts []string, want string) {
	t.Helper()
	if want == "" && len(texts) > 0 {
		t.Errorf("says %q", texts)
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, want) }) && want != "" {
		t.Errorf("%q is missing in %q", want, texts)
	}
}

func TestHold(t *testing.T) {
	d := Document{}
	d.note("a %d", 1)
	if d.Held || len(d.Decisions) > 0 || d.Notes[0] != "a 1" {
		t.Errorf("got %+v", d)
	}
	d.Hold("b %d", 2)
	if !d.Held || d.Decisions[0] != "b 2" {
		t.Errorf("got %+v", d)
	}
}

// uniqueFronts keeps of several Services of one name the first.
func uniqueFronts(services []*corev1.Service) (kept []*corev1.Service) {
	for _, svc := range services {
		if !slices.ContainsFunc(kept, func(k *corev1.Service) bool { return snapshot.Key(k) == snapshot.Key(svc) }) {
			kept = append(kept, svc)
		}
	}
	return kept
}
