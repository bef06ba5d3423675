package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestMissingTargets(t *testing.T) {
	w := shared(t)
	e := &edge{fixture: w, namespace: "edge-missing", class: streamClass("missing", "edge-missing")}
	s := sti("missing/s", of("missing"), tcp(1000))
	w.create(namespace("edge-missing"), namespace("missing"), e.class)
	w.classHas(e.class, v1beta1.ConditionProgrammed, "False ServiceNotFound")
	w.create(s)
	w.has(s, v1beta1.ConditionProgrammed, "False ServiceNotFound")
	w.has(s, v1beta1.ConditionAccepted, "True Accepted")
	e.leads(TCP, 1000, "no port: missing/web:80")

	t.Log("a Service that appears is used, one that is replaced too")
	e.create(e.proxy())
	e.leads(TCP, 1000, "missing/web:80")
	e.programmed(s)
	w.classHas(e.class, v1beta1.ConditionProgrammed, "True Programmed")
	e.delete(e.proxy())
	e.has(s, v1beta1.ConditionProgrammed, "False ServiceNotFound")
	e.create(e.proxy())
	e.leads(TCP, 1000, "missing/web:80")
	e.programmed(s)

	t.Log("addresses are those of the Service")
	lb := e.proxy()
	edit(w, lb, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
	lb.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.com"}}
	w.eventually("the status to be written", func() error {
		err := w.Client.Status().Update(t.Context(), lb)
		if err != nil {
			w.get(lb)
			lb.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.com"}}
		}
		return err
	})
	w.eventually("the addresses to be told", func() error {
		w.get(s)
		return is(strings.Join(s.Status.Addresses, " "), "192.0.2.1 lb.example.com")
	})

	t.Log("a ConfigMap that is deleted is made again")
	w.delete(configMap("edge-missing/tcp-services", nil))
	e.leads(TCP, 1000, "missing/web:80")
}

func TestConfigMapThatCannotBeWritten(t *testing.T) {
	e := shared(t).newEdge("immutable")
	before := sti("immutable/before", of("immutable"), tcp(1000))
	e.create(namespace("immutable"), before)
	e.programmed(before)
	cm := configMap(e.namespace+"/tcp-services", nil)
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) { cm.Immutable = new(true) })

	after, other := sti("immutable/after", of("immutable"), tcp(1001)), sti("immutable/other", of("immutable"), udp(1001))
	e.create(after, other)
	e.programmed(other)
	e.has(after, v1beta1.ConditionProgrammed, "False ConfigMapRefused")
	e.has(after, v1beta1.ConditionAccepted, "True Accepted")
	e.classHas(e.class, v1beta1.ConditionProgrammed, "False ConfigMapRefused")
	mustContain(t, messageOf(after.Status.Conditions, v1beta1.ConditionProgrammed), "edge-immutable/tcp-services", "field is immutable when `immutable` is set")
	e.programmed(before)
	e.leads(TCP, 1001, "closed")

	t.Log("a new ConfigMap takes all of them")
	e.delete(cm)
	e.leads(TCP, 1000, "immutable/web:80")
	e.leads(TCP, 1001, "immutable/web:80")
	e.programmed(before, after)
	e.classHas(e.class, v1beta1.ConditionProgrammed, "True Programmed")
}

// messageOf is the message of a condition.
func messageOf(conditions []metav1.Condition, kind string) string {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

func TestFullConfigMap(t *testing.T) {
	e := shared(t).newEdge("full")
	first := sti("full/first", of("full"), tcp(1001))
	e.create(namespace("full"), first)
	e.programmed(first)
	cm := configMap(e.namespace+"/tcp-services", nil)
	// Room for one more entry like the first.
	filler := strings.Repeat("x", 1<<20-len("filler")-3*len("1001full/web:80")+2)
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) { cm.Data["filler"] = filler })
	second, third := sti("full/second", of("full"), tcp(1002)), sti("full/third", of("full"), tcp(1000))
	e.create(second)
	e.programmed(second)
	e.create(third)
	e.has(third, v1beta1.ConditionProgrammed, "False ConfigMapFull")
	mustContain(t, messageOf(third.Status.Conditions, v1beta1.ConditionProgrammed), "edge-full/tcp-services has no room for another entry", "the API server stores no larger one")
	e.classHas(e.class, v1beta1.ConditionProgrammed, "False ConfigMapFull")
	e.programmed(first, second)
	e.leads(TCP, 1000, "closed")

	t.Log("room is used when it appears")
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) {
		if cm.Data["filler"] != filler {
			t.Error("the foreign key was changed")
		}
		delete(cm.Data, "filler")
	})
	e.leads(TCP, 1000, "full/web:80")
	e.programmed(first, second, third)
	e.classHas(e.class, v1beta1.ConditionProgrammed, "True Programmed")
}
