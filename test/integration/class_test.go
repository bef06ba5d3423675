package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// warned is a client that keeps the warnings of the API server.
type warned struct {
	client.Client
	mu       sync.Mutex
	warnings []string
}

// warned makes a client that keeps the warnings of the API server.
func (w *fixture) warned() *warned {
	w.t.Helper()
	k := &warned{}
	config := w.Config()
	config.WarningHandler = k
	var err error
	if k.Client, err = client.New(config, client.Options{Scheme: harness.Scheme()}); err != nil {
		w.t.Fatal(err)
	}
	return k
}

// HandleWarningHeader keeps a warning.
func (k *warned) HandleWarningHeader(_ int, _, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warnings = append(k.warnings, text)
}

// said returns the warnings since the last call, in one text.
func (k *warned) said() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() { k.warnings = nil }()
	return strings.Join(k.warnings, "\n")
}

func TestDefaultClass(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	w.create(namespace("team"))
	without := func(name string, number int32) *v1beta1.StreamIngress { return sti("team/"+name, tcp(number)) }
	none := w.refusal(w.try(without("a", 1)))
	mustContain(t, none.Error(), "spec.className: Required value", "no class is named", v1beta1.AnnotationDefaultClass, "there are no classes yet")

	first := w.newEdge("first")
	mustContain(t, w.refusal(w.try(without("a", 1))).Error(), `"true"; name one of first`)
	for _, name := range []string{"frist", "first/second", ".."} {
		mustContain(t, w.refusal(w.try(sti("team/a", of(name), tcp(1)))).Error(),
			`spec.className: Not found: "`+name+`"`, "there is no StreamIngressClass of this name; name one of first")
	}

	edit(w, first.class, isDefault)
	a := without("a", 1)
	w.eventually("the default class to be seen", func() error { return w.try(a) })
	first.leads(TCP, 1, "team/web:80")
	w.programmed(a)
	if a.Spec.ClassName != "" || a.Status.ClassName != "first" {
		t.Errorf("got the class %q in spec and %q in status", a.Spec.ClassName, a.Status.ClassName)
	}

	t.Log("a second default is a warning, and new streams have to choose")
	second := streamClass("second", "edge-second", isDefault)
	k := w.warned()
	w.create(namespace("edge-second"), service("edge-second/proxy", port("http", 80)))
	if err := k.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	mustContain(t, k.said(), "class first is the default too")
	w.eventually("the second default to be seen", func() error {
		err := w.Client.Create(t.Context(), without("b", 2), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "several are marked as default: name one of first, second") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})

	t.Log("a stream stays with the class that serves it")
	edit(w, a, to("web", 81))
	first.leads(TCP, 1, "team/web:81")
	edit(w, first.class, func(c *v1beta1.StreamIngressClass) { c.Annotations = nil })
	b := without("b", 1)
	w.eventually("the one default to be seen", func() error { return w.try(b) })
	atSecond := &edge{fixture: w, class: second, namespace: "edge-second"}
	atSecond.leads(TCP, 1, "team/web:80")
	edit(w, a, tcp(3))
	first.leads(TCP, 3, "team/web:81")
	w.programmed(a, b)
	if a.Status.ClassName != "first" || b.Status.ClassName != "second" {
		t.Errorf("got %s and %s", a.Status.ClassName, b.Status.ClassName)
	}

	t.Log("and moves when it names another")
	edit(w, a, of("second"))
	atSecond.leads(TCP, 3, "team/web:81")
	first.leads(TCP, 3, "closed")
	first.heldBy("first", TCP, 3, "")
}

func TestChangesOfAClassInUse(t *testing.T) {
	e := shared(t).newEdge("inuse")
	s := sti("inuse/s", of("inuse"), tcp(1000))
	e.create(namespace("inuse"), s)
	e.programmed(s)
	e.known(3) // those of the Service too; a replica that does not know the stream's would let the changes in
	for field, change := range map[string]func(*v1beta1.StreamIngressClass){
		"spec.tcpConfigMap": func(c *v1beta1.StreamIngressClass) { c.Spec.TCPConfigMap.Name = "other" },
		"spec.service":      func(c *v1beta1.StreamIngressClass) { c.Spec.Service = nil },
	} {
		err := e.refusal(tryEdit(e.fixture, e.class, change))
		mustContain(t, err.Error(), field+": Forbidden: can't be changed from edge-inuse/", "while the class serves 1 stream(s)")
	}

	t.Log("what harms no stream passes")
	edit(e.fixture, e.class, func(c *v1beta1.StreamIngressClass) {
		c.Spec.UDPConfigMap.Name = "other-udp"
		c.Spec.Reserved = []v1beta1.PortRange{{From: 1, To: 2000}}
		c.Spec.Allow = []v1beta1.PortAllowance{{From: 1, To: 1}}
	})
	e.eventually("the new ConfigMap to be made", func() error {
		return e.Client.Get(t.Context(), client.ObjectKey{Namespace: e.namespace, Name: "other-udp"}, configMap("/", nil))
	})
	e.leads(TCP, 1000, "inuse/web:80")

	t.Log("an empty class may be pointed elsewhere, and lets go of what it had")
	e.delete(s)
	e.heldBy("inuse", TCP, 1000, "")
	e.create(service(e.namespace+"/proxy2", port("http", 8080), port("https", 8443)))
	e.eventually("the class to be empty", func() error {
		return tryEdit(e.fixture, e.class, func(c *v1beta1.StreamIngressClass) {
			c.Spec.TCPConfigMap.Name, c.Spec.Service.Name = "tcp2", "proxy2"
			c.Spec.Reserved, c.Spec.Allow = nil, nil
		})
	})
	again := sti("inuse/again", of("inuse"), tcp(1001))
	e.eventually("the new policy to be seen", func() error { return e.try(again) })
	e.leads(TCP, 1001, "inuse/web:80")
	old := service(e.namespace + "/proxy")
	e.eventually("the old Service to be let go", func() error {
		e.get(old)
		return is(old.Labels[v1beta1.LabelClass]+names(old), "http,https")
	})
	e.heldBy("inuse", TCP, 8443, "Service edge-inuse/proxy2")
	e.heldBy("inuse", TCP, 443, "")
}

// known waits until every replica knows this many claims on the ports of the class.
func (e *edge) known(claims int) {
	e.t.Helper()
	name := fmt.Sprintf("portcullis_claims{scope=%q}", claim.StreamScope(e.class.Name))
	e.eventually("every replica to know the claims", func() error {
		return is(e.metric(name), float64(claims*len(e.Replicas)))
	})
}

// names are the names of a Service's ports.
func names(s *corev1.Service) string {
	var all []string
	for _, p := range s.Spec.Ports {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func TestDeletionOfAClass(t *testing.T) {
	e := shared(t).newEdge("gone")
	e.create(namespace("gone"))
	streams := []*v1beta1.StreamIngress{sti("gone/a", of("gone"), tcp(1000)), sti("gone/b", of("gone"), udp(1000))}
	e.create(streams[0], streams[1])
	e.programmed(streams...)

	e.known(4) // those of the Service too; whether the streams are told of depends on it
	k := e.warned()
	if err := k.Delete(t.Context(), e.class); err != nil {
		t.Fatal(err)
	}
	mustContain(t, k.said(), "class gone serves 2 stream(s): their ports are closed now, and opened again when a class of this name returns")
	e.leads(TCP, 1000, "closed")
	e.leads(UDP, 1000, "closed")
	for _, s := range streams {
		e.has(s, v1beta1.ConditionAccepted, "False ClassNotFound")
		e.has(s, v1beta1.ConditionProgrammed, "False NotAccepted")
	}
	proxy := e.proxy()
	e.get(proxy)
	if got := names(proxy); got != "http,https" {
		t.Errorf("the Service's ports are %s", got)
	}
	e.heldBy("gone", TCP, 443, "")
	e.heldBy("gone", TCP, 1000, "StreamIngress gone/a")

	t.Log("what it does not serve can still be changed in what needs no class, and deleted")
	edit(e.fixture, streams[0], func(s *v1beta1.StreamIngress) { s.Labels = map[string]string{"a": "b"} })
	e.delete(streams[1])
	e.heldBy("gone", UDP, 1000, "")

	e.class = streamClass("gone", e.namespace)
	e.create(e.class)
	e.leads(TCP, 1000, "gone/web:80")
	e.programmed(streams[0])
	e.leads(UDP, 1000, "closed")
	e.heldBy("gone", TCP, 443, "Service edge-gone/proxy")
	if err := k.Delete(t.Context(), streamClass("nobody", "nowhere")); client.IgnoreNotFound(err) != nil || k.said() != "" {
		t.Errorf("deleting nothing warns: %v", err)
	}
}

func TestTwoClassesOfOneProxy(t *testing.T) {
	e := shared(t).newEdge("target")
	for field, change := range map[string]classOption{
		"spec.service": func(c *v1beta1.StreamIngressClass) {
			c.Spec.TCPConfigMap.Name, c.Spec.UDPConfigMap.Name = "t", "u"
		},
		"spec.tcpConfigMap": func(c *v1beta1.StreamIngressClass) { c.Spec.UDPConfigMap, c.Spec.Service = nil, nil },
		"spec.udpConfigMap": func(c *v1beta1.StreamIngressClass) {
			// One's TCP ports would be the other's UDP ports.
			c.Spec.UDPConfigMap, c.Spec.TCPConfigMap, c.Spec.Service = c.Spec.TCPConfigMap, nil, nil
		},
	} {
		// A dry run, as a replica that has not seen the first class yet would let the second in.
		e.eventually("the second class to be refused", func() error {
			err := e.Client.Create(t.Context(), streamClass("target2", e.namespace, change), client.DryRunAll)
			return says(err, field+": Duplicate value", "held by StreamIngressClass target", "two classes can't share it")
		})
	}
	free := streamClass("target2", e.namespace, hostNetwork)
	free.Spec.TCPConfigMap.Name, free.Spec.UDPConfigMap = "t", nil
	e.create(free)
	e.eventually("the change to be refused", func() error {
		return says(dryEdit(e.fixture, free, func(c *v1beta1.StreamIngressClass) {
			c.Spec.Service = &v1beta1.ObjectReference{Namespace: e.namespace, Name: "proxy"}
		}), "spec.service: Duplicate value")
	})
}
