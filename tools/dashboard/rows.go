package main

// Whose metrics are meant, where others have metrics of that name, too.
const (
	ours     = `{job="portcullis-metrics"}`
	webhooks = `name=~".*[.]nginx-stream[.]jeffthecoder[.]xyz"`
)

// rows are the dashboard. Counters are of one replica each and are added up. What counts objects is the same on every
// replica that counts them, so that the most is taken.
var rows = []row{
	{"Overview", []panel{
		number("Replicas", "Replicas that can be scraped.", count, `count(up`+ours+` == 1)`).badBelow(2),
		number("Leader", "One replica reconciles.", yesOrNo, `max(leader_election_master_status{name="portcullis"})`).badBelow(1),
		number("Ports open", "StreamIngresses that are programmed.", count, `sum(max by (class) (portcullis_streams{state="programmed"}))`),
		number("Not open", "StreamIngresses that have a port which is not open, or that can't have theirs.", count,
			`sum(max by (class, state) (portcullis_streams{state!="programmed"})) or vector(0)`).badFrom(1),
		number("Disagreements", "Points about which ledger and cluster have disagreed for longer than --audit-interval.", count,
			`sum(max by (kind) (portcullis_ledger_disagreements))`).badFrom(1),
		number("Certificate", "Time until the webhook's certificate expires, on the replica where that is soonest.", days,
			`(min(portcullis_webhook_certificate_expiry_timestamp_seconds) - time()) / 86400`).badBelow(14),
	}},
	{"Admission", []panel{
		curves("Decisions", "Requests by what became of them. An error is neither yes nor no: the author has to try again.", perSecond,
			rates("decision", "portcullis_admission_decisions_total")),
		curves("Refusals", "Requests that got no yes, or a warning in its place, by kind and reason.", perSecond,
			rates("kind, reason", `portcullis_admission_decisions_total{decision!="allowed"}`)),
		curves("Time to decide", "Inside Portcullis, the writing of the claim included. The API server waits 3 s.", seconds,
			quantiles("kind", "portcullis_admission_duration_seconds", "")).badFrom(1),
		curves("Seen from the API server", "How long it waits for an answer, the network included.", seconds,
			quantiles("name", "apiserver_admission_webhook_admission_duration_seconds", "{"+webhooks+"}")).badFrom(1),
		curves("No answer: refused", "Requests that the API server refused because Portcullis gave no answer.", perSecond,
			rates("name", `apiserver_admission_webhook_rejection_count{`+webhooks+`,error_type!="no_error"}`)).badFrom(0.001),
		curves("No answer: let through", "Requests about Services and guarded listeners let through, as Portcullis gave no answer.",
			perSecond, rates("name", "apiserver_admission_webhook_fail_open_count{"+webhooks+"}")).badFrom(0.001),
	}},
	{"Ledger", []panel{
		curves("Claims", "Points that are held, by scope.", count, most("scope", "portcullis_claims")),
		curves("Conflicts", "Requests for what another holds, by who noticed.", perSecond,
			rates("source", "portcullis_conflicts_total")).badFrom(0.1),
		curves("Disagreements", "Claims without a holder, and open points without a claim. Events name them.", count,
			most("kind", "portcullis_ledger_disagreements")).badFrom(1),
		curves("Audits", "Comparisons of ledger and cluster. One in one to ten minutes is normal, more while something is suspect.", perSecond,
			rates("result", "portcullis_ledger_audits_total")),
	}},
	{"Streams", []panel{
		curves("Streams", "StreamIngresses by class and state.", count, most("class, state", "portcullis_streams")),
		curves("ConfigMaps", "Share of the 1 MiB that a ConfigMap may have.", ratio, most("class, protocol", "portcullis_configmap_bytes").
			over("1024 * 1024")).badFrom(0.9),
		curves("Entries", "Entries of the ConfigMaps, foreign ones included.", count,
			most("class, protocol", "portcullis_configmap_entries")),
		curves("Listeners", "Listeners of streams on Gateways, by class and what the Gateway's controller says of them.", count,
			most("class, state", "portcullis_gateway_listeners")),
		curves("Routes", "Routes of streams on Gateways, by class and what the Gateway's controller says of them.", count,
			most("class, state", "portcullis_gateway_routes")),
		curves("Time to open", "From the creation of a StreamIngress until it is programmed. Creation times are in whole seconds.", seconds,
			quantiles("", "portcullis_stream_programming_seconds", "")).badFrom(30),
	}},
	{"Guard", []panel{
		curves("Conflicts", "Listeners, routes and external IPs that stand where somebody else has the point. Events name them.",
			count, most("kind", "portcullis_guard_conflicts")).badFrom(1),
		curves("Decisions", "Requests about Gateways, ListenerSets and routes that were judged. An error is let through.", perSecond,
			rates("kind, operation, decision, reason", `portcullis_admission_decisions_total{kind=~"Gateway|ListenerSet|.*Route"}`)),
	}},
	{"Ingresses", []panel{
		curves("Services with ingress/http", "By IngressClass and whether they are served.", count,
			most("class, state", "portcullis_ingresses")),
		curves("Decisions on Services", "Requests about Services that the webhook judged.", perSecond,
			rates("operation, decision, reason", `portcullis_admission_decisions_total{kind="Service"}`)),
	}},
	{"Load balancers", []panel{
		curves("Services of type LoadBalancer", "By state.", count, most("state", "portcullis_loadbalancers")),
		curves("Addresses", "Addresses of each pool.", count, most("pool, state", "portcullis_pool_addresses")),
		curves("Pools in use", "Share of each pool's addresses that are given away.", ratio,
			most("pool", `portcullis_pool_addresses{state="assigned"}`).
				over(`max by (pool) (portcullis_pool_addresses{state="total"} > 0)`)).badFrom(0.9),
		curves("Addresses lost", "Addresses that were taken from Services because no pool gives them any longer.", perSecond,
			queries{{"lost", "sum(rate(portcullis_addresses_lost_total[$__rate_interval]))"}}).badFrom(0.001),
	}},
	{"Pods", []panel{
		curves("Events", "What happened to Pods, once each.", perSecond, rates("event", "portcullis_pod_events_total")),
		curves("PodToIPs", "PodToIPs that exist.", count, queries{{"PodToIPs", "max(portcullis_pod_to_ips)"}}),
		curves("Failures", "PodToIPs that could not be written or deleted; tried again.", perSecond,
			rates("operation", "portcullis_pod_to_ip_failures_total")).badFrom(0.01),
	}},
	{"Controllers", []panel{
		curves("Waiting", "Length of the queues.", count, queries{{"{{name}}", "sum by (name) (workqueue_depth" + ours + ")"}}),
		curves("Longest at work", "How long each controller has been at its oldest object.", seconds,
			most("name", "workqueue_longest_running_processor_seconds"+ours)).badFrom(120),
		curves("Reconciliations", "By controller.", perSecond, rates("controller", "controller_runtime_reconcile_total"+ours)),
		curves("Errors", "Reconciliations that failed and are tried again.", perSecond,
			rates("controller", "controller_runtime_reconcile_errors_total"+ours)).badFrom(0.02),
		curves("Time to reconcile", "By controller.", seconds,
			quantiles("controller", "controller_runtime_reconcile_time_seconds", ours)).badFrom(10),
		curves("Requests to the API server", "By method and status code.", perSecond, rates("method, code", "rest_client_requests_total"+ours)),
		curves("Memory", "Resident memory of each replica.", bytes, queries{{"{{instance}}", "process_resident_memory_bytes" + ours}}),
		curves("Processor", "Processors that each replica uses.", count, rates("instance", "process_cpu_seconds_total"+ours)),
		curves("Certificates refused", "1 while a replica can't load the certificate that it was given.", count,
			queries{{"{{instance}}", "portcullis_webhook_certificate_refused"}}).badFrom(1),
	}},
}
