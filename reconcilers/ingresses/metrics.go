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
func registerIngressMetrics(told *report.Bulletin) {
	registerIngressesOnce.Do(func() { metrics.Registry.MustRegister(ingressCounts{told}) })
}

// ingressCounts counts the Services that ask for an Ingress by what was told about them.
type ingressCounts struct{ told *report.Bulletin }

// Describe implements prometheus.Collector.
func (ingressCounts) Describe(descs chan<- *prometheus.Desc) { descs <- ingressesDesc }

// Collect implements prometheus.Collector.
func (i ingressCounts) Collect(out chan<- prometheus.Metric) {
	for k, n := range i.told.Count() {
		out <- prometheus.MustNewConstMetric(ingressesDesc, prometheus.GaugeValue, float64(n), k[0], k[1])
	}
}
