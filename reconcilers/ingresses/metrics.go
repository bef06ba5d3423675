package ingresses

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

var (
	ingressesDesc = prometheus.NewDesc("portcullis_ingresses",
		"Services that ask for an Ingress by class and state (served, refused). Counted by the replica that leads.",
		[]string{"class", "state"}, nil)

	registerIngressesOnce sync.Once
)

// registerIngressMetrics registers the metrics of the Services that ask for an Ingress.
func registerIngressMetrics(reported *report.ReportedState) {
	registerIngressesOnce.Do(func() { metrics.Registry.MustRegister(ingressCounts{reported}) })
}

// ingressCounts counts the Services that ask for an Ingress by what was last reported about them.
type ingressCounts struct{ reported *report.ReportedState }

// Describe implements prometheus.Collector.
func (ingressCounts) Describe(descs chan<- *prometheus.Desc) { descs <- ingressesDesc }

// Collect implements prometheus.Collector.
func (i ingressCounts) Collect(out chan<- prometheus.Metric) {
	for k, n := range i.reported.Count() {
		out <- prometheus.MustNewConstMetric(ingressesDesc, prometheus.GaugeValue, float64(n), k[0], k[1])
	}
}
