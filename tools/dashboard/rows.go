package main

// The units that Grafana knows.
const (
	count     = "short"
	perSecond = "reqps"
	seconds   = "s"
	bytes     = "bytes"
	ratio     = "percentunit"
	days      = "d"
	yesOrNo   = "bool_yes_no"
)

// row is one row of the dashboard.
type row struct {
	title  string
	panels []panel
}

// panel is one picture.
type panel struct {
	title string
	// about says what it shows, and what to make of it.
	about string
	unit  string
	// number shows the last value in place of a curve.
	number bool
	// bad is from where on a value is bad, 0 for nowhere; below says that it is bad up to there.
	bad   float64
	below bool
	// queries by what their series are called.
	queries []query
}

type query struct{ legend, expr string }

// Counters are of one replica each and are added up. What counts objects is the same on every replica that counts them, so
// that the largest is taken.
var rows = []row{
	{"Overview", []panel{
		{title: "Replicas", about: "Replicas that can be scraped.", unit: count, number: true, bad: 2, below: true, queries: []query{
			{"", `count(up{job="portcullis-metrics"} == 1)`}}},
		{title: "Leader", about: "One replica reconciles.", unit: yesOrNo, number: true, bad: 1, below: true, queries: []query{
			{"", `max(leader_election_master_status{name="portcullis"})`}}},
		{title: "Ports open", about: "StreamIngresses that are programmed.", unit: count, number: true, queries: []query{
			{"", `sum(max by (class) (portcullis_streams{state="programmed"}))`}}},
		{title: "Not open", about: "StreamIngresses that have a port which is not open, or that can't have it.", unit: count, number: true, bad: 1,
			queries: []query{{"", `sum(max by (class, state) (portcullis_streams{state!="programmed"})) or vector(0)`}}},
		{title: "Disagreements", about: "Points about which ledger and cluster have disagreed for longer than a minute.", unit: count, number: true, bad: 1,
			queries: []query{{"", `sum(max by (kind) (portcullis_ledger_disagreements))`}}},
		{title: "Certificate", about: "Time until the webhook's certificate expires, on the replica where that is soonest.", unit: days, number: true, bad: 14, below: true,
			queries: []query{{"", `(min(portcullis_webhook_certificate_expiry_timestamp_seconds) - time()) / 86400`}}},
	}},
	{"Admission", []panel{
		{title: "Decisions", about: "Requests by what became of them. An error is neither yes nor no: the author has to try again.", unit: perSecond,
			queries: []query{{"{{decision}}", `sum by (decision) (rate(portcullis_admission_decisions_total[$__rate_interval]))`}}},
		{title: "Refusals", about: "Refused requests by kind and reason.", unit: perSecond,
			queries: []query{{"{{kind}} {{reason}}", `sum by (kind, reason) (rate(portcullis_admission_decisions_total{decision!="allowed"}[$__rate_interval]))`}}},
		{title: "Time to decide", about: "Inside Portcullis, the writing of the claim included. The API server waits 3 s.", unit: seconds, bad: 1, queries: []query{
			{"{{kind}} p50", `histogram_quantile(0.5, sum by (kind, le) (rate(portcullis_admission_duration_seconds_bucket[$__rate_interval])))`},
			{"{{kind}} p99", `histogram_quantile(0.99, sum by (kind, le) (rate(portcullis_admission_duration_seconds_bucket[$__rate_interval])))`}}},
		{title: "Seen from the API server", about: "Time that the API server waits for an answer, the network included, 99th percentile.", unit: seconds, bad: 1,
			queries: []query{{"{{name}}", `histogram_quantile(0.99, sum by (name, le) (rate(apiserver_admission_webhook_admission_duration_seconds_bucket{name=~".*[.]nginx-stream[.]jeffthecoder[.]xyz"}[$__rate_interval])))`}}},
		{title: "No answer", about: "Requests that never got an answer from Portcullis: refused by the API server, or let through (Services).", unit: perSecond, bad: 0.001, queries: []query{
			{"{{name}} refused", `sum by (name) (rate(apiserver_admission_webhook_rejection_count{name=~".*[.]nginx-stream[.]jeffthecoder[.]xyz",error_type!="no_error"}[$__rate_interval]))`},
			{"{{name}} let through", `sum by (name) (rate(apiserver_admission_webhook_fail_open_count{name=~".*[.]nginx-stream[.]jeffthecoder[.]xyz"}[$__rate_interval]))`}}},
	}},
	{"Ledger", []panel{
		{title: "Claims", about: "Points that are held, by scope.", unit: count, queries: []query{
			{"{{scope}}", `max by (scope) (portcullis_claims)`}}},
		{title: "Conflicts", about: "Requests for what another holds, by who noticed.", unit: perSecond, bad: 0.1, queries: []query{
			{"{{source}}", `sum by (source) (rate(portcullis_conflicts_total[$__rate_interval]))`}}},
		{title: "Disagreements", about: "Claims without a holder, and open points without a claim. Events name them.", unit: count, bad: 1, queries: []query{
			{"{{kind}}", `max by (kind) (portcullis_ledger_disagreements)`}}},
		{title: "Audits", about: "Comparisons of ledger and cluster. One a minute is normal, and more while something is suspect.", unit: perSecond, queries: []query{
			{"{{result}}", `sum by (result) (rate(portcullis_ledger_audits_total[$__rate_interval]))`}}},
	}},
	{"Streams", []panel{
		{title: "Streams", about: "StreamIngresses by class and state.", unit: count, queries: []query{
			{"{{class}} {{state}}", `max by (class, state) (portcullis_streams)`}}},
		{title: "ConfigMap", about: "Share of the 1 MiB that a ConfigMap may have.", unit: ratio, bad: 0.9, queries: []query{
			{"{{class}} {{protocol}}", `max by (class, protocol) (portcullis_configmap_bytes) / (1024 * 1024)`}}},
		{title: "Entries", about: "Entries of the ConfigMaps, foreign ones included.", unit: count, queries: []query{
			{"{{class}} {{protocol}}", `max by (class, protocol) (portcullis_configmap_entries)`}}},
		{title: "Time to open", about: "From the creation of a StreamIngress to its programmed status. Creation times are in whole seconds.", unit: seconds, bad: 30, queries: []query{
			{"p50", `histogram_quantile(0.5, sum by (le) (rate(portcullis_stream_programming_seconds_bucket[$__rate_interval])))`},
			{"p99", `histogram_quantile(0.99, sum by (le) (rate(portcullis_stream_programming_seconds_bucket[$__rate_interval])))`}}},
	}},
	{"Ingresses", []panel{
		{title: "Services with ingress/http", about: "By IngressClass and whether they are served.", unit: count, queries: []query{
			{"{{class}} {{state}}", `max by (class, state) (portcullis_ingresses)`}}},
		{title: "Decisions on Services", about: "Requests about Services that the webhook judged.", unit: perSecond, queries: []query{
			{"{{operation}} {{decision}} {{reason}}", `sum by (operation, decision, reason) (rate(portcullis_admission_decisions_total{kind="Service"}[$__rate_interval]))`}}},
	}},
	{"Load balancers", []panel{
		{title: "Services of type LoadBalancer", about: "By state.", unit: count, queries: []query{
			{"{{state}}", `max by (state) (portcullis_loadbalancers)`}}},
		{title: "Addresses", about: "Addresses of each pool.", unit: count, queries: []query{
			{"{{pool}} {{state}}", `max by (pool, state) (portcullis_pool_addresses)`}}},
		{title: "Pools in use", about: "Share of each pool's addresses that are given away.", unit: ratio, bad: 0.9, queries: []query{
			{"{{pool}}", `max by (pool) (portcullis_pool_addresses{state="assigned"}) / max by (pool) (portcullis_pool_addresses{state="total"} > 0)`}}},
	}},
	{"Pods", []panel{
		{title: "Events", about: "What happened to Pods, once each.", unit: perSecond, queries: []query{
			{"{{event}}", `sum by (event) (rate(portcullis_pod_events_total[$__rate_interval]))`}}},
		{title: "PodToIPs", about: "PodToIPs that should be there.", unit: count, queries: []query{
			{"", `max(portcullis_pod_to_ips)`}}},
		{title: "Failures", about: "PodToIPs that could not be written or deleted; tried again.", unit: perSecond, bad: 0.01, queries: []query{
			{"{{operation}}", `sum by (operation) (rate(portcullis_pod_to_ip_failures_total[$__rate_interval]))`}}},
	}},
	{"Controllers", []panel{
		{title: "Waiting", about: "Length of the queues.", unit: count, queries: []query{
			{"{{name}}", `sum by (name) (workqueue_depth{job="portcullis-metrics"})`}}},
		{title: "Longest at work", about: "How long each controller has been at its oldest object.", unit: seconds, bad: 120, queries: []query{
			{"{{name}}", `max by (name) (workqueue_longest_running_processor_seconds{job="portcullis-metrics"})`}}},
		{title: "Reconciliations", about: "By controller.", unit: perSecond, queries: []query{
			{"{{controller}}", `sum by (controller) (rate(controller_runtime_reconcile_total{job="portcullis-metrics"}[$__rate_interval]))`}}},
		{title: "Errors", about: "Reconciliations that failed and are tried again.", unit: perSecond, bad: 0.02, queries: []query{
			{"{{controller}}", `sum by (controller) (rate(controller_runtime_reconcile_errors_total{job="portcullis-metrics"}[$__rate_interval]))`}}},
		{title: "Time to reconcile", about: "99th percentile.", unit: seconds, bad: 10, queries: []query{
			{"{{controller}}", `histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{job="portcullis-metrics"}[$__rate_interval])))`}}},
		{title: "Requests to the API server", about: "By method and status code.", unit: perSecond, queries: []query{
			{"{{method}} {{code}}", `sum by (method, code) (rate(rest_client_requests_total{job="portcullis-metrics"}[$__rate_interval]))`}}},
		{title: "Memory", about: "Resident memory of each replica.", unit: bytes, queries: []query{
			{"{{instance}}", `process_resident_memory_bytes{job="portcullis-metrics"}`}}},
		{title: "CPU", about: "Processors that each replica uses.", unit: count, queries: []query{
			{"{{instance}}", `rate(process_cpu_seconds_total{job="portcullis-metrics"}[$__rate_interval])`}}},
		{title: "Certificates", about: "Changes of the certificate's files.", unit: perSecond, queries: []query{
			{"{{result}}", `sum by (result) (rate(portcullis_webhook_certificate_loads_total[$__rate_interval]))`}}},
	}},
}
