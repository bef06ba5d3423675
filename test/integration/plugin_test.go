package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/plugin"
)

// TestPluginAudit plants one of each finding in a cluster without Portcullis, and expects each to be found, and nothing else.
func TestPluginAudit(t *testing.T) {
	t.Parallel()
	w := planted(t)
	want := []string{
		"PortTwice TCP/443: ConfigMap ingress-nginx/ingress-nginx-tcp, Deployment ingress-nginx/ingress-nginx-controller",
		"EntryLeadsNowhere TCP/5433: ConfigMap ingress-nginx/ingress-nginx-tcp, ",
		"EntryClosed TCP/7000: ConfigMap ingress-nginx/ingress-nginx-tcp and Service ingress-nginx/ingress-nginx-controller, ",
		"PortWithoutEntry TCP/6379: Service ingress-nginx/ingress-nginx-controller, ",
		"PathTwice shop.example.com/api: Ingress shop/path-twice and Ingress shop/web",
		"HostInNamespaces www.example.com: Ingress blog/host-in-namespaces and Ingress shop/web",
		"ListenerConflict TCP/5432: Gateway ingress-nginx/edge and ListenerSet shop/listener-conflict, Gateway ingress-nginx/edge",
		"RouteNeverServes listener sql: TCPRoute shop/a-first and TCPRoute shop/b-route-never-serves",
		"RouteNeverServes TCPRoute shop/c-unattached: TCPRoute shop/c-unattached, ",
		"AddressTwice 192.0.2.10 TCP/9000: Service blog/address-twice and Service shop/address, undetermined",
		"ExternalIPTwice 198.51.100.1 TCP/8000: Service blog/external-ip-twice and Service shop/external, undetermined",
		"ExternalIPTaken 203.0.113.1: Node node-1 and Service blog/external-ip-taken, undetermined",
		"ExternalIPNamed 198.51.100.2: Service blog/external-ip-named, ",
		"NodePortsNearEnd 30000-30009: Namespace blog, ",
		"AnnotationUnreadable ingress/http: Service blog/annotation-unreadable, ",
	}
	dir := t.TempDir()
	junit, sarif := filepath.Join(dir, "audit.xml"), filepath.Join(dir, "audit.sarif")
	status, out, errOut := w.plugin(auditor, "audit", "-o", "json", "--node-port-range", nodePortRange, "--junit", junit, "--sarif", sarif)
	if status != plugin.ExitFindings {
		t.Errorf("audit ended with %d: %s", status, errOut)
	}
	mustContain(t, errOut, "not installed: tlsroutes, httproutes, grpcroutes, streamingressclasses")
	report := plugin.Audit{}
	must(w, json.Unmarshal([]byte(out), &report))
	for _, line := range foundIn(report) {
		i := slices.IndexFunc(want, func(begin string) bool { return strings.HasPrefix(line, begin) })
		if i < 0 {
			t.Errorf("found %s, which nobody has planted", line)
			continue
		}
		want = slices.Delete(want, i, i+1)
	}
	for _, line := range want {
		t.Errorf("not found: %s", line)
	}
	for _, f := range report.Findings {
		if f.Text == "" || f.Advice == "" || f.Since().IsZero() && f.Rule != "NodePortsNearEnd" {
			t.Errorf("a finding says too little: %+v", f)
		}
	}
	w.filesForPipelines(junit, sarif, len(report.Findings), 2)
	w.tellsWhatItCouldNotRead()
	w.listsDoors()
	w.saysWho()
	w.runsExamples()
	w.changesNothing()
}

// tellsWhatItCouldNotRead runs audit as people with few rights.
func (w *fixture) tellsWhatItCouldNotRead() {
	w.grantReads("dora", "shop", "ingresses")
	status, out, errOut := w.plugin("dora", "audit", "-n", "shop")
	if status != plugin.ExitFindings {
		w.t.Errorf("audit of a namespace ended with %d: %s", status, errOut)
	}
	mustContain(w.t, out, "PathTwice", "shop.example.com/api")
	mustContain(w.t, errOut, "could not read namespaces, services, nodes", ": forbidden", "1 finding: 1 error")
	if status, _, errOut = w.plugin("nobody", "audit"); status != plugin.ExitUnread {
		w.t.Errorf("audit of somebody without rights ended with %d: %s", status, errOut)
	}
	mustContain(w.t, errOut, "nothing could be read")
}

// listsDoors runs doors, of one namespace and of all.
func (w *fixture) listsDoors() {
	status, out, errOut := w.plugin(auditor, "doors", "-n", "shop")
	if status != plugin.ExitFine {
		w.t.Errorf("doors ended with %d: %s", status, errOut)
	}
	mustContain(w.t, out, "ConfigMap ingress-nginx/ingress-nginx-tcp", "shop/db:sql", "shop.example.com/api", "192.0.2.10", "ListenerSet shop/listener-conflict")
	if strings.Contains(out, "blog") {
		w.t.Errorf("the doors of shop have those of blog:\n%s", out)
	}
	_, out, _ = w.plugin(auditor, "doors", "-A")
	mustContain(w.t, out, "Service blog/address-twice", "shop.example.com/api", "NodePort")
}

// saysWho asks who has what.
func (w *fixture) saysWho() {
	must(w, w.Client.Create(w.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "blog", Name: "asked"},
		InvolvedObject: corev1.ObjectReference{Kind: "StreamIngress", Namespace: "blog", Name: "sql"},
		Reason:         "PortConflict", Type: corev1.EventTypeWarning, Message: "TCP/5432 is held by ConfigMap ingress-nginx/ingress-nginx-tcp",
	}))
	for point, says := range map[string][]string{
		"tcp/5432":             {"ConfigMap ingress-nginx/ingress-nginx-tcp", "Gateway ingress-nginx/edge", "asked in vain: StreamIngress blog/sql", "to get it: "},
		"192.0.2.10:9001":      {"Service shop/address", "to get it: ask the owners of namespace shop"},
		"shop.example.com/api": {"Ingress shop/web", "Ingress shop/path-twice"},
		"tcp/1":                {"nobody has it"},
	} {
		status, out, errOut := w.plugin(auditor, "who", point)
		if status != plugin.ExitFine {
			w.t.Errorf("who %s ended with %d: %s", point, status, errOut)
		}
		mustContain(w.t, out, says...)
	}
}

// runsExamples runs the examples of every command's help.
func (w *fixture) runsExamples() {
	dir := w.t.TempDir()
	for name, text := range map[string]string{
		"manifests/web.yaml": webService, "overlays/production/web.yaml": webService,
		"overlays/production/kustomization.yaml": "resources: [web.yaml]\n",
	} {
		must(w, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o750))
		must(w, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	isFile := regexp.MustCompile(`^(audit\.|lint\.|manifests|overlays/)`)
	for _, line := range plugin.Examples() {
		args := strings.Fields(line)
		if args[2] == "move" {
			continue // that changes something: see TestPluginMove
		}
		for i, arg := range args {
			if isFile.MatchString(arg) {
				args[i] = filepath.Join(dir, arg)
			}
		}
		if status, _, errOut := w.plugin(auditor, args[2:]...); status == plugin.ExitUnread {
			w.t.Errorf("%s: %s", line, errOut)
		}
	}
}

// changesNothing holds that the plugin asks for nothing but to read.
func (w *fixture) changesNothing() {
	requests, err := w.Requests()
	must(w, err)
	n := 0
	for _, r := range requests {
		if r.User != auditor {
			continue
		}
		n++
		if r.Verb != "get" && r.Verb != "list" {
			w.t.Errorf("the plugin has asked to %s %s", r.Verb, r.Resource)
		}
	}
	if n == 0 {
		w.t.Error("no request of the plugin was recorded")
	}
}

// TestPluginBesidePortcullis holds that the plugin says what the ledger says, where there is one.
func TestPluginBesidePortcullis(t *testing.T) {
	w := shared(t)
	e := w.newEdge("plugin")
	const listen = 60543 // of no other test that shares the cluster: who asks by a port is told of the first class that has it
	w.create(namespace("plugin-team"), service("plugin-team/db", port("sql", 5432)))
	s := sti("plugin-team/postgres", of("plugin"), tcp(listen), to("db", 5432))
	w.create(s)
	w.programmed(s)
	e.leads(TCP, listen, "plugin-team/db:5432")
	const user = "plugin-auditor"
	w.grantReads(user, "", "*")
	status, out, errOut := w.plugin(user, "doors", "-n", "plugin-team", "-o", "wide")
	if status != plugin.ExitFine {
		t.Errorf("doors ended with %d: %s", status, errOut)
	}
	mustContain(t, out, "TCP/60543", "ConfigMap edge-plugin/", "StreamIngress plugin-team/postgres", "plugin-team/db:5432", "(claim)")
	refusal := w.refusal(w.try(sti("plugin-team/rival", of("plugin"), tcp(listen), to("db", 5432)))).Error()
	_, said, _ := strings.Cut(refusal, "held by ")
	said, _, _ = strings.Cut(said, ";")
	_, out, _ = w.plugin(user, "who", "tcp/60543")
	mustContain(t, out, "StreamIngress plugin-team/postgres", "to get it: held by "+said+"; ask the owners of namespace plugin-team: ")
	_, out, _ = w.plugin(user, "audit", "-o", "json")
	report := plugin.Audit{}
	must(w, json.Unmarshal([]byte(out), &report))
	for _, line := range foundIn(report) {
		if strings.Contains(line, "plugin-team") || strings.Contains(line, "edge-plugin") {
			t.Errorf("something is wrong with what Portcullis has made: %s", line)
		}
	}
}
