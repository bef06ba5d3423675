package reconcilers

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

var (
	configMapBytes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portcullis_configmap_bytes",
		Help: "Size of the ConfigMap of a class and protocol, foreign entries included. The API server takes 1 MiB at most.",
	}, []string{"class", "protocol"})

	configMapEntries = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portcullis_configmap_entries",
		Help: "Entries in the ConfigMap of a class and protocol, foreign entries included.",
	}, []string{"class", "protocol"})

	programmingSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "portcullis_stream_programming_seconds",
		Help:    "Time from the creation of a StreamIngress to the status that says it is programmed. Creation times are in whole seconds.",
		Buckets: []float64{.25, .5, 1, 2, 3, 5, 10, 30, 60, 300},
	})

	disagreements = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portcullis_ledger_disagreements",
		Help: "Points about which the ledger and the cluster have disagreed for longer than --audit-interval, by kind: " +
			"claim_without_holder, point_without_claim. From the replica that leads.",
	}, []string{"kind"})

	audits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portcullis_ledger_audits_total",
		Help: "Comparisons of the ledger with the cluster by result: done, failed. From the replica that leads.",
	}, []string{"result"})

	addressesLost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "portcullis_addresses_lost_total",
		Help: "Addresses taken away from Services because no AddressPool gives them to the Service any longer.",
	})

	streamsDesc = prometheus.NewDesc("portcullis_streams",
		"StreamIngresses by class and state (programmed, accepted, refused, pending).", []string{"class", "state"}, nil)
	ingressesDesc = prometheus.NewDesc("portcullis_ingresses",
		"Services that ask for an Ingress by class and state (served, refused). Counted by the replica that leads.",
		[]string{"class", "state"}, nil)
	balancersDesc = prometheus.NewDesc("portcullis_loadbalancers",
		"Services of type LoadBalancer by state (served, pending, refused, foreign). Counted by the replica that leads.",
		[]string{"state"}, nil)
	claimsDesc = prometheus.NewDesc("portcullis_claims", "EdgeClaims by scope.", []string{"scope"}, nil)

	registerOnce sync.Once
)

// The results of an audit.
const (
	auditDone   = "done"
	auditFailed = "failed"
)

// registerMetrics registers the metrics of this package. Those that count objects read a cache when they are scraped.
func registerMetrics(c cache.Cache, b base) {
	registerOnce.Do(func() {
		metrics.Registry.MustRegister(configMapBytes, configMapEntries, programmingSeconds, disagreements, audits, addressesLost,
			objectCounts{cache: c, told: b.told, balanced: b.balanced}, poolCounts{view: b.view})
	})
}

func observeConfigMap(class string, protocol v1beta1.Protocol, plan stream.EntryPlan) {
	configMapBytes.WithLabelValues(class, string(protocol)).Set(float64(plan.Bytes))
	configMapEntries.WithLabelValues(class, string(protocol)).Set(float64(plan.Entries))
}

func forgetClassMetrics(class string) {
	configMapBytes.DeletePartialMatch(prometheus.Labels{"class": class})
	configMapEntries.DeletePartialMatch(prometheus.Labels{"class": class})
}

// observeProgrammed counts the time it took to program a stream, once in its life.
func observeProgrammed(si *v1beta1.StreamIngress) {
	before := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionProgrammed)
	if before != nil && before.Reason != v1beta1.ReasonPending {
		return
	}
	programmingSeconds.Observe(max(time.Since(si.CreationTimestamp.Time).Seconds(), 0))
}

// objectCounts counts the objects of a cache.
type objectCounts struct {
	cache          cache.Cache
	told, balanced *report.Bulletin
}

// Describe implements prometheus.Collector.
func (objectCounts) Describe(descs chan<- *prometheus.Desc) {
	descs <- streamsDesc
	descs <- claimsDesc
	descs <- ingressesDesc
	descs <- balancersDesc
}

// scrapeTimeout bounds how long a scrape waits for caches that are not synced yet.
const scrapeTimeout = time.Second

// Collect implements prometheus.Collector.
func (o objectCounts) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	type key struct{ class, state string }
	var streams v1beta1.StreamIngressList
	byState := map[key]float64{}
	if o.list(ctx, &streams) {
		for i := range streams.Items {
			si := &streams.Items[i]
			byState[key{si.Status.ClassName, stateOf(si)}]++
		}
	}
	for k, n := range byState {
		out <- prometheus.MustNewConstMetric(streamsDesc, prometheus.GaugeValue, n, k.class, k.state)
	}
	for k, n := range o.told.Count() {
		out <- prometheus.MustNewConstMetric(ingressesDesc, prometheus.GaugeValue, float64(n), k[0], k[1])
	}
	for k, n := range o.balanced.Count() {
		out <- prometheus.MustNewConstMetric(balancersDesc, prometheus.GaugeValue, float64(n), k[1])
	}
	var claims v1beta1.EdgeClaimList
	byScope := map[string]float64{}
	if o.list(ctx, &claims) {
		for i := range claims.Items {
			byScope[claim.ScopeFamily(claims.Items[i].Spec.Scope)]++
		}
	}
	for scope, n := range byScope {
		out <- prometheus.MustNewConstMetric(claimsDesc, prometheus.GaugeValue, n, scope)
	}
}

func (o objectCounts) list(ctx context.Context, list client.ObjectList) bool {
	return o.cache.List(ctx, list) == nil
}

func stateOf(si *v1beta1.StreamIngress) string {
	accepted := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionAccepted)
	switch {
	case accepted == nil:
		return "pending"
	case accepted.Status != "True":
		return "refused"
	case meta.IsStatusConditionTrue(si.Status.Conditions, v1beta1.ConditionProgrammed):
		return "programmed"
	default:
		return "accepted"
	}
}
