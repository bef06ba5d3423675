package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// holding is a webhook of somebody else's that holds back what Portcullis writes to Services of a namespace, or to their status,
// for as long as the API server waits for its answer.
type holding struct {
	pass chan struct{}
	mu   sync.Mutex
	// arrived counts the requests so far, waiting has those that are held back, by their number.
	arrived int
	waiting map[int]bool
}

// hold has Portcullis' writes in a namespace held back until let is called: of "services", or of "services/status".
func (w *fixture) hold(namespace, resource string) *holding {
	w.t.Helper()
	h := &holding{pass: make(chan struct{}), waiting: map[int]bool{}}
	w.interpose("holding-"+namespace, `{
		"rules": [{"apiGroups": [""], "apiVersions": ["*"], "resources": ["`+resource+`"], "operations": ["UPDATE"]}],
		"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "`+namespace+`"}},
		"matchConditions": [{"name": "portcullis", "expression": "request.userInfo.username == '`+harness.User+`'"}]
	}`, h)
	w.t.Cleanup(h.let)
	return h
}

// interpose has the API server ask a webhook of somebody else's until the test ends: for what rules, selectors and conditions,
// as JSON, say.
func (w *fixture) interpose(name, what string, webhook http.Handler) {
	w.t.Helper()
	server := httptest.NewTLSServer(webhook)
	w.t.Cleanup(server.Close)
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: name + ".example.com", SideEffects: new(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(30)),
	}
	must(w, json.Unmarshal([]byte(what), &hook))
	hook.ClientConfig.URL = &server.URL
	hook.ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	configuration.Webhooks = []admissionregistrationv1.ValidatingWebhook{hook}
	w.create(configuration)
	w.t.Cleanup(func() {
		if err := w.Client.Delete(context.Background(), configuration); err != nil {
			w.t.Errorf("removing a webhook: %v", err)
		}
	})
}

// letPass lets the API server do what it asks a webhook for.
func letPass(out http.ResponseWriter, review *admissionv1.AdmissionReview) {
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) // nobody waits any more where that fails
}

// let lets all requests through, those that are held back and later ones.
func (h *holding) let() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.pass:
	default:
		close(h.pass)
	}
}

// ServeHTTP implements http.Handler.
func (h *holding) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.arrived++
	number := h.arrived
	h.waiting[number] = true
	h.mu.Unlock()
	select {
	case <-h.pass:
	case <-in.Context().Done():
	}
	h.mu.Lock()
	delete(h.waiting, number)
	h.mu.Unlock()
	letPass(out, &review)
}

// isWaiting says whether a request is held back still.
func (h *holding) isWaiting(number int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting[number]
}

// last is the number of the last request, and whether it is held back.
func (h *holding) last() (number int, waiting bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.arrived, h.waiting[h.arrived]
}

// TestConfigMapsWaitForNoService holds a write of one Service back. Meanwhile streams come to the class of that Service, and to
// another class. As the API server waits for half a minute only, there are some attempts.
func TestConfigMapsWaitForNoService(t *testing.T) {
	w := shared(t)
	slow, other := w.newEdge("slow"), w.newEdge("beside-slow")
	w.create(namespace("slow"))
	held := w.hold(slow.namespace, "services")
	const attempts = 10
	attempt, waited := int32(0), true
	for attempt < attempts && waited {
		s := sti(fmt.Sprintf("slow/first-%d", attempt), of("slow"), tcp(1000+attempt))
		w.create(s)
		var number int
		w.eventually("the write of a Service to be held back", func() error {
			var waiting bool
			if number, waiting = held.last(); waiting {
				return nil
			}
			w.get(s)
			if condition(s.Status.Conditions, v1beta1.ConditionProgrammed) == "True Programmed" {
				return nil // the API server did not know the webhook yet
			}
			return errors.New("it is not")
		})
		if !held.isWaiting(number) {
			w.delete(s)
			slow.leads(TCP, 1000+attempt, "closed")
			continue
		}
		beside := sti(fmt.Sprintf("slow/beside-%d", attempt), of("beside-slow"), tcp(3000+attempt))
		w.create(sti(fmt.Sprintf("slow/second-%d", attempt), of("slow"), tcp(2000+attempt)), beside)
		slow.leads(TCP, 2000+attempt, "no port: slow/web:80")
		w.programmed(beside)
		other.leads(TCP, 3000+attempt, "slow/web:80")
		waited = !held.isWaiting(number)
		attempt++
	}
	if waited {
		t.Error("streams waited until a Service was written")
	}
	held.let()
	slow.leads(TCP, 1000, "slow/web:80")
	slow.leads(TCP, 2000, "slow/web:80")
}

// nodePorts is a Service that takes so many node ports.
func nodePorts(key string, n int32) *corev1.Service {
	s := service(key)
	s.Spec.Type = corev1.ServiceTypeNodePort
	for i := range n {
		s.Spec.Ports = append(s.Spec.Ports, port(fmt.Sprintf("p%d", i), 1+i))
	}
	return s
}

// attemptsOn are the writes that Portcullis has asked for of a Service, granted or not.
func (w *fixture) attemptsOn(namespace, name string) int {
	w.t.Helper()
	writes, err := w.Writes()
	must(w, err)
	return len(slices.DeleteFunc(writes, func(r controlplane.Write) bool {
		return r.Resource != "services" || r.Namespace != namespace || r.Name != name || r.User != harness.User
	}))
}

// TestAFullNodePortRange has 200 streams of a class when its Service comes, and 25 node ports for them.
func TestAFullNodePortRange(t *testing.T) {
	t.Parallel()
	const streams, fit = 200, 25
	w := newFixture(t, start(t, harness.Options{Replicas: 1, ControlPlane: controlplane.Options{
		APIServerFlags: []string{"--service-node-port-range=30000-30029"}, Audit: true,
	}}))
	e := w.newEdge("range")
	w.create(namespace("range"), nodePorts("default/other", 3))
	w.delete(e.proxy())
	w.classHas(e.class, v1beta1.ConditionProgrammed, "False ServiceNotFound")
	all := make([]*v1beta1.StreamIngress, streams)
	for i := range all {
		all[i] = sti(fmt.Sprintf("range/s%d", i), of("range"), tcp(1000+int32(i)))
		w.create(all[i])
	}
	e.leads(TCP, 1000+streams-1, "no port: range/web:80")
	for _, s := range all {
		w.has(s, v1beta1.ConditionProgrammed, "False ServiceNotFound")
	}

	t.Log("those that fit are open, the others say why they are not, after few attempts")
	const atLeast = 59 * time.Second // between two that are no search
	begin, before := time.Now(), w.attemptsOn(e.namespace, "proxy")
	proxy := e.proxy()
	proxy.Spec.Type = corev1.ServiceTypeLoadBalancer
	w.create(proxy)
	open, refused := e.sorted(all, fit)
	if attempts, most := w.attemptsOn(e.namespace, "proxy")-before, 2*bits.Len(streams)+1+int(time.Since(begin)/atLeast); attempts > most {
		t.Errorf("to find out took %d writes of the Service, more than %d", attempts, most)
	}
	e.saysRangeIsFull(refused)

	t.Log("later ones, too, without being tried")
	begin, before = time.Now(), w.attemptsOn(e.namespace, "proxy")
	for i := range 50 {
		s := sti(fmt.Sprintf("range/late%d", i), of("range"), tcp(2000+int32(i)))
		w.create(s)
		refused = append(refused, s)
	}
	e.sorted(refused, 0)
	e.leads(TCP, 2049, "no port: range/web:80")
	e.saysRangeIsFull(refused)

	t.Log("one attempt a minute, and no other write")
	written := w.quiet()
	w.eventually("another attempt", func() error {
		if w.attemptsOn(e.namespace, "proxy") == before {
			return errors.New("none yet")
		}
		return nil
	})
	for _, r := range w.written()[len(written):] {
		if r.Resource != "services" || r.Name != "proxy" {
			t.Errorf("meanwhile, %+v", r)
		}
	}
	if attempts := w.attemptsOn(e.namespace, "proxy") - before; attempts > int(time.Since(begin)/atLeast)+1 {
		t.Errorf("%d attempts in %s", attempts, time.Since(begin))
	}

	t.Log("one that goes makes room for another")
	w.delete(open[0])
	open, refused = e.sorted(append(open[1:], refused...), fit)

	t.Log("node ports that are free elsewhere are found")
	w.delete(nodePorts("default/other", 0))
	open, refused = e.sorted(append(open, refused...), fit+3)

	t.Log("all are open on a Service that needs none")
	edit(w, e.proxy(), func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = new(false) })
	e.sorted(append(open, refused...), len(open)+len(refused))
	w.classHas(e.class, v1beta1.ConditionProgrammed, "True Programmed")
}

// saysRangeIsFull makes sure that a class and its refused streams say in the words of the API server that no node port is left.
// Once it does, the class says of how many.
func (e *edge) saysRangeIsFull(refused []*v1beta1.StreamIngress) {
	e.t.Helper()
	words := []string{"Service " + e.namespace + "/proxy", "failed to allocate a nodePort: range is full"}
	for _, s := range refused {
		mustContain(e.t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), words...)
	}
	e.eventually("the class to count them", func() error {
		e.get(e.class)
		message := messageOf(e.class.Status.Conditions, v1beta1.ConditionProgrammed)
		var n int
		if _, err := fmt.Sscanf(message, "%d port(s)", &n); err != nil {
			return fmt.Errorf("%w, in %q", err, message)
		}
		return is(n, len(refused))
	})
	e.classHas(e.class, v1beta1.ConditionProgrammed, "False PortRefused")
	mustContain(e.t, messageOf(e.class.Status.Conditions, v1beta1.ConditionProgrammed), words...)
}
