package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/plugin"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// nodePortRange is so small that one Service nearly has all of it.
const nodePortRange = "30000-30009"

// auditor is somebody who may read everything.
const auditor = "auditor"

// planted starts a control plane without Portcullis, with one of each finding, and more that is right.
func planted(t *testing.T) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Audit: true, AuditReads: true, APIServerFlags: []string{"--service-node-port-range=" + nodePortRange},
	})
	if err != nil {
		t.Fatal(err)
	}
	allProcessors()
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := newFixture(t, &harness.Harness{ControlPlane: cp})
	w.Client, err = client.New(cp.Config(), client.Options{Scheme: harness.Scheme()})
	must(w, err)
	must(w, w.InstallGateways(ctx))
	objects, err := controlplane.ReadFile("testdata/plugin.yaml")
	must(w, err)
	w.eventually("the kinds of the Gateway API", func() error {
		return controlplane.Apply(ctx, cp.Config(), "test", objects...)
	})
	for name, ip := range map[string]string{"shop/address": "192.0.2.10", "blog/address-twice": "192.0.2.10"} {
		svc := service(name)
		must(w, w.Client.Get(ctx, client.ObjectKeyFromObject(svc), svc))
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		must(w, w.Client.Status().Update(ctx, svc))
	}
	node := &corev1.Node{}
	must(w, w.Client.Get(ctx, client.ObjectKey{Name: "node-1"}, node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.1"}}
	must(w, w.Client.Status().Update(ctx, node))
	w.grantReads(auditor, "", "*")
	return w
}

// grantReads lets somebody read resources: of a namespace, or of all if that is empty.
func (w *fixture) grantReads(user, namespace string, resources ...string) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: resources, Verbs: []string{"get", "list"}}}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "read-" + user}
	if namespace == "" {
		must(w, w.Client.Create(w.t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}))
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}
		must(w, w.Client.Create(w.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}))
		return
	}
	must(w, w.Client.Create(w.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}))
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
	must(w, w.Client.Create(w.t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}))
}

// plugin runs the plugin as somebody and returns its exit status and what it says.
func (w *fixture) plugin(user string, args ...string) (status int, out, errOut string) {
	w.t.Helper()
	kubeconfig, err := w.KubeconfigFor(filepath.Join(w.t.TempDir(), "kubeconfig"), user)
	must(w, err)
	var said, told bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &said, ErrOut: &told}
	words := append([]string{"kubectl-portcullis", "--kubeconfig", kubeconfig}, args...)
	status = plugin.Run(w.t.Context(), words, streams, "test")
	return status, said.String(), told.String()
}

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
	w.filesForPipelines(junit, sarif, len(report.Findings))
	w.tellsWhatItCouldNotRead()
	w.listsDoors()
	w.saysWho()
	w.runsExamples()
	w.changesNothing()
}

// foundIn are the findings of a report, each in a line: rule, point, objects and who wins.
func foundIn(report plugin.Audit) (lines []string) {
	for _, f := range report.Findings {
		var objects []string
		for _, o := range f.Objects {
			objects = append(objects, o.String())
		}
		slices.Sort(objects)
		lines = append(lines, fmt.Sprintf("%s %s: %s, %s", f.Rule, f.Point, strings.Join(objects, " and "), f.Wins))
	}
	return lines
}

// filesForPipelines holds that the files have all findings.
func (w *fixture) filesForPipelines(junit, sarif string, findings int) {
	w.t.Helper()
	var suites struct {
		Suites []struct {
			Failures int `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	text, err := os.ReadFile(junit)
	must(w, err)
	must(w, xml.Unmarshal(text, &suites))
	must(w, is(suites.Suites[0].Failures, findings))
	var log struct {
		Version string
		Runs    []struct{ Results []any }
	}
	text, err = os.ReadFile(sarif)
	must(w, err)
	must(w, json.Unmarshal(text, &log))
	must(w, is(log.Version, "2.1.0"))
	must(w, is(len(log.Runs[0].Results), findings))
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
	mustContain(w.t, out, "Service blog/address-twice", "shop.example.com/api", "30000")
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
	for _, line := range plugin.Examples() {
		args := strings.Fields(line)
		for i, arg := range args {
			if strings.HasPrefix(arg, "audit.") { // a file
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
	w.create(namespace("plugin-team"), service("plugin-team/db", port("sql", 5432)))
	s := sti("plugin-team/postgres", of("plugin"), tcp(5432), to("db", 5432))
	w.create(s)
	w.programmed(s)
	e.leads(TCP, 5432, "plugin-team/db:5432")
	const user = "plugin-auditor"
	w.grantReads(user, "", "*")
	status, out, errOut := w.plugin(user, "doors", "-n", "plugin-team", "-o", "wide")
	if status != plugin.ExitFine {
		t.Errorf("doors ended with %d: %s", status, errOut)
	}
	mustContain(t, out, "TCP/5432", "ConfigMap edge-plugin/", "StreamIngress plugin-team/postgres", "plugin-team/db:5432", "(claim)")
	_, out, _ = w.plugin(user, "who", "tcp/5432")
	mustContain(t, out, "StreamIngress plugin-team/postgres")
	_, out, _ = w.plugin(user, "audit", "-o", "json")
	report := plugin.Audit{}
	must(w, json.Unmarshal([]byte(out), &report))
	for _, line := range foundIn(report) {
		if strings.Contains(line, "plugin-team") || strings.Contains(line, "edge-plugin") {
			t.Errorf("something is wrong with what Portcullis has made: %s", line)
		}
	}
}
