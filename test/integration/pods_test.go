package integration

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

func TestPodLife(t *testing.T) {
	w := shared(t)
	w.create(namespace("pod-life", podToIPLabel), namespace("pod-unlabeled"))
	web, other := pod("pod-life/web", unscheduled), pod("pod-unlabeled/web")
	w.create(web, other)
	w.runs(other, "10.1.0.9")

	bind := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-b"}}
	if err := w.Client.SubResource("binding").Create(t.Context(), web, bind); err != nil {
		t.Fatal(err)
	}
	w.runs(web)
	w.isReady(web, corev1.ConditionFalse)
	w.runs(web, "10.1.0.1")
	w.isAt("pod-life/web", "10.1.0.1 node-b")
	w.staysAt("pod-unlabeled/web", "")

	p := &v1beta1.PodToIP{ObjectMeta: metav1.ObjectMeta{Namespace: "pod-life", Name: "web"}}
	w.get(p)
	if len(p.OwnerReferences) != 1 || p.OwnerReferences[0].UID != web.UID || p.OwnerReferences[0].Kind != "Pod" {
		t.Errorf("owners are %+v, want the Pod %s", p.OwnerReferences, web.UID)
	}
	w.isReady(web, corev1.ConditionTrue)
	w.runs(web, "10.1.0.2")
	w.isAt("pod-life/web", "10.1.0.2 node-b")
	w.delete(web) // no kubelet: it stays terminating
	w.isAt("pod-life/web", "")
	w.kill(web)
	w.kill(other)

	w.tells("pod-life/web", "added", "scheduled", "ip_assigned", "ready", "ip_changed", "terminating", "gone")
	w.tells("pod-unlabeled/web", "added", "scheduled", "ip_assigned", "terminating", "gone")
	for _, event := range []string{"added", "scheduled", "ip_assigned", "ready", "ip_changed", "terminating", "gone"} {
		if n := w.metric(`portcullis_pod_events_total{event="` + event + `"}`); n < 1 {
			t.Errorf("%s was counted %v times", event, n)
		}
	}
}

func TestPodStoryNamesEverything(t *testing.T) {
	w := shared(t)
	w.create(namespace("pod-story"))
	p := pod("pod-story/db")
	w.create(p)
	w.runs(p, "10.1.7.1", "fd00:1:7::1")
	w.kill(p)
	w.tells("pod-story/db", "added", "scheduled", "ip_assigned", "terminating", "gone")
	for _, r := range w.Replicas {
		for _, line := range podLines(w, r) {
			if line.Pod == "pod-story/db" && line.Event == "gone" {
				if line.Message != "pod pod-story/db is gone" || line.Node != "node-a" || strings.Join(line.IPs, ",") != "10.1.7.1,fd00:1:7::1" {
					t.Errorf("the end is told as %+v", line)
				}
			}
		}
	}
}

func TestPodEnds(t *testing.T) {
	w := shared(t)
	w.create(namespace("pod-ends", podToIPLabel))
	for name, end := range map[string]struct {
		phase  corev1.PodPhase
		reason string
	}{"job": {corev1.PodSucceeded, ""}, "crash": {corev1.PodFailed, ""}, "evicted": {corev1.PodFailed, "Evicted"}} {
		p := pod("pod-ends/" + name)
		w.create(p)
		w.runs(p, "10.1.1.1")
		w.isAt("pod-ends/"+name, "10.1.1.1 node-a")
		w.ends(p, end.phase, end.reason)
		w.isAt("pod-ends/"+name, "")
		w.kill(p)
		w.tells("pod-ends/"+name, "added", "scheduled", "ip_assigned", "completed", "terminating", "gone")
	}
}

func TestPodAddresses(t *testing.T) {
	w := shared(t)
	w.create(namespace("pod-addresses", podToIPLabel))
	dual, six, host := pod("pod-addresses/dual"), pod("pod-addresses/six"), pod("pod-addresses/host", onHostNetwork)
	w.create(dual, six, host)
	w.runs(dual, "10.1.2.1", "fd00:1:2::1")
	w.runs(six, "fd00:1:2::2")
	w.runs(host, "192.0.2.10")
	w.isAt("pod-addresses/dual", "10.1.2.1,fd00:1:2::1 node-a")
	w.isAt("pod-addresses/six", "fd00:1:2::2 node-a")
	w.isAt("pod-addresses/host", "192.0.2.10 node-a host")

	w.runs(dual, "fd00:1:2::1", "10.1.2.1")
	w.isAt("pod-addresses/dual", "fd00:1:2::1,10.1.2.1 node-a")
	w.runs(dual) // its sandbox died
	w.isAt("pod-addresses/dual", "")
	w.runs(dual, "10.1.2.3")
	w.isAt("pod-addresses/dual", "10.1.2.3 node-a")
}

func TestPodToIPIsSetRight(t *testing.T) {
	w := shared(t)
	w.create(namespace("pod-edits", podToIPLabel), namespace("pod-edits-unlabeled"))
	web := pod("pod-edits/web")
	w.create(web)
	w.runs(web, "10.1.3.1")
	w.isAt("pod-edits/web", "10.1.3.1 node-a")
	p := &v1beta1.PodToIP{ObjectMeta: metav1.ObjectMeta{Namespace: "pod-edits", Name: "web"}}
	for what, change := range map[string]func(*v1beta1.PodToIP){
		"another IP":   func(p *v1beta1.PodToIP) { p.Spec.PodAddress, p.Spec.PodAddresses = "10.9.9.9", []string{"10.9.9.9"} },
		"a second IP":  func(p *v1beta1.PodToIP) { p.Spec.PodAddresses = append(p.Spec.PodAddresses, "fd00::9") },
		"another node": func(p *v1beta1.PodToIP) { p.Spec.NodeName = "elsewhere" },
		"host network": func(p *v1beta1.PodToIP) { p.Spec.HostNetwork = true },
		"no owner":     func(p *v1beta1.PodToIP) { p.OwnerReferences = nil },
	} {
		edit(w, p, change)
		w.eventually("it to be set right after "+what, func() error {
			w.get(p)
			if err := is(inShort(p), "10.1.3.1 node-a"); err != nil {
				return err
			}
			return is(len(p.OwnerReferences), 1)
		})
	}
	edit(w, p, func(p *v1beta1.PodToIP) { p.Labels = map[string]string{"team": "a"} })
	w.delete(p)
	w.isAt("pod-edits/web", "10.1.3.1 node-a")

	// What nobody stands behind goes, whoever made it.
	for _, key := range []string{"pod-edits/liar", "pod-edits-unlabeled/liar"} {
		liar := &v1beta1.PodToIP{Spec: v1beta1.PodToIPSpec{PodAddress: "10.1.3.1", PodAddresses: []string{"10.1.3.1"}}}
		liar.Namespace, liar.Name, _ = strings.Cut(key, "/")
		liar.Spec.PodName = liar.Name
		w.create(liar)
		w.isAt(key, "")
	}
}

func TestNamespaceIsUnlabeled(t *testing.T) {
	w := shared(t)
	ns := namespace("pod-labels")
	w.create(ns)
	for i, name := range []string{"a", "b", "c"} {
		p := pod("pod-labels/" + name)
		w.create(p)
		w.runs(p, fmt.Sprintf("10.1.4.%d", i+1))
	}
	w.tells("pod-labels/c", "added", "scheduled", "ip_assigned")
	w.staysAt("pod-labels/a", "")
	key, value, _ := strings.Cut(podToIPLabel, "=")
	for range 2 {
		edit(w, ns, func(ns *corev1.Namespace) { ns.Labels[key] = value })
		w.isAt("pod-labels/a", "10.1.4.1 node-a")
		w.isAt("pod-labels/b", "10.1.4.2 node-a")
		w.isAt("pod-labels/c", "10.1.4.3 node-a")
		edit(w, ns, func(ns *corev1.Namespace) { ns.Labels[key] = "disabled" })
		for _, name := range []string{"a", "b", "c"} {
			w.isAt("pod-labels/"+name, "")
		}
	}
}

func TestPodToIPIsLookedUp(t *testing.T) {
	w := shared(t)
	w.create(namespace("pod-lookup-a", podToIPLabel), namespace("pod-lookup-b", podToIPLabel))
	a, b := pod("pod-lookup-a/web"), pod("pod-lookup-b/db", onHostNetwork)
	b.Spec.NodeName = "node-lookup"
	w.create(a, b)
	w.runs(a, "10.1.5.1")
	w.runs(b, "10.1.5.2")
	w.isAt("pod-lookup-a/web", "10.1.5.1 node-a")
	w.isAt("pod-lookup-b/db", "10.1.5.2 node-lookup host")

	// Somebody who may see IPs, but no Pods.
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "pod-lookup"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "portcullis-podtoip-viewer"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "network"}},
	})
	w.awaitRight("network", true, &authorizationv1.ResourceAttributes{Verb: "list", Group: v1beta1.GroupName, Resource: "podtoips"})
	kubeconfig, err := w.KubeconfigFor(t.TempDir()+"/kubeconfig", "network")
	if err != nil {
		t.Fatal(err)
	}
	as := "--kubeconfig=" + kubeconfig
	find := func(args ...string) []string {
		out := w.mustKubectl("", append([]string{as, "get", "ptp", "-A"}, args...)...)
		t.Logf("kubectl get ptp -A %s\n%s", strings.Join(args, " "), out)
		return strings.Split(strings.TrimSpace(out), "\n")
	}
	lines := find("--field-selector", "spec.podAddress=10.1.5.1")
	if len(lines) != 2 || strings.Join(strings.Fields(lines[0]), " ") != "NAMESPACE NAME POD-IP NODE AGE" ||
		!strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), "pod-lookup-a web 10.1.5.1 node-a ") {
		t.Errorf("looked up by IP: %q", lines)
	}
	lines = find("-o", "wide", "--no-headers", "--field-selector", "spec.nodeName=node-lookup")
	if len(lines) != 1 || !strings.Contains(lines[0], "10.1.5.2") || !strings.Contains(lines[0], "true") {
		t.Errorf("looked up by node: %q", lines)
	}
	for _, args := range [][]string{{"get", "pods", "-n", "pod-lookup-a"}, {"delete", "ptp", "-n", "pod-lookup-a", "web"}} {
		if out, err := w.kubectl("", append([]string{as}, args...)...); err == nil || !strings.Contains(out, "forbidden") {
			t.Errorf("kubectl %v: %v, %s", args, err, out)
		}
	}
	mustContain(t, w.mustKubectl("", as, "explain", "ptp.spec"), "podAddress", "podAddresses", "nodeName", "hostNetwork", "podName")
}

func TestPodToIPSchema(t *testing.T) {
	w := shared(t)
	w.create(namespace("pod-schema"))
	good := v1beta1.PodToIPSpec{PodName: "web", PodAddress: "10.1.6.1", PodAddresses: []string{"10.1.6.1", "fd00::1"}, NodeName: "n"}
	for name, c := range map[string]struct {
		change func(*v1beta1.PodToIPSpec)
		want   string
	}{
		"good":                    {func(*v1beta1.PodToIPSpec) {}, ""},
		"another name":            {func(s *v1beta1.PodToIPSpec) { s.PodName = "db" }, "must be the name of the PodToIP"},
		"no address":              {func(s *v1beta1.PodToIPSpec) { s.PodAddress, s.PodAddresses = "", []string{""} }, "must be an IP address"},
		"no addresses":            {func(s *v1beta1.PodToIPSpec) { s.PodAddresses = []string{} }, "should have at least 1 items"},
		"a host name":             {func(s *v1beta1.PodToIPSpec) { s.PodAddresses[1] = "example.com" }, "must be an IP address"},
		"another address":         {func(s *v1beta1.PodToIPSpec) { s.PodAddress = "10.1.6.2" }, "must be the first of podAddresses"},
		"a node name without end": {func(s *v1beta1.PodToIPSpec) { s.NodeName = strings.Repeat("n", 254) }, "Too long"},
	} {
		p := &v1beta1.PodToIP{ObjectMeta: metav1.ObjectMeta{Namespace: "pod-schema", Name: "web"}, Spec: *good.DeepCopy()}
		c.change(&p.Spec)
		switch err := w.Client.Create(t.Context(), p, client.DryRunAll); {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestPodOfTheSameName re-creates a Pod under its name again and again, as a StatefulSet does, and watches what its
// PodToIP says all the while.
func TestPodOfTheSameName(t *testing.T) {
	w := shared(t)
	w.create(namespace("pod-same", podToIPLabel))
	watcher, err := client.NewWithWatch(w.Config(), client.Options{Scheme: harness.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	list := &v1beta1.PodToIPList{}
	if err := watcher.List(t.Context(), list, client.InNamespace("pod-same")); err != nil {
		t.Fatal(err)
	}
	seen, err := harness.Follow(t.Context(), watcher, list, client.InNamespace("pod-same"))
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	ips := map[types.UID]string{}
	const rounds = 12
	for i := range rounds {
		p, ip := pod("pod-same/web-0"), fmt.Sprintf("10.1.8.%d", i+1)
		w.create(p)
		ips[p.UID] = ip
		if i%2 == 1 {
			w.isAt("pod-same/web-0", "") // it has no IP yet, and must not show that of the former one
		}
		w.runs(p, ip)
		w.isAt("pod-same/web-0", ip+" node-a")
		if i < rounds-1 {
			w.kill(p)
		}
	}
	for shown := map[types.UID]bool{}; len(shown) < rounds; {
		e := <-seen.ResultChan()
		p, ok := e.Object.(*v1beta1.PodToIP)
		if !ok {
			t.Fatalf("the watch ended with %v", e.Object)
		}
		uid := p.OwnerReferences[0].UID
		if p.Spec.PodAddress != ips[uid] {
			t.Errorf("%s: %s is shown as the IP of the Pod that has %s", e.Type, p.Spec.PodAddress, ips[uid])
		}
		shown[uid] = true
	}
}
