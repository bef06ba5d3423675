package loadbalancers

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

var (
	addressesLost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "portcullis_addresses_lost_total",
		Help: "Addresses taken away from Services because no AddressPool gives them to the Service any longer.",
	})

	balancersDesc = prometheus.NewDesc("portcullis_loadbalancers",
		"Services of type LoadBalancer by state (served, pending, refused, foreign). Counted by the replica that leads.",
		[]string{"state"}, nil)

	registerBalancersOnce sync.Once
)

// registerBalancerMetrics registers the metrics of Services of type LoadBalancer, and those of pools.
func registerBalancerMetrics(r *loadBalancerReconciler) {
	registerBalancersOnce.Do(func() {
		metrics.Registry.MustRegister(addressesLost, balancerCounts{r.reported}, poolCounts{view: r.View})
	})
}

// balancerCounts counts the Services of type LoadBalancer by what was last reported about them.
type balancerCounts struct{ reported *report.ReportedState }

// Describe implements prometheus.Collector.
func (balancerCounts) Describe(descs chan<- *prometheus.Desc) { descs <- balancersDesc }

// Collect implements prometheus.Collector.
func (b balancerCounts) Collect(out chan<- prometheus.Metric) {
	for k, n := range b.reported.Count() {
		out <- prometheus.MustNewConstMetric(balancersDesc, prometheus.GaugeValue, float64(n), k[1])
	}
}
