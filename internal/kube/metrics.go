package kube

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Conflicts counts requests for a point that somebody else holds, by who noticed: admission, or a reconciler for an
// object that got past admission.
var Conflicts = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "portcullis_conflicts_total",
	Help: "Verdicts that another object holds the point that is asked for, by source: admission counts requests, " +
		"reconciler counts looks at objects that wait.",
}, []string{"source"})

// The sources of conflicts.
const (
	FromAdmission  = "admission"
	FromReconciler = "reconciler"
)

func init() {
	metrics.Registry.MustRegister(Conflicts)
	for _, source := range []string{FromAdmission, FromReconciler} {
		Conflicts.WithLabelValues(source) // so that a first one is a rise
	}
}
