package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/podtoip"
	"jeffthecoder.xyz/portcullis/reconcilers/loadbalancers"
)

// options are what the command line says.
type options struct {
	version bool

	namespace      string
	leaderElect    bool
	lease          lease
	metricsAddress string
	metricsSecure  bool
	probeAddress   string
	profileAddress string

	webhookHost          string
	webhookPort          int
	certDir              string
	clientCA             string
	selfSigned           bool
	certSecret           string
	webhookConfiguration string
	dnsNames             string

	claimGrace    time.Duration
	auditInterval time.Duration
	handOverWait  time.Duration
	heirPatience  time.Duration
	podToIP       podtoip.Mode
	settings      kube.Settings
	zap           zap.Options
}

// lease is for how long a leader leads without being heard of, for how long it tries to be heard, and how often.
type lease struct {
	duration, renewDeadline, retryPeriod time.Duration
}

// validate says what client-go's leader election would refuse.
func (l lease) validate() error {
	var errs []error
	if l.duration <= l.renewDeadline {
		errs = append(errs, errors.New("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline"))
	}
	if l.renewDeadline <= time.Duration(leaderelection.JitterFactor*float64(l.retryPeriod)) {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline must be longer than %v times --leader-elect-retry-period",
			leaderelection.JitterFactor))
	}
	if l.retryPeriod < time.Millisecond {
		errs = append(errs, errors.New("--leader-elect-retry-period must be positive"))
	}
	return errors.Join(errs...)
}

// parseOptions reads the command line. Errors are written to out, with the usage.
func parseOptions(program string, args []string, out io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(out)
	config.RegisterFlags(flags)
	o.bind(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if err := o.validate(flags.Args()); err != nil {
		_, _ = fmt.Fprintln(out, err)
		return nil, err
	}
	return o, nil
}

func (o *options) bind(flags *flag.FlagSet) {
	namespace := os.Getenv("POD_NAMESPACE")
	if namespace == "" {
		namespace = "portcullis-system"
	}
	flags.BoolVar(&o.version, "version", false, "Print the version and exit.")
	flags.StringVar(&o.namespace, "namespace", namespace,
		"Namespace of Portcullis itself, for its Lease and its Secret. Default $POD_NAMESPACE.")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "Let one of several replicas reconcile. All of them answer admission requests.")
	flags.DurationVar(&o.lease.duration, "leader-elect-lease-duration", 15*time.Second,
		"How long a leader that was last heard of leads on, so that another may follow one that was killed.")
	flags.DurationVar(&o.lease.renewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"How long a leader tries to be heard of before it ends. Must be shorter than --leader-elect-lease-duration.")
	flags.DurationVar(&o.lease.retryPeriod, "leader-elect-retry-period", 2*time.Second,
		"How often a leader is heard of, and how often others try to lead.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "Address of the metrics endpoint, 0 to turn it off.")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true, "Serve metrics over TLS, to clients that may get /metrics.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz.")
	flags.StringVar(&o.profileAddress, "pprof-bind-address", "0",
		"Address of /debug/pprof, which tells what takes time and memory; 0 to turn it off. It asks nobody who they are.")
	flags.StringVar(&o.webhookHost, "webhook-host", "", "Address that the webhook server listens on; empty for all.")
	flags.IntVar(&o.webhookPort, "webhook-port", 9443, "Port that the webhook server listens on.")
	flags.StringVar(&o.certDir, "cert-dir", "/certs", "Directory with tls.crt and tls.key of the webhook server; changes are picked up.")
	flags.StringVar(&o.clientCA, "webhook-client-ca", "",
		"File with the CA of the API server's webhook client certificate. With it, nobody else can ask for a decision.")
	flags.BoolVar(&o.selfSigned, "self-signed-certs", false,
		"Make, inject and rotate a CA and a certificate of our own, instead of waiting for mounted ones.")
	flags.StringVar(&o.certSecret, "cert-secret", "portcullis-webhook-cert", "Secret that keeps the self-signed certificate.")
	flags.StringVar(&o.webhookConfiguration, "webhook-configuration", "portcullis",
		"ValidatingWebhookConfiguration that gets the self-signed CA. With --guard, so does the one of that name and -guard.")
	flags.StringVar(&o.dnsNames, "webhook-dns-names", "",
		"Names in the self-signed certificate, separated by commas. Default portcullis-webhook.<namespace>.svc.")
	flags.DurationVar(&o.claimGrace, "claim-grace", claim.DefaultGrace,
		"How long a claim is kept whose holder was never seen stored. Must be longer than any API request lives, plus the skew between clocks.")
	flags.DurationVar(&o.auditInterval, "audit-interval", time.Minute,
		"The least time between two comparisons of the ledger with the cluster, and how long they have to disagree to be reported; 0 for no "+
			"comparison. In large clusters there is more, so that comparing takes half a percent of a CPU: up to ten times this, or ten minutes.")
	flags.DurationVar(&o.handOverWait, "hand-over-wait", loadbalancers.DefaultHandOverWait,
		"How long a Service stays listed at an address that it has handed over, while the Service that has it can't be listed there.")
	flags.DurationVar(&o.heirPatience, "heir-patience", 15*time.Second,
		"How long the Ingress of a Service keeps a path that the Service has handed over, until the Ingress of the other one serves it.")
	o.podToIP = podtoip.Labeled
	flags.Var(&o.podToIP, "pod-to-ip", fmt.Sprintf(
		"Which Pods get a PodToIP: %s for those of namespaces labeled %s=%s, %s, or %s, which also deletes those that are there.",
		podtoip.Labeled, v1beta1.LabelPodToIP, v1beta1.PodToIPEnabled, podtoip.All, podtoip.Off))
	o.settings.Bind(flags)
	o.zap.BindFlags(flags)
}

func (o *options) validate(rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unexpected arguments: %s", strings.Join(rest, " ")))
	}
	if o.claimGrace <= 0 {
		errs = append(errs, errors.New("--claim-grace must be positive"))
	}
	if o.auditInterval < 0 {
		errs = append(errs, errors.New("--audit-interval must not be negative"))
	}
	if o.handOverWait < 0 {
		errs = append(errs, errors.New("--hand-over-wait must not be negative"))
	}
	if o.heirPatience < 0 {
		errs = append(errs, errors.New("--heir-patience must not be negative"))
	}
	if o.webhookPort < 1 || o.webhookPort > 65535 {
		errs = append(errs, errors.New("--webhook-port must be from 1 to 65535"))
	}
	if o.namespace == "" {
		errs = append(errs, errors.New("--namespace must not be empty"))
	}
	if err := o.lease.validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, o.settings.Validate())...)
}

// serverNames are the names in the self-signed certificate.
func (o *options) serverNames() []string {
	if o.dnsNames == "" {
		return []string{"portcullis-webhook." + o.namespace + ".svc"}
	}
	return strings.Split(o.dnsNames, ",")
}
