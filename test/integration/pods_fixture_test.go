package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// podToIPLabel is the label of namespaces whose Pods get PodToIPs.
const podToIPLabel = v1beta1.LabelPodToIP + "=" + v1beta1.PodToIPEnabled

// podOption changes a Pod that is being built.
type podOption func(*corev1.Pod)

// pod is a Pod on node-a, by its namespace/name. No kubelet runs it: its status is what the test writes.
func pod(key string, options ...podOption) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, _ = strings.Cut(key, "/")
	p.Spec.NodeName = "node-a"
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "example.com/c:1"}}
	for _, option := range options {
		option(p)
	}
	return p
}

func onHostNetwork(p *corev1.Pod) { p.Spec.HostNetwork = true }

func unscheduled(p *corev1.Pod) { p.Spec.NodeName = "" }

// setStatus changes the status of a Pod, as its kubelet would.
func (w *fixture) setStatus(p *corev1.Pod, change func(*corev1.PodStatus)) {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		change(&p.Status)
		return w.Client.Status().Update(w.t.Context(), p)
	})
	if err != nil {
		w.t.Fatalf("status of pod %s: %v", client.ObjectKeyFromObject(p), err)
	}
}

// runs says that a Pod runs and has IPs.
func (w *fixture) runs(p *corev1.Pod, ips ...string) {
	w.t.Helper()
	w.setStatus(p, func(s *corev1.PodStatus) { setRunning(s, ips...) })
}

func setRunning(s *corev1.PodStatus, ips ...string) {
	s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, "", nil
	for _, ip := range ips {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
		s.PodIP = s.PodIPs[0].IP
	}
}

// isReady says that a Pod is ready, or not.
func (w *fixture) isReady(p *corev1.Pod, status corev1.ConditionStatus) {
	w.t.Helper()
	w.setStatus(p, func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
	})
}

// ends says that a Pod has finished.
func (w *fixture) ends(p *corev1.Pod, phase corev1.PodPhase, reason string) {
	w.t.Helper()
	w.setStatus(p, func(s *corev1.PodStatus) { s.Phase, s.Reason = phase, reason })
}

// kill removes a Pod at once, as its kubelet does in the end.
func (w *fixture) kill(p *corev1.Pod) {
	w.t.Helper()
	if err := w.Client.Delete(w.t.Context(), p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		w.t.Fatalf("deleting pod %s: %v", client.ObjectKeyFromObject(p), err)
	}
}

// isAt waits until the PodToIP of a name says what it should, for example "10.0.3.7 node-a"; "" means that there is none.
func (w *fixture) isAt(key, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("PodToIP %s to be %q", key, want), func() error { return is(w.podToIP(key), want) })
}

// staysAt fails the test unless the PodToIP of a name says already what it should.
func (w *fixture) staysAt(key, want string) {
	w.t.Helper()
	if got := w.podToIP(key); got != want {
		w.t.Errorf("PodToIP %s is %q, want %q", key, got, want)
	}
}

func (w *fixture) podToIP(key string) string {
	w.t.Helper()
	p := &v1beta1.PodToIP{}
	p.Namespace, p.Name, _ = strings.Cut(key, "/")
	if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatalf("reading PodToIP %s: %v", key, err)
		}
		return ""
	}
	return inShort(p)
}

// inShort is what a PodToIP says, in one line.
func inShort(p *v1beta1.PodToIP) string {
	short := strings.Join(p.Spec.PodAddresses, ",") + " " + p.Spec.NodeName
	if p.Spec.HostNetwork {
		short += " host"
	}
	if p.Spec.PodName != p.Name || p.Spec.PodAddress != p.Spec.PodAddresses[0] {
		short += fmt.Sprintf(" but says %+v", p.Spec)
	}
	return short
}

// told is what the logs of all replicas tell about a Pod, in order: the event of each line.
func told(w *fixture, key string) []string {
	w.t.Helper()
	var events []string
	for _, r := range w.Replicas {
		for _, line := range podLines(w, r) {
			if line.Pod == key {
				events = append(events, line.Event)
			}
		}
	}
	return events
}

// podLine is a line of the log about a Pod.
type podLine struct {
	Message string   `json:"msg"`
	Event   string   `json:"event"`
	Pod     string   `json:"pod"`
	Node    string   `json:"node"`
	IPs     []string `json:"ips"`
}

func podLines(w *fixture, r *harness.Replica) []podLine {
	w.t.Helper()
	file, err := os.Open(r.Log)
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	var lines []podLine
	for in := bufio.NewScanner(file); in.Scan(); {
		var line podLine
		if json.Unmarshal(in.Bytes(), &line) == nil && line.Pod != "" && line.Event != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// tells waits until the logs tell the whole story of a Pod.
func (w *fixture) tells(key string, want ...string) {
	w.t.Helper()
	w.eventually("the story of "+key, func() error {
		if got := told(w, key); !slices.Equal(got, want) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		return nil
	})
}

// metric is the sum of a metric over all replicas that run; name has the labels, as in the text format.
func (w *fixture) metric(name string) float64 {
	w.t.Helper()
	var sum float64
	for _, r := range w.Replicas {
		answer, err := http.Get(r.Metrics + "/metrics") //nolint:noctx // a test ends it
		if err != nil {
			continue // it was stopped
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = answer.Body.Close()
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, name+" "); found {
				var number float64
				if _, err := fmt.Sscan(value, &number); err != nil {
					w.t.Fatalf("%s: %v", line, err)
				}
				sum += number
			}
		}
	}
	return sum
}
