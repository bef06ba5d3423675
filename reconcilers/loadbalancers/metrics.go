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
		Help: "Addresses taken away from Services because no AddressPool gives them to the Service any longer, or as others have them.",
	})

	servicesDesc = prometheus.NewDesc("portcullis_loadbalancers",
		"Services of type LoadBalancer by state (served, pending, refused, foreign). Counted by the replica that leads.",
		[]string{"state"}, nil)

	registerOnce sync.Once
)

// registerMetrics registers the metrics of Services of type LoadBalancer, and those of pools.
func registerMetrics(r *loadBalancerReconciler) {
	registerOnce.Do(func() {
		metrics.Registry.MustRegister(addressesLost, serviceCounts{r.reported}, poolCounts{view: r.View})
	})
}

// serviceCounts counts the Services of type LoadBalancer by what was last reported about them.
type serviceCounts struct{ reported *report.ReportedState }

// Describe implements prometheus.Collector.
func (serviceCounts) Describe(descs chan<- *prometheus.Desc) { descs <- servicesDesc }

// Collect implements prometheus.Collector.
func (b serviceCounts) Collect(out chan<- prometheus.Metric) {
	for k, n := range b.reported.Count() {
		out <- prometheus.MustNewConstMetric(servicesDesc, prometheus.GaugeValue, float64(n), k[1])
	}
}
