package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/podtoip"
)

var compareOptions = cmp.Options{cmp.AllowUnexported(options{}, lease{}), cmpopts.IgnoreFields(options{}, "zap")}

// defaults are the options without any flag.
func defaults() options {
	return options{
		namespace: "portcullis-system", leaderElect: true, lease: lease{15 * time.Second, 10 * time.Second, 2 * time.Second}, metricsAddress: ":8443", metricsSecure: true, probeAddress: ":8081", profileAddress: "0",
		webhookPort: 9443, certDir: "/certs", certSecret: "portcullis-webhook-cert", webhookConfiguration: "portcullis",
		claimGrace: 2 * time.Minute, auditInterval: time.Minute, handOverWait: 10 * time.Second, heirPatience: 15 * time.Second, podToIP: podtoip.Labeled,
		settings: kube.Settings{
			Exposure: exposure.Defaults{Host: "example.com"}, MaxHTTPPoints: 64, ClusterDomain: "cluster.local",
			LoadBalancers: kube.LoadBalancerOptions{Reserved: loadbalancer.DefaultReserved(), MaxPorts: 100},
		},
	}
}

// TestEveryFlag sets one flag after the other, and notices a flag without a row.
func TestEveryFlag(t *testing.T) {
	rows := map[string]struct {
		value string
		sets  func(*options)
	}{
		"version":                     {"true", func(o *options) { o.version = true }},
		"namespace":                   {"edge", func(o *options) { o.namespace = "edge" }},
		"leader-elect":                {"false", func(o *options) { o.leaderElect = false }},
		"leader-elect-lease-duration": {"1m", func(o *options) { o.lease.duration = time.Minute }},
		"leader-elect-renew-deadline": {"5s", func(o *options) { o.lease.renewDeadline = 5 * time.Second }},
		"leader-elect-retry-period":   {"1s", func(o *options) { o.lease.retryPeriod = time.Second }},
		"metrics-bind-address":        {"0", func(o *options) { o.metricsAddress = "0" }},
		"metrics-secure":              {"false", func(o *options) { o.metricsSecure = false }},
		"health-probe-bind-address":   {":1", func(o *options) { o.probeAddress = ":1" }},
		"pprof-bind-address":          {"localhost:6060", func(o *options) { o.profileAddress = "localhost:6060" }},
		"webhook-host":                {"127.0.0.1", func(o *options) { o.webhookHost = "127.0.0.1" }},
		"webhook-port":                {"65535", func(o *options) { o.webhookPort = 65535 }},
		"cert-dir":                    {"/tls", func(o *options) { o.certDir = "/tls" }},
		"webhook-client-ca":           {"ca.crt", func(o *options) { o.clientCA = "ca.crt" }},
		"self-signed-certs":           {"true", func(o *options) { o.selfSigned = true }},
		"cert-secret":                 {"s", func(o *options) { o.certSecret = "s" }},
		"webhook-configuration":       {"w", func(o *options) { o.webhookConfiguration = "w" }},
		"webhook-dns-names":           {"a,b", func(o *options) { o.dnsNames = "a,b" }},
		"claim-grace":                 {"1m", func(o *options) { o.claimGrace = time.Minute }},
		"heir-patience":               {"1m", func(o *options) { o.heirPatience = time.Minute }},
		"audit-interval":              {"0", func(o *options) { o.auditInterval = 0 }},
		"hand-over-wait":              {"1m", func(o *options) { o.handOverWait = time.Minute }},
		"ingress-class":               {"nginx", func(o *options) { o.settings.Exposure.Class = "nginx" }},
		"ingress-host":                {"{service}.x", func(o *options) { o.settings.Exposure.Host = "{service}.x" }},
		"default-load-balancer":       {"true", func(o *options) { o.settings.LoadBalancers.ByDefault = true }},
		"cluster-domain":              {"example.org", func(o *options) { o.settings.ClusterDomain = "example.org" }},
		"reserved-node-ports": {"22,80-81", func(o *options) {
			o.settings.LoadBalancers.Reserved = loadbalancer.PortRanges{{From: 22}, {From: 80, To: 81}}
		}},
		"max-ports-per-service":       {"0", func(o *options) { o.settings.LoadBalancers.MaxPorts = 0 }},
		"max-http-points-per-service": {"8", func(o *options) { o.settings.MaxHTTPPoints = 8 }},
		"pod-to-ip":                   {"all", func(o *options) { o.podToIP = podtoip.All }},
		"guard": {"ListenerSet=Warn,Gateway=Deny", func(o *options) {
			o.settings.Guard = guard.Actions{guard.Gateway: guard.Deny, guard.ListenerSet: guard.Warn}
		}},
	}
	t.Setenv("POD_NAMESPACE", "")
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := parseOptions("portcullis", []string{"--" + name + "=" + row.value}, &out)
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			want := defaults()
			row.sets(&want)
			if diff := cmp.Diff(want, *got, compareOptions); diff != "" {
				t.Error(diff)
			}
		})
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	(&options{}).bind(flags)
	flags.VisitAll(func(f *flag.Flag) {
		if _, ok := rows[f.Name]; !ok && !strings.HasPrefix(f.Name, "zap-") {
			t.Errorf("no row for --%s", f.Name)
		}
		if !strings.HasSuffix(f.Usage, ".") && !strings.HasPrefix(f.Name, "zap-") {
			t.Errorf("--%s is not described in a sentence: %q", f.Name, f.Usage)
		}
	})
}

func TestNamespaceOfThePod(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "edge")
	got, err := parseOptions("portcullis", nil, &bytes.Buffer{})
	want := defaults()
	want.namespace = "edge"
	if diff := cmp.Diff(want, *got, compareOptions); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if got.logger().GetSink() == nil {
		t.Error("no logger")
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	modes := podtoip.Off.String() + ", " + podtoip.Labeled.String() + " and " + podtoip.All.String()
	const ingress, filled = "--ingress-class, --ingress-host: ", " with {service} and {namespace} filled in"
	t.Setenv("POD_NAMESPACE", "")
	for name, tc := range map[string]struct {
		args string
		want string
	}{
		"an argument":                       {"serve now", "unexpected arguments: serve now"},
		"no grace":                          {"--claim-grace=0", "--claim-grace must be positive"},
		"a lease that ends early":           {"--leader-elect-lease-duration=10s", "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline"},
		"a lease that is too long to renew": {"--leader-elect-retry-period=9s", "--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period"},
		"no time to retry":                  {"--leader-elect-retry-period=0s", "--leader-elect-retry-period must be positive"},
		"a negative grace":                  {"--claim-grace=-1s", "--claim-grace must be positive"},
		"a negative wait":                   {"--hand-over-wait=-1s", "--hand-over-wait must not be negative"},
		"a negative patience":               {"--heir-patience=-1s", "--heir-patience must not be negative"},
		"a negative interval":               {"--audit-interval=-1s", "--audit-interval must not be negative"},
		"fewer points than none":            {"--max-http-points-per-service=-1", "--max-http-points-per-service and --max-ports-per-service must not be negative"},
		"port 0":                            {"--webhook-port=0", "--webhook-port must be from 1 to 65535"},
		"a port that is too high":           {"--webhook-port=65536", "--webhook-port must be from 1 to 65535"},
		"no namespace":                      {"--namespace=", "--namespace must not be empty"},
		"several at once":                   {"--namespace= --claim-grace=0", "--claim-grace must be positive\n--namespace must not be empty"},
		"a flag that is not known":          {"--nosuch", "flag provided but not defined: -nosuch"},
		"a host that is none":               {"--ingress-host=Example", ingress + `host "Example": not a host name` + filled},
		"a host with other fields":          {"--ingress-host={pod}.x", ingress + `host "{pod}.x": not a host name` + filled},
		"a class that is none": {"--ingress-class=Nginx", ingress +
			`class "Nginx": the name of an IngressClass may have lower-case letters, digits, hyphens and dots, and not 'N'`},
		"a mode that is not known": {"--pod-to-ip=some", `invalid value "some" for flag -pod-to-ip: must be one of ` + modes},
		"ports that are none": {"--reserved-node-ports=22,ssh", `invalid value "22,ssh" for flag -reserved-node-ports: ` +
			`"ssh" is neither a port nor a range of ports, such as 22 or 30000-32767`},
		"a value that can't be read": {"--claim-grace=soon", `invalid value "soon" for flag -claim-grace: parse error`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := parseOptions("portcullis", strings.Fields(tc.args), &out)
			if err == nil || got != nil {
				t.Fatalf("got %+v, %v", got, err)
			}
			if err.Error() != tc.want || !strings.Contains(out.String(), tc.want) {
				t.Errorf("it says %q and writes\n%s", err, out.String())
			}
		})
	}
}

func TestHelpListsEveryFlag(t *testing.T) {
	var out bytes.Buffer
	if _, err := parseOptions("portcullis", []string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"Usage of portcullis:", "-claim-grace", "-kubeconfig", "-zap-log-level"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("%s is not in\n%s", name, out.String())
		}
	}
}

func TestServerNames(t *testing.T) {
	for name, tc := range map[string]struct {
		in   options
		want []string
	}{
		"the Service":   {options{namespace: "edge"}, []string{"portcullis-webhook.edge.svc"}},
		"what is named": {options{namespace: "edge", dnsNames: "localhost,a.example.com"}, []string{"localhost", "a.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.in.serverNames()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
