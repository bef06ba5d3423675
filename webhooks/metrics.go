package webhooks

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var (
	decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portcullis_admission_decisions_total",
		Help: "Admission requests by kind, operation, decision (allowed, denied, warned, error) and the reason of a denial, warning or error.",
	}, []string{"kind", "operation", "decision", "reason"})

	durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "portcullis_admission_duration_seconds",
		Help:    "Time from the start of a decision to its end, writing the claim included.",
		Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 3},
	}, []string{"kind", "operation"})
)

func init() { metrics.Registry.MustRegister(decisions, durations) }

// observe counts one decision.
func observe(ctx context.Context, kind, decision, reason string, start time.Time) {
	operation := "unknown"
	if req, err := admission.RequestFromContext(ctx); err == nil {
		operation = strings.ToLower(string(req.Operation))
	}
	decisions.WithLabelValues(kind, operation, decision, reason).Inc()
	durations.WithLabelValues(kind, operation).Observe(time.Since(start).Seconds())
}
