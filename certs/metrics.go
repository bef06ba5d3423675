package certs

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	resultLoaded  = "loaded"
	resultRefused = "refused"
)

var (
	// A vector without labels, so that the series is absent, not zero, until a certificate is loaded.
	expiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portcullis_webhook_certificate_expiry_timestamp_seconds",
		Help: "When the serving certificate of the webhook server expires, in seconds since 1970. Absent until one is loaded.",
	}, nil)
	// Absent, too, while it can't be told.
	trusted = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portcullis_webhook_certificate_trusted",
		Help: "Whether the authority in the webhook configuration vouches for the serving certificate: 1; 0 if the API server refuses it.",
	}, nil)
	loads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portcullis_webhook_certificate_loads_total",
		Help: "Changes of the serving certificate's files, by result: loaded, or refused because they are no valid pair.",
	}, []string{"result"})
)

func init() {
	metrics.Registry.MustRegister(expiry, trusted, loads)
	for _, result := range []string{resultLoaded, resultRefused} {
		loads.WithLabelValues(result) // so that a first one is a rise
	}
}
