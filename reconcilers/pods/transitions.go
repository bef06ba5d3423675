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

// transitionLog logs and counts what happens to Pods. Informers hand it each difference once, and those of one Pod in order.
type transitionLog struct {
	log logr.Logger
}

// found records a Pod that was there before anybody watched. It is logged with verbosity 1 only: a large cluster has tens of
// thousands.
func (l transitionLog) found(pod *corev1.Pod) {
	podEvents.WithLabelValues(string(podtoip.Found)).Inc()
	if log := l.log.V(1); log.Enabled() {
		logTransition(log, podtoip.Transition{Kind: podtoip.Found, Pod: pod})
	}
}

// record records what happened to a Pod.
func (l transitionLog) record(transitions []podtoip.Transition) {
	for _, t := range transitions {
		podEvents.WithLabelValues(string(t.Kind)).Inc()
		logTransition(l.log, t)
	}
}

// logTransition logs one transition. The message names the Pod: the logger drops most of those that are repeated word by word within
// a second, and of a burst of Pods each one counts.
func logTransition(log logr.Logger, t podtoip.Transition) {
	pod := t.Pod
	name := pod.Namespace + "/" + pod.Name
	values := []any{"event", t.Kind, "pod", name, "uid", pod.UID, "node", pod.Spec.NodeName, "ips", podtoip.Addresses(pod)}
	if len(t.Former) > 0 {
		values = append(values, "formerIPs", t.Former)
	}
	if pod.Spec.HostNetwork {
		values = append(values, "hostNetwork", true)
	}
	if podtoip.Finished(pod) {
		values = append(values, "phase", pod.Status.Phase, "reason", pod.Status.Reason)
	}
	log.Info("pod "+name+" "+t.Kind.Verb(), values...)
}
