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

	authorizationv1 "k8s.io/api/authorization/v1"
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

// grantReads lets somebody read resources, Ingresses among them: of a namespace, or of all if that is empty. It returns when the API server
// knows.
func (w *fixture) grantReads(user, namespace string, resources ...string) {
	w.t.Helper()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: resources, Verbs: []string{"get", "list"}}}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "read-" + user}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}
	if namespace == "" {
		w.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	} else {
		ref.Kind = "Role"
		w.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
		w.create(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	}
	w.eventually("the rights of "+user, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: "networking.k8s.io", Resource: "ingresses", Verb: "list",
			},
		}}
		if err := w.Client.Create(w.t.Context(), review); err != nil {
			return err
		}
		return is(review.Status.Allowed, true)
	})
}

// webService is a manifest with which nothing is wrong. The plugin has it on standard input.
const webService = `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}`

// plugin runs the plugin as somebody and returns its exit status and what it says.
func (w *fixture) plugin(user string, args ...string) (status int, out, errOut string) {
	w.t.Helper()
	kubeconfig, err := w.KubeconfigFor(filepath.Join(w.t.TempDir(), "kubeconfig"), user)
	must(w, err)
	var said, told bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(webService), Out: &said, ErrOut: &told}
	words := append([]string{"kubectl-portcullis", "--kubeconfig", kubeconfig}, args...)
	status = plugin.Run(w.t.Context(), words, streams, "test")
	return status, said.String(), told.String()
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

// filesForPipelines holds that the files have all findings, so many of which are notes.
func (w *fixture) filesForPipelines(junit, sarif string, findings, notes int) {
	w.t.Helper()
	var suites struct {
		Suites []struct {
			Failures int `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	text, err := os.ReadFile(junit)
	must(w, err)
	must(w, xml.Unmarshal(text, &suites))
	must(w, is(suites.Suites[0].Failures, findings-notes))
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
