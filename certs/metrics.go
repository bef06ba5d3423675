package certs

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
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
	refused = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "portcullis_webhook_certificate_refused",
		Help: "1 while the serving certificate's files can't be loaded, as they are no valid pair or not there; 0 when they are served.",
	})
)

func init() {
	metrics.Registry.MustRegister(expiry, trusted, refused)
}
