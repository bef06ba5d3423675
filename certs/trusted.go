package certs

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How often the webhook configuration is read: by name, and from no cache, because nothing else of the process needs it. Each look
// verifies chains of certificates, which is much of what a replica does at rest. While it is not known to be trusted, and until anything
// is known at all, it is looked at more often: somebody waits for that.
const (
	trustInterval = 15 * time.Second
	doubtInterval = 2 * time.Second
)

// watchTrust tells whether the API server would accept what is served, until the context ends. When it would not, every
// request fails that it would ask us about, and none of them gets here: nobody else can tell from inside. It changes
// nothing about readiness: a replica that is taken out would only hide the reason. cert-controller injects an authority, and never
// looks at what is served.
func (s *Serving) watchTrust(ctx context.Context, reader client.Reader) error {
	said := "" // the last that was logged
	for {
		var sure bool
		said, sure = s.lookForTrust(ctx, reader, said)
		wait := doubtInterval
		if sure {
			wait = trustInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// lookForTrust looks once, and says whether what is served is trusted. It sets the metric, and returns what it says, which it logs when
// that is not what was said last.
func (s *Serving) lookForTrust(ctx context.Context, reader client.Reader, said string) (saying string, sure bool) {
	cert := s.current.Load()
	if cert == nil {
		return said, false // which is told elsewhere
	}
	configuration, err := readConfiguration(ctx, reader, s.opts.WebhookConfiguration)
	if err != nil {
		trusted.Reset()
		if err.Error() != said && ctx.Err() == nil {
			s.log.Info("Can't see whether the API server trusts the serving certificate", "reason", err.Error())
		}
		return err.Error(), false
	}
	if err := trustedFor(configuration, cert, s.now()); err != nil {
		trusted.WithLabelValues().Set(0)
		if err.Error() != said {
			s.log.Error(err, "The API server does not trust the serving certificate: what it would ask this replica fails")
		}
		return err.Error(), false
	}
	trusted.WithLabelValues().Set(1)
	if said != "" {
		s.log.Info("The API server trusts the serving certificate")
	}
	return "", true
}
