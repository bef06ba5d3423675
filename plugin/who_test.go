package plugin

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/internal/doors"
)

func TestWho(t *testing.T) {
	c := twice()
	pod := &corev1.Pod{ObjectMeta: named("team", "web-0"), Spec: corev1.PodSpec{NodeName: "n1"}}
	ended := &corev1.Pod{ObjectMeta: named("team", "ended"), Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	event := &corev1.Event{
		ObjectMeta: named("other", "e"), Reason: "HostConflict", InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "other", Name: "web"},
		Message: "path / on host shop.example.com is held by Ingress team/a", LastTimestamp: metav1.NewTime(time.Unix(0, 0)),
	}
	c.objects["pods"], c.objects["events"] = []runtime.Object{pod, ended}, []runtime.Object{event}
	for asked, says := range map[string][]string{
		"shop.example.com": {
			"Ingress team/a", "Ingress team/b", "in conflict: Ingress team/a and Ingress team/b serve the same host and path; who wins today: undetermined",
			"asked in vain: Service other/web, HostConflict: path / on host", "to get it: ask the owners of namespace team",
		},
		"192.0.2.7": {"Pod team/web-0", "Node n1"},
		"tcp/1":     {"to get it: nobody has it"},
	} {
		got := run(t, c, "kubectl-portcullis", "who", asked)
		for _, text := range says {
			if !strings.Contains(got.out, text) {
				t.Errorf("who %s: %q is missing in:\n%s", asked, text, got.out)
			}
		}
		if strings.Contains(got.out, "ended") {
			t.Errorf("a Pod that has ended has an address:\n%s", got.out)
		}
	}
}

func TestDoorsOfANamespace(t *testing.T) {
	got := run(t, twice(), "kubectl-portcullis", "doors")
	if !strings.Contains(got.out, "Ingress team/a") || strings.Contains(got.out, "other") || strings.Contains(got.out, "NAMESPACE") {
		t.Errorf("got:\n%s", got.out)
	}
	if got = run(t, twice(), "kubectl-portcullis", "doors", "-A"); !strings.Contains(got.out, "Ingress other/c") || !strings.Contains(got.out, "NAMESPACE") {
		t.Errorf("got:\n%s", got.out)
	}
}

func TestIsAbout(t *testing.T) {
	for _, row := range []struct {
		message, point string
		want           bool
	}{
		{"TCP/5432 is held", "tcp/5432", true}, {"TCP/54321 is held", "tcp/5432", false}, {"UDP/5432 is held", "tcp/5432", false},
		{"UDP/5432 is held", "5432", true}, {"port TCP/80 of 192.0.2.7 is held", "192.0.2.7:80", true},
		{"port TCP/80 of 192.0.2.71 is held", "192.0.2.7:80", false}, {"port TCP/81 of 192.0.2.7 is held", "192.0.2.7:80", false},
		{"192.0.2.7 is held", "192.0.2.7", true}, {"path /api on host shop.example.com", "shop.example.com/api", true},
		{"path / on host shop.example.com", "shop.example.com/api", false}, {"path / on host shop.example.com", "shop.example.com", true},
	} {
		p, err := doors.ParsePoint(row.point)
		if err != nil {
			t.Fatal(err)
		}
		if got := isAbout(row.message, p); got != row.want {
			t.Errorf("%q about %s: got %v", row.message, row.point, got)
		}
	}
}
