package pods

import (
	"encoding/json"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/internal/podtoip"
)

// logged is a logger, and the lines that it has written.
func logged(t *testing.T, verbosity int) (logr.Logger, *[]map[string]any) {
	t.Helper()
	lines := &[]map[string]any{}
	return funcr.NewJSON(func(line string) {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		delete(fields, "logger")
		delete(fields, "level")
		*lines = append(*lines, fields)
	}, funcr.Options{Verbosity: verbosity}), lines
}

func podOnNode() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "shop", "web-0", "one"
	pod.Spec.NodeName = "node-a"
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.3.8"}}
	return pod
}

func TestTransitionsAreLoggedAndCounted(t *testing.T) {
	log, lines := logged(t, 0)
	before := counterOf(t, podtoip.IPChanged)
	evicted := podOnNode()
	evicted.Spec.HostNetwork = true
	evicted.Status.Phase, evicted.Status.Reason = corev1.PodFailed, "Evicted"
	l := transitionLog{log: log}
	l.found(podOnNode())
	l.record([]podtoip.Transition{
		{Kind: podtoip.IPChanged, Pod: podOnNode(), Former: []string{"10.0.3.7"}},
		{Kind: podtoip.Completed, Pod: evicted},
	})
	want := []map[string]any{
		{
			"msg": "pod shop/web-0 changed its IP", "event": "ip_changed", "pod": "shop/web-0", "uid": "one", "node": "node-a",
			"ips": []any{"10.0.3.8"}, "formerIPs": []any{"10.0.3.7"},
		}, {
			"msg": "pod shop/web-0 has finished", "event": "completed", "pod": "shop/web-0", "uid": "one", "node": "node-a",
			"ips": []any{"10.0.3.8"}, "hostNetwork": true, "phase": "Failed", "reason": "Evicted",
		},
	}
	if diff := cmp.Diff(want, *lines); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if got := counterOf(t, podtoip.IPChanged); got != before+1 {
		t.Errorf("%v IP changes are counted, want %v", got, before+1)
	}
}

func TestFoundPodsAreLoggedOnRequest(t *testing.T) {
	log, lines := logged(t, 1)
	transitionLog{log: log}.found(podOnNode())
	if len(*lines) != 1 || (*lines)[0]["event"] != "found" {
		t.Errorf("log: %v", *lines)
	}
}

func counterOf(t *testing.T, kind podtoip.Kind) float64 {
	t.Helper()
	return testutil.ToFloat64(podEvents.WithLabelValues(string(kind)))
}
