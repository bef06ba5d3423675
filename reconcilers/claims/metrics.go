package claims

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

var (
	disagreements = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portcullis_ledger_disagreements",
		Help: "Points about which the ledger and the cluster have disagreed for longer than --audit-interval, by kind: " +
			"claim_without_holder, point_without_claim. From the replica that leads.",
	}, []string{"kind"})

	audits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portcullis_ledger_audits_total",
		Help: "Comparisons of the ledger with the cluster by result: done, failed. From the replica that leads.",
	}, []string{"result"})

	claimsDesc = prometheus.NewDesc("portcullis_claims", "EdgeClaims by scope.", []string{"scope"}, nil)

	registerClaimsOnce sync.Once
)

// The results of an audit.
const (
	auditDone   = "done"
	auditFailed = "failed"
)

// registerClaimMetrics registers the metrics of claims. Those that count claims read a cache when they are scraped.
func registerClaimMetrics(cache client.Reader) {
	registerClaimsOnce.Do(func() { metrics.Registry.MustRegister(disagreements, audits, claimCounts{cache}) })
}

// claimCounts counts the claims of a cache.
type claimCounts struct{ cache client.Reader }

// Describe implements prometheus.Collector.
func (claimCounts) Describe(descs chan<- *prometheus.Desc) { descs <- claimsDesc }

// Collect implements prometheus.Collector.
func (c claimCounts) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), report.ScrapeTimeout)
	defer cancel()
	var claims v1beta1.EdgeClaimList
	if c.cache.List(ctx, &claims) != nil {
		return
	}
	byScope := map[string]float64{}
	for i := range claims.Items {
		byScope[claim.ScopeFamily(claims.Items[i].Spec.Scope)]++
	}
	for scope, n := range byScope {
		out <- prometheus.MustNewConstMetric(claimsDesc, prometheus.GaugeValue, n, scope)
	}
}
