package pods

import (
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"jeffthecoder.xyz/portcullis/internal/podtoip"
)

var (
	podEvents = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portcullis_pod_events_total",
		Help: "What has happened to Pods: found (at the start), added, scheduled, ip_assigned, ip_changed, ip_lost, ready, not_ready, " +
			"terminating, completed, gone. Counted by the replica that leads.",
	}, []string{"event"})

	podToIPs = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "portcullis_pod_to_ips",
		Help: "PodToIPs that exist, as the replica that leads sees them. 0 on the others.",
	})

	podToIPFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portcullis_pod_to_ip_failures_total",
		Help: "PodToIPs that could not be written or deleted (operation apply, delete). Each is tried again.",
	}, []string{"operation"})

	registerPodsOnce sync.Once
)

// registerMetrics registers the metrics about Pods, each with all its labels at 0, so that a first event is a rise.
func registerMetrics() {
	registerPodsOnce.Do(func() {
		metrics.Registry.MustRegister(podEvents, podToIPs, podToIPFailures)
		for _, kind := range podtoip.Kinds {
			podEvents.WithLabelValues(string(kind))
		}
		for _, operation := range []string{"apply", "delete"} {
			podToIPFailures.WithLabelValues(operation)
		}
	})
}

// story logs and counts what happens to Pods. Informers hand it each difference once, and those of one Pod in order.
type story struct {
	log logr.Logger
}

// found tells of a Pod that was there before anybody watched. As that is no news, it is only logged when more is asked
// for: a large cluster has tens of thousands.
func (s story) found(pod *corev1.Pod) {
	podEvents.WithLabelValues(string(podtoip.Found)).Inc()
	if log := s.log.V(1); log.Enabled() {
		logEvent(log, podtoip.Event{Kind: podtoip.Found, Pod: pod})
	}
}

// tell tells what happened to a Pod.
func (s story) tell(events []podtoip.Event) {
	for _, e := range events {
		podEvents.WithLabelValues(string(e.Kind)).Inc()
		logEvent(s.log, e)
	}
}

// logEvent logs one event. The message names the Pod: the logger drops most of those that are repeated word by word within
// a second, and of a burst of Pods each one counts.
func logEvent(log logr.Logger, e podtoip.Event) {
	pod := e.Pod
	name := pod.Namespace + "/" + pod.Name
	values := []any{"event", e.Kind, "pod", name, "uid", pod.UID, "node", pod.Spec.NodeName, "ips", podtoip.Addresses(pod)}
	if len(e.Former) > 0 {
		values = append(values, "formerIPs", e.Former)
	}
	if pod.Spec.HostNetwork {
		values = append(values, "hostNetwork", true)
	}
	if podtoip.Finished(pod) {
		values = append(values, "phase", pod.Status.Phase, "reason", pod.Status.Reason)
	}
	log.Info("pod "+name+" "+e.Kind.Verb(), values...)
}
