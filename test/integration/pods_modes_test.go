package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// restart ends the last replica with end, and starts another one with flags.
func (w *fixture) restart(end func(*harness.Replica) error, flags ...string) *harness.Replica {
	w.t.Helper()
	if end != nil {
		w.stop(end)
	}
	r, err := w.StartReplica(w.t.Context(), append(flags, "--leader-elect=false")...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *fixture) stop(end func(*harness.Replica) error) {
	w.t.Helper()
	if err := end(w.Replicas[len(w.Replicas)-1]); err != nil {
		w.t.Fatal(err)
	}
}

func TestPodModes(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{}))
	w.create(namespace("in", podToIPLabel), namespace("out"))
	stays, vanishes, web := pod("in/stays"), pod("in/vanishes"), pod("in/web-0")
	fresh, finishes, outside := pod("in/fresh"), pod("in/finishes"), pod("out/web")
	w.create(stays, vanishes, web, fresh, finishes, outside)
	w.runs(stays, "10.2.0.1")
	w.runs(vanishes, "10.2.0.2")
	w.runs(web, "10.2.0.3")
	w.runs(finishes, "10.2.0.4")
	w.runs(outside, "10.2.0.5")

	w.restart(nil, "--pod-to-ip=all")
	for key, want := range map[string]string{
		"in/stays": "10.2.0.1 node-a", "in/vanishes": "10.2.0.2 node-a", "in/web-0": "10.2.0.3 node-a", "in/fresh": "",
		"in/finishes": "10.2.0.4 node-a", "out/web": "10.2.0.5 node-a",
	} {
		w.isAt(key, want)
	}

	// Nobody watches while Pods go, come back under their name, get their IP, and finish; then a narrower mode starts.
	w.stop((*harness.Replica).Kill)
	w.kill(vanishes)
	w.kill(web)
	again := pod("in/web-0")
	w.create(again)
	w.runs(fresh, "10.2.0.6")
	w.ends(finishes, corev1.PodSucceeded, "")
	w.staysAt("in/vanishes", "10.2.0.2 node-a")
	r := w.restart(nil) // the default is to ask for the label
	for key, want := range map[string]string{
		"in/stays": "10.2.0.1 node-a", "in/vanishes": "", "in/web-0": "", "in/fresh": "10.2.0.6 node-a", "in/finishes": "", "out/web": "",
	} {
		w.isAt(key, want)
	}
	w.runs(again, "10.2.0.7")
	w.isAt("in/web-0", "10.2.0.7 node-a")
	w.eventually("the PodToIPs to be counted", func() error { return is(w.metric("portcullis_pod_to_ips"), 3) })
	w.eventually("the second replica to tell what it has seen, and no more", func() error {
		var lines []string
		for _, l := range podLines(w, r) {
			lines = append(lines, l.Pod+" "+l.Event)
		}
		return is(strings.Join(lines, ", "), "in/web-0 ip_assigned")
	})

	r = w.restart((*harness.Replica).Terminate, "--pod-to-ip=off")
	for _, key := range []string{"in/stays", "in/web-0", "in/fresh"} {
		w.isAt(key, "")
	}
	w.runs(again, "10.2.0.8")
	w.kill(outside)

	w.restart((*harness.Replica).Terminate, "--pod-to-ip=all")
	w.isAt("in/web-0", "10.2.0.8 node-a")
	w.isAt("in/stays", "10.2.0.1 node-a")
	if lines := podLines(w, r); len(lines) > 0 {
		t.Errorf("it watches Pods although it is off: %v", lines)
	}
	if out := r.LogTail(1 << 20); !strings.Contains(out, `"count":3`) {
		t.Errorf("the log does not tell how many PodToIPs were deleted:\n%s", out)
	}
}

// TestPodToIPIsTriedAgain takes away the right to write PodToIPs for a while.
func TestPodToIPIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{}))
	w.create(namespace("in", podToIPLabel))
	web := pod("in/web")
	w.create(web)
	w.restart(nil)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "portcullis"}}
	w.get(role)
	rules := role.Rules
	edit(w, role, func(role *rbacv1.ClusterRole) {
		role.Rules = slices.Clone(role.Rules)
		for i := range role.Rules {
			if slices.Contains(role.Rules[i].Resources, "podtoips") {
				role.Rules[i].Verbs = []string{"get", "list", "watch"}
			}
		}
	})
	w.awaitRight(harness.User, false, &authorizationv1.ResourceAttributes{
		Verb: "patch", Group: v1beta1.GroupName, Resource: "podtoips", Namespace: "in",
	})
	w.runs(web, "10.2.1.1")
	failures := `portcullis_pod_to_ip_failures_total{operation="apply"}`
	w.eventually("failures to be counted", func() error {
		if w.metric(failures) < 2 {
			return errors.New("none is counted yet")
		}
		return nil
	})
	w.staysAt("in/web", "")
	edit(w, role, func(role *rbacv1.ClusterRole) { role.Rules = rules })
	w.isAt("in/web", "10.2.1.1 node-a")
	if retries := w.metric(`workqueue_retries_total{controller="pod",name="pod"}`); retries < 1 {
		t.Errorf("%v retries are counted", retries)
	}

	// In a namespace that is being deleted nothing can be created. That is no failure: its Pods go, too.
	late := pod("in/late")
	w.create(late)
	w.delete(namespace("in"))
	before := w.metric(failures)
	w.runs(late, "10.2.1.2")
	w.runs(web, "10.2.1.3") // an update is still possible
	w.isAt("in/web", "10.2.1.3 node-a")
	w.staysAt("in/late", "")
	if n := w.metric(failures); n != before {
		t.Errorf("%v failures are counted, want %v", n, before)
	}
}
