package loadbalancers

import (
	"github.com/prometheus/client_golang/prometheus"

	"jeffthecoder.xyz/portcullis/internal/kube"
)

var poolAddressesDesc = prometheus.NewDesc("portcullis_pool_addresses",
	"Addresses by AddressPool and state (total, assigned). Pools that are not accepted, and those of the source ClusterIP, have none.",
	[]string{"pool", "state"}, nil)

// poolCounts counts the addresses of the pools when it is scraped.
type poolCounts struct {
	view *kube.View
}

// Describe implements prometheus.Collector.
func (poolCounts) Describe(descs chan<- *prometheus.Desc) { descs <- poolAddressesDesc }

// Collect implements prometheus.Collector.
func (p poolCounts) Collect(out chan<- prometheus.Metric) {
	for _, pool := range p.view.LoadBalancers.Pools().Pools() {
		count := p.view.LoadBalancers.CountPool(pool)
		if !count.Known {
			continue
		}
		out <- prometheus.MustNewConstMetric(poolAddressesDesc, prometheus.GaugeValue, float64(count.Total), pool.Name, "total")
		out <- prometheus.MustNewConstMetric(poolAddressesDesc, prometheus.GaugeValue, float64(count.Assigned), pool.Name, "assigned")
	}
}
