package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// manual is an entry that was made before Portcullis came.
	manual = "default/manual:80"
	// owners is the manifest from which the proxy's owner applies its Service.
	owners = `{apiVersion: v1, kind: Service, metadata: {name: proxy, namespace: %s}, spec: {ports: [
  {name: http, port: 80, targetPort: http}, {name: https, port: 443, targetPort: https}]}}`
)

// newManualEdge makes a class whose proxy had entries and ports before it: kubectl applied its Service, and wrote 9000
// (and a note) into tcp-services.
func (w *fixture) newManualEdge(name string, options ...classOption) *edge {
	w.t.Helper()
	e := &edge{fixture: w, namespace: "edge-" + name}
	w.create(namespace(e.namespace), namespace(name))
	e.applyOwners()
	w.mustKubectl("", "create", "configmap", "tcp-services", "-n", e.namespace, "--from-literal=9000="+manual, "--from-literal=note=keep me")
	e.class = streamClass(name, e.namespace, options...)
	w.create(e.class)
	return e
}

// applyOwners applies the Service as its owner does, from its manifest.
func (e *edge) applyOwners() {
	e.t.Helper()
	e.mustKubectl(fmt.Sprintf(owners, e.namespace), "apply", "-f", "-")
}

// intact checks that all that is foreign stands as it was.
func (e *edge) intact() {
	e.t.Helper()
	cm, svc := configMap(e.namespace+"/tcp-services", nil), service(e.namespace+"/proxy")
	e.get(cm, svc)
	if cm.Data["9000"] != manual || cm.Data["note"] != "keep me" {
		e.t.Errorf("tcp-services has %v", cm.Data)
	}
	for _, want := range []corev1.ServicePort{port("http", 80), port("https", 443)} {
		if !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return p.Name == want.Name && p.Port == want.Port && p.Protocol == want.Protocol && p.TargetPort.StrVal == want.Name
		}) {
			e.t.Errorf("%s is missing in %v", want.Name, svc.Spec.Ports)
		}
	}
}

// saysAll is an error as long as one of the words is missing.
func saysAll(in string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(in, word) {
			return fmt.Errorf("%q is missing in: %s", word, in)
		}
	}
	return nil
}

// toldOf waits until a stream is refused with these words, and returns that refusal. The replica that answers may learn of
// a claim a moment after the API server has it, and knows the holder by what is entered until then.
func (w *fixture) toldOf(s *v1beta1.StreamIngress, words ...string) (told metav1.Status) {
	w.t.Helper()
	w.eventually("a refusal to tell of a claim", func() error {
		refusal := w.refusal(w.try(s.DeepCopy()))
		told = refusal.Status()
		return saysAll(refusal.Error(), words...)
	})
	return told
}

// dryEdit says what tryEdit would, and changes nothing. It is for what a replica would let in that has not seen yet why not.
func dryEdit[T client.Object](w *fixture, object T, edit func(T)) error {
	w.t.Helper()
	next, ok := object.DeepCopyObject().(T)
	if !ok {
		w.t.Fatalf("the copy of a %T is another type", object)
	}
	w.get(next)
	edit(next)
	return w.Client.Update(w.t.Context(), next, client.DryRunAll)
}

func TestForeignEntriesConflictInline(t *testing.T) {
	w := shared(t)
	e := &edge{fixture: w, namespace: "edge-inline", class: streamClass("inline", "edge-inline")}
	w.create(namespace(e.namespace), namespace("inline"), e.proxy(), configMap("edge-inline/tcp-services", map[string]string{"9000": manual}))
	w.create(e.class)
	t.Log("before anything is entered into the ledger, or just when it is")
	w.eventually("the class to be seen", func() error {
		err := w.Client.Create(t.Context(), sti("inline/probe", of("inline"), udp(1)), client.DryRunAll)
		return err
	})
	for number, holder := range map[int32]string{9000: "ConfigMap edge-inline/tcp-services", 80: "Service edge-inline/proxy", 443: "Service edge-inline/proxy"} {
		s := sti("inline/s", of("inline"), tcp(number))
		// A replica that has not seen the Service yet would let the stream in.
		w.eventually("what is foreign to be seen", func() error {
			return says(w.Client.Create(t.Context(), s.DeepCopy(), client.DryRunAll), "held by "+holder, "nearby: ")
		})
		w.eventually("the stream to be refused", func() error {
			err := w.try(s.DeepCopy())
			if err == nil {
				w.delete(s) // another replica has answered
			}
			return says(err, "spec.listen: Duplicate value", "held by "+holder, "nearby: ")
		})
		e.heldBy("inline", TCP, number, holder)
		w.toldOf(s, "held by "+holder+" since", "nearby: ")
		if err := w.Client.Create(t.Context(), s, client.DryRunAll); err == nil {
			t.Errorf("a dry run of %d was accepted", number)
		}
	}
	w.create(sti("inline/udp", of("inline"), udp(9000)))
	e.leads(UDP, 9000, "inline/web:80")

	t.Log("an entry that is made later holds its port, and frees it when it goes")
	cm := configMap("edge-inline/tcp-services", nil)
	edit(w, cm, func(cm *corev1.ConfigMap) { cm.Data["9001"] = "default/later:80" })
	e.heldBy("inline", TCP, 9001, "ConfigMap edge-inline/tcp-services")
	w.toldOf(sti("inline/later", of("inline"), tcp(9001)), "held by ConfigMap edge-inline/tcp-services since")
	edit(w, cm, func(cm *corev1.ConfigMap) { delete(cm.Data, "9001") })
	e.heldBy("inline", TCP, 9001, "")
	w.eventually("the entry to be seen to go", func() error { return w.try(sti("inline/later", of("inline"), tcp(9001))) })
	e.leads(TCP, 9001, "inline/web:80")
	proxy := e.proxy()
	edit(w, proxy, func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, port("extra", 9002)) })
	e.heldBy("inline", TCP, 9002, "Service edge-inline/proxy")
	edit(w, proxy, func(s *corev1.Service) {
		s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 9002 })
	})
	e.heldBy("inline", TCP, 9002, "")
	w.eventually("the port to be seen to go", func() error { return w.try(sti("inline/extra", of("inline"), tcp(9002))) })
	e.leads(TCP, 9002, "inline/web:80")
}

func TestForeignEntriesSurviveEverything(t *testing.T) {
	e := shared(t).newManualEdge("survive")
	s, u := sti("survive/s", of("survive"), tcp(5432)), sti("survive/u", of("survive"), udp(5432))
	e.eventually("the class to be seen", func() error { return e.try(s) })
	e.create(u)
	standing := func() {
		t.Helper()
		e.leads(TCP, 5432, "survive/web:80")
		e.leads(UDP, 5432, "survive/web:80")
		e.intact()
	}
	standing()
	cm, svc := configMap(e.namespace+"/tcp-services", nil), service(e.namespace+"/proxy")

	t.Log("the owner applies its manifest again, and changes it")
	e.applyOwners()
	standing()
	changed := strings.Replace(fmt.Sprintf(owners, e.namespace), "targetPort: http}", "targetPort: http, appProtocol: http}", 1)
	e.mustKubectl(changed, "apply", "-f", "-")
	standing()

	t.Log("our key is edited by hand")
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) { cm.Data["5432"] = "default/evil:1" })
	standing()
	e.mustKubectl("", "patch", "configmap", "tcp-services", "-n", e.namespace, "--type=merge", "-p", `{"data":{"5432":"default/evil:2"}}`)
	standing()
	if got := e.holder("survive", TCP, 5432); got != "StreamIngress survive/s" {
		t.Errorf("the port is now held by %q", got)
	}

	t.Log("our key and our ports are deleted by hand")
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) { delete(cm.Data, "5432") })
	standing()
	edit(e.fixture, svc, func(s *corev1.Service) {
		s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 5432 })
	})
	standing()
	e.mustKubectl(fmt.Sprintf(owners, e.namespace), "replace", "-f", "-")
	standing()

	e.mustKubectl(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: tcp-services, namespace: %s}, data: {"9000": %q, note: keep me}}`,
		e.namespace, manual), "replace", "-f", "-")
	standing()

	t.Log("our port's target is edited by hand")
	edit(e.fixture, svc, func(s *corev1.Service) {
		for i := range s.Spec.Ports {
			if s.Spec.Ports[i].Port == 5432 {
				s.Spec.Ports[i].TargetPort.IntVal = 1
			}
		}
	})
	e.eventually("the target to be set right", func() error {
		e.get(svc)
		for _, p := range svc.Spec.Ports {
			if p.Port == 5432 && p.TargetPort.IntVal != 5432 {
				return fmt.Errorf("%s leads to %s", p.Name, p.TargetPort.String())
			}
		}
		return nil
	})
	standing()

	t.Log("the labels are taken off by hand")
	for _, object := range []client.Object{cm, svc} {
		edit(e.fixture, object, func(o client.Object) { o.SetLabels(nil) })
		e.eventually("the label to come back", func() error {
			e.get(object)
			return is(object.GetLabels()[v1beta1.LabelClass], "survive")
		})
	}
	standing()

	t.Log("streams and class go")
	e.delete(s, u)
	e.leads(TCP, 5432, "closed")
	e.intact()
	e.delete(e.class)
	e.eventually("the labels to go", func() error {
		e.get(cm, svc)
		return is(cm.Labels[v1beta1.LabelClass]+svc.Labels[v1beta1.LabelClass], "")
	})
	e.intact()
}

func TestAdoption(t *testing.T) {
	e := shared(t).newManualEdge("adopt")
	e.heldBy("adopt", TCP, 9000, "ConfigMap edge-adopt/tcp-services")
	e.create(service("default/manual", port("http", 80)), grant("default/adopt", "adopt"))
	differs := func(why, stream string, options ...streamOption) {
		t.Helper()
		err := e.try(sti(stream, append([]streamOption{of("adopt"), tcp(9000)}, options...)...))
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v", why, err)
		}
	}
	differs("another Service", "default/adopt", to("other", 80))
	differs("another namespace", "adopt/s", to("manual", 80))
	differs("another port", "default/adopt", to("manual", 81))
	differs("PROXY", "default/adopt", to("manual", 80), proxyProtocol(true, false))

	s := sti("default/adopt", of("adopt"), tcp(9000), to("manual", "http"))
	e.eventually("the Service to be seen", func() error { return e.try(s) })
	e.programmed(s)
	e.heldBy("adopt", TCP, 9000, "StreamIngress default/adopt")
	e.leads(TCP, 9000, manual)
	e.intact()
	e.toldOf(sti("adopt/rival", of("adopt"), tcp(9000)), "held by StreamIngress default/adopt")

	t.Log("without the stream, all is as it was")
	e.delete(s)
	e.heldBy("adopt", TCP, 9000, "ConfigMap edge-adopt/tcp-services")
	e.leads(TCP, 9000, "no port: "+manual)
	e.intact()
	differs("another Service, again", "default/adopt", to("other", 80))

	t.Log("an entry that names the port is left as it is")
	cm := configMap(e.namespace+"/tcp-services", nil)
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) { cm.Data["9001"] = "default/manual:http" })
	e.heldBy("adopt", TCP, 9001, "ConfigMap edge-adopt/tcp-services")
	named := sti("default/adopt-named", of("adopt"), tcp(9001), to("manual", 80))
	e.eventually("the entry to be seen", func() error { return e.try(named) })
	e.programmed(named)
	e.leads(TCP, 9001, "default/manual:http")
	e.delete(named)
	e.heldBy("adopt", TCP, 9001, "ConfigMap edge-adopt/tcp-services")
	e.leads(TCP, 9001, "no port: default/manual:http")

	t.Log("adopted once more, the entry can be removed at its source, and is the stream's alone")
	s = sti("default/adopt", of("adopt"), tcp(9000), to("manual", 80))
	e.eventually("the entry to be seen as foreign again", func() error { return e.try(s) })
	e.programmed(s)
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) { delete(cm.Data, "9000") })
	e.leads(TCP, 9000, manual)
	e.remembers(9000, "")
	e.delete(s)
	e.leads(TCP, 9000, "closed")
	e.heldBy("adopt", TCP, 9000, "")
}

// remembers waits until the claim on a TCP port of the edge remembers an entry that was taken over, "" for none.
func (e *edge) remembers(port int32, entry string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("what is remembered of port %d", port), func() error {
		c := &v1beta1.EdgeClaim{}
		c.Name = claim.Stream(e.class.Name, TCP, port).Name()
		err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(c), c)
		if err != nil || c.Spec.Adopted == nil {
			return errors.Join(err, is("", entry))
		}
		return is(c.Spec.Adopted.Entry, entry)
	})
}

// TestAdoptersGiveBack has tenants take over the platform's entry, and make off with it.
func TestAdoptersGiveBack(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	e := w.newManualEdge("giveback")
	foreign := func() {
		t.Helper()
		e.heldBy("giveback", TCP, 9000, "ConfigMap edge-giveback/tcp-services")
		e.leads(TCP, 9000, "no port: "+manual)
		e.remembers(9000, "")
		e.intact()
	}
	foreign()
	e.create(namespace("thief"), service("default/manual", port("http", 80)), service("default/other", port("http", 80)),
		service("thief/web", port("http", 80)), grant("default/thief", "thief"))

	t.Log("leave to lead somewhere is not leave to take what leads there")
	e.toldOf(sti("thief/s", of("giveback"), tcp(9000), to("default/manual", 80)), "spec.listen: Duplicate value",
		"held by ConfigMap edge-giveback/tcp-services")
	edit(w, e.class, upstreams(v1beta1.UpstreamAll))
	e.toldOf(sti("thief/s", of("giveback"), tcp(9000), to("default/manual", 80)), "held by ConfigMap edge-giveback/tcp-services")

	adopt := func() *v1beta1.StreamIngress {
		t.Helper()
		s := sti("default/adopter", of("giveback"), tcp(9000), to("manual", 80))
		e.eventually("the entry to be taken over", func() error { return e.try(s) })
		e.programmed(s)
		e.remembers(9000, manual)
		return s
	}
	elsewhere := func(s *v1beta1.StreamIngress) {
		t.Helper()
		edit(w, s, to("other", 80))
		e.leads(TCP, 9000, "default/other:80")
	}
	for name, makeOff := range map[string]func(*v1beta1.StreamIngress){
		"goes":            func(*v1beta1.StreamIngress) {},
		"leads elsewhere": elsewhere,
		"leads elsewhere, and back": func(s *v1beta1.StreamIngress) {
			elsewhere(s)
			edit(w, s, to("manual", 80))
			e.leads(TCP, 9000, manual)
		},
		"leads elsewhere, and moves": func(s *v1beta1.StreamIngress) {
			elsewhere(s)
			edit(w, s, tcp(9002))
			foreign()
		},
		"leads elsewhere, and lingers": func(s *v1beta1.StreamIngress) {
			edit(w, s, finalizer("a.example.com/b"))
			elsewhere(s)
			must(w, w.Client.Delete(t.Context(), s))
			edit(w, s, func(s *v1beta1.StreamIngress) { s.Finalizers = nil })
		},
	} {
		t.Log("the adopter " + name)
		s := adopt()
		makeOff(s)
		if err := w.Client.Delete(t.Context(), s); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		foreign()
	}

	t.Log("the class goes, and comes back: the stream has the port, and the entry is not lost")
	s := adopt()
	edit(w, s, to("other", 80))
	e.leads(TCP, 9000, "default/other:80")
	w.delete(e.class)
	e.leads(TCP, 9000, "no port: "+manual)
	e.class = streamClass("giveback", e.namespace)
	w.create(e.class)
	e.leads(TCP, 9000, "default/other:80")
	w.delete(s)
	foreign()

	t.Log("for who imports, it is the stream's for good")
	edit(w, e.class, func(c *v1beta1.StreamIngressClass) { c.Spec.Adopt = v1beta1.AdoptTake })
	w.classHas(e.class, v1beta1.ConditionAccepted, "True Accepted") // as it is now
	w.delete(adopt())
	e.leads(TCP, 9000, "closed")
	e.heldBy("giveback", TCP, 9000, "")
}

// TestAdopterThatIsNeverStored has a request to take over an entry be admitted, and then refused by a quota. The class is for
// who imports: what a stream has taken over goes for good, but none has taken over anything.
func TestAdopterThatIsNeverStored(t *testing.T) {
	const entry = "unstored/manual:80"
	e := shared(t).newManualEdge("unstored", func(c *v1beta1.StreamIngressClass) { c.Spec.Adopt = v1beta1.AdoptTake })
	e.create(service("unstored/manual", port("http", 80)))
	cm := configMap(e.namespace+"/tcp-services", nil)
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) { cm.Data["9001"] = entry })
	e.heldBy("unstored", TCP, 9001, "ConfigMap edge-unstored/tcp-services")
	e.without("unstored", "count/streamingresses.nginx-stream.jeffthecoder.xyz", func() error {
		quota := &corev1.ResourceQuota{}
		quota.Namespace, quota.Name = "unstored", "none"
		e.get(quota)
		quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, quota.Spec.Hard
		if err := e.Client.Status().Update(t.Context(), quota); err != nil { // there is no controller that does it
			return err
		}
		probe := sti("unstored/probe", of("unstored"), udp(1))
		defer e.delete(probe)
		return e.try(probe)
	})

	e.eventually("the entry to be promised to the stream", func() error {
		if err := e.try(sti("unstored/s", of("unstored"), tcp(9001), to("manual", 80))); !apierrors.IsForbidden(err) {
			return fmt.Errorf("not refused by the quota: %w", err)
		}
		return is(e.holder("unstored", TCP, 9001), "StreamIngress unstored/s")
	})
	e.heldBy("unstored", TCP, 9001, "ConfigMap edge-unstored/tcp-services")
	e.remembers(9001, "")
	e.create(namespace("unstored-not"))
	later := sti("unstored-not/later", of("unstored"), tcp(9002))
	e.create(later)
	e.programmed(later)
	e.leads(TCP, 9001, "no port: "+entry)
	e.heldBy("unstored", TCP, 9001, "ConfigMap edge-unstored/tcp-services")
	e.intact()
}

// takenOver has a stream take over the entry of a manual edge, and lead elsewhere.
func (e *edge) takenOver() *v1beta1.StreamIngress {
	e.t.Helper()
	e.create(service(e.class.Name+"/manual", port("http", 80)), service(e.class.Name+"/other", port("http", 80)))
	entry := e.class.Name + "/manual:80"
	edit(e.fixture, configMap(e.namespace+"/tcp-services", nil), func(cm *corev1.ConfigMap) { cm.Data["9001"] = entry })
	e.heldBy(e.class.Name, TCP, 9001, "ConfigMap "+e.namespace+"/tcp-services")
	s := sti(e.class.Name+"/adopter", of(e.class.Name), tcp(9001), to("manual", 80))
	e.eventually("the entry to be taken over", func() error { return e.try(s) })
	e.remembers(9001, entry)
	edit(e.fixture, s, to("other", 80))
	e.leads(TCP, 9001, e.class.Name+"/other:80")
	return s
}

// TestNewerForeignEntryStays has somebody change an entry after it was given back.
func TestNewerForeignEntryStays(t *testing.T) {
	e := shared(t).newManualEdge("newer")
	s := e.takenOver()
	e.delete(e.class)
	e.leads(TCP, 9001, "no port: newer/manual:80")
	edit(e.fixture, configMap(e.namespace+"/tcp-services", nil), func(cm *corev1.ConfigMap) { cm.Data["9001"] = "newer/newer:80" })
	e.delete(s)
	e.heldBy("newer", TCP, 9001, "")
	e.leads(TCP, 9001, "no port: newer/newer:80")
	e.intact()
}

// TestForeignEntryThatCannotBeGivenBack has a ConfigMap be immutable when an entry is to be written back: nobody else waits
// for it.
func TestForeignEntryThatCannotBeGivenBack(t *testing.T) {
	e := shared(t).newManualEdge("keeps")
	s, cm := e.takenOver(), configMap(e.namespace+"/tcp-services", nil)
	edit(e.fixture, cm, func(cm *corev1.ConfigMap) { cm.Immutable = new(true) })
	e.delete(s)
	e.heldBy("keeps", TCP, 9001, "ConfigMap edge-keeps/tcp-services")
	other := sti("keeps/u", of("keeps"), udp(9001))
	e.create(other)
	e.programmed(other)
	e.classHas(e.class, v1beta1.ConditionProgrammed, "False ConfigMapRefused")
	e.remembers(9001, "keeps/manual:80")
	e.eventually("the port to be told of", func() error {
		e.get(e.class)
		for _, refused := range e.class.Status.Refused {
			if refused.Port == 9001 && refused.Protocol == TCP {
				return saysAll(refused.Message, "what stood there before can't be written back", "field is immutable")
			}
		}
		return fmt.Errorf("refused are %v", e.class.Status.Refused)
	})
}
