package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Conflicts counts requests for a point that somebody else holds, by who noticed: admission, or a reconciler for an
// object that got past admission.
var Conflicts = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "portcullis_conflicts_total",
	Help: "Requests for a point of the edge that another object holds, by source (admission, reconciler).",
}, []string{"source"})

func init() { metrics.Registry.MustRegister(Conflicts) }
