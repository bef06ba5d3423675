package streams

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

var (
	configMapBytes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portcullis_configmap_bytes",
		Help: "Size of the ConfigMap of a class and protocol, foreign entries included. The API server takes 1 MiB at most.",
	}, []string{"class", "protocol"})

	configMapEntries = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portcullis_configmap_entries",
		Help: "Entries in the ConfigMap of a class and protocol, foreign entries included.",
	}, []string{"class", "protocol"})

	programmingSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "portcullis_stream_programming_seconds",
		Help:    "Time from the creation of a StreamIngress to the status that says it is programmed. Creation times are in whole seconds.",
		Buckets: []float64{.25, .5, 1, 2, 3, 5, 10, 30, 60, 300},
	})

	streamsDesc = prometheus.NewDesc("portcullis_streams",
		"StreamIngresses by class and state (programmed, accepted, refused, pending).", []string{"class", "state"}, nil)

	registerOnce sync.Once
)

// registerMetrics registers the metrics of streams and classes. Streams are counted in the cache of any replica when it is scraped,
// listeners and routes in that of the one that leads.
func registerMetrics(cache client.Reader, gateways *kube.Gateways) {
	registerOnce.Do(func() {
		metrics.Registry.MustRegister(configMapBytes, configMapEntries, programmingSeconds, streamCounts{cache}, gatewayCounts{gateways})
	})
}

func observeConfigMap(class string, protocol v1beta1.Protocol, plan stream.EntryPlan) {
	configMapBytes.WithLabelValues(class, string(protocol)).Set(float64(plan.Bytes))
	configMapEntries.WithLabelValues(class, string(protocol)).Set(float64(plan.Entries))
}

func forgetClassMetrics(class string) {
	configMapBytes.DeletePartialMatch(prometheus.Labels{"class": class})
	configMapEntries.DeletePartialMatch(prometheus.Labels{"class": class})
}

// observeProgrammed counts the time it took to program a stream, once in its life.
func observeProgrammed(si *v1beta1.StreamIngress) {
	before := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionProgrammed)
	if before != nil && before.Reason != v1beta1.ReasonPending {
		return
	}
	programmingSeconds.Observe(max(time.Since(si.CreationTimestamp.Time).Seconds(), 0))
}

// streamCounts counts the streams of a cache.
type streamCounts struct{ cache client.Reader }

// Describe implements prometheus.Collector.
func (streamCounts) Describe(descs chan<- *prometheus.Desc) { descs <- streamsDesc }

// Collect implements prometheus.Collector.
func (s streamCounts) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), report.ScrapeTimeout)
	defer cancel()
	var streams v1beta1.StreamIngressList
	if s.cache.List(ctx, &streams) != nil {
		return
	}
	byState := map[classState]float64{}
	for i := range streams.Items {
		si := &streams.Items[i]
		byState[classState{si.Status.ClassName, stateOf(si)}]++
	}
	for k, n := range byState {
		out <- prometheus.MustNewConstMetric(streamsDesc, prometheus.GaugeValue, n, k.class, k.state)
	}
}

func stateOf(si *v1beta1.StreamIngress) string {
	accepted := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionAccepted)
	switch {
	case accepted == nil:
		return "pending"
	case accepted.Status != "True":
		return "refused"
	case meta.IsStatusConditionTrue(si.Status.Conditions, v1beta1.ConditionProgrammed):
		return "programmed"
	default:
		return "accepted"
	}
}
