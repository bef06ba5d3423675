package plugin

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// given is a class, and two streams that want one port of it.
const given = `# what is above counts as lines
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngressClass
metadata: {name: public}
spec:
  tcpConfigMap: {namespace: edge, name: tcp}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
  kind: StreamIngress
  metadata: {name: first}
  spec: {className: public, listen: 5432, upstream: {service: db, port: 5432}}
- apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
  kind: StreamIngress
  metadata:
    name: second
  spec:
    className: public
    listen: 5432
    upstream: {service: db, port: 5432}
`

// files writes files in a directory of their own, and makes it the current one.
func files(t *testing.T, all map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range all {
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// lints runs lint and returns its report.
func lints(t *testing.T, c cluster, want int, args ...string) *Lint {
	t.Helper()
	got := run(t, c, append([]string{"kubectl-portcullis", "lint", "-o", "json"}, args...)...)
	if got.status != want {
		t.Fatalf("%v: got %d: %s%s", args, got.status, got.err, got.out)
	}
	report := &Lint{}
	if err := json.Unmarshal([]byte(got.out), report); err != nil && want != ExitUnread {
		t.Fatal(err)
	}
	return report
}

// errorsOf are those of a report.
func errorsOf(report *Lint) (found []LintFinding) {
	for _, f := range report.Findings {
		if f.Level == "error" {
			found = append(found, f)
		}
	}
	return found
}

func TestLint(t *testing.T) {
	files(t, map[string]string{
		"a.yaml":                        given,
		"deep/er/b.yaml":                given,
		"kustomized/given.yaml":         given,
		"kustomized/kustomization.yaml": "resources: [given.yaml]\nnamespace: elsewhere\n",
		"fine.yaml":                     strings.Replace(given, "listen: 5432\n", "listen: 5433\n", 1),
		"broken.yaml":                   "kind: [",
	})
	report := lints(t, &fake{}, ExitFindings, "-f", "a.yaml", "--junit", "lint.xml", "--sarif", "lint.sarif")
	want := LintFinding{
		Level: "error", Rule: "FieldValueDuplicate", Object: "StreamIngress team/second", File: "a.yaml", Line: 22, Field: "spec.listen",
	}
	found := errorsOf(report)
	if len(found) != 1 || report.Objects != 3 || !strings.Contains(found[0].Text, "held by StreamIngress team/first") {
		t.Fatalf("got %+v", report)
	}
	if found[0].Text = ""; found[0] != want {
		t.Errorf("got %+v, want %+v", found[0], want)
	}
	checkLintFiles(t, len(report.Findings))
	if found := errorsOf(lints(t, &fake{}, ExitFindings, "-f", "deep", "-R", "-n", "team")); len(found) != 1 {
		t.Errorf("of directories, got %+v", found)
	}
	found = errorsOf(lints(t, &fake{}, ExitFindings, "-k", "kustomized"))
	// kustomize orders what it does not know by the names of the kinds: streams are before their class.
	if len(found) != 2 || found[0].File != "kustomized" || found[0].Line != 0 || found[1].Object != "StreamIngress elsewhere/second" {
		t.Errorf("of a kustomization, got %+v", found)
	}
	if found := errorsOf(lints(t, &fake{}, ExitFindings, "-k", "kustomized", "-n", "team")); len(found) != 2 || found[0].Rule != "NamespaceMismatch" {
		t.Errorf("of another namespace, got %+v", found)
	}
	lints(t, &fake{}, ExitFine, "-f", "fine.yaml")
	lints(t, &fake{}, ExitFine, "-f", "-")
	lints(t, &fake{}, ExitUnread)
	lints(t, &fake{}, ExitUnread, "-f", "broken.yaml")
	lints(t, &fake{}, ExitUnread, "-f", "missing.yaml")
	lints(t, &fake{}, ExitUnread, "-f", "a.yaml", "-k", "kustomized")
	lints(t, &fake{}, ExitUnread, "-f", "a.yaml", "--ingress-host", "no host")
	if got := run(t, &fake{}, "kubectl-portcullis", "lint", "-f", "a.yaml"); !strings.Contains(got.out, "a.yaml:22") ||
		!strings.Contains(got.err, "3 findings: 1 error, 2 notes in 3 objects") {
		t.Errorf("got %s%s", got.out, got.err)
	}
}

// checkLintFiles looks for all findings in the files for pipelines.
func checkLintFiles(t *testing.T, n int) {
	t.Helper()
	var suites junitSuites
	text, err := os.ReadFile("lint.xml")
	if err == nil {
		err = xml.Unmarshal(text, &suites)
	}
	if err != nil || suites.Suites[0].Tests != n || suites.Suites[0].Failures != 1 {
		t.Errorf("got %v, %+v", err, suites)
	}
	var log sarifLog
	if text, err = os.ReadFile("lint.sarif"); err == nil {
		err = json.Unmarshal(text, &log)
	}
	if err != nil || len(log.Runs[0].Results) != n {
		t.Fatalf("got %v, %s", err, text)
	}
	for _, result := range log.Runs[0].Results {
		at := result.Locations[0].Physical
		if at == nil || at.Artifact.URI != "a.yaml" || at.Region == nil || at.Region.Line == 0 {
			t.Errorf("got %+v", result)
		}
	}
}

// TestLintServer holds that the cluster is there before what is given, and that it is said what of it could not be read.
func TestLintServer(t *testing.T) {
	files(t, map[string]string{"a.yaml": given})
	class := &v1beta1.StreamIngressClass{ObjectMeta: named("", "public")}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"}
	class.ResourceVersion, class.UID = "5", "class"
	other := claim.Claimant{Holder: claim.StreamHolder("rival", "db"), UID: types.UID("rival")}
	has := &fake{objects: map[string][]runtime.Object{
		"namespaces":           {&corev1.Namespace{ObjectMeta: named("", "team")}},
		"streamingressclasses": {class},
		"edgeclaims":           {claim.New(claim.Stream("public", v1beta1.TCP, 5432), other)},
	}}
	found := errorsOf(lints(t, has, ExitFindings, "-f", "a.yaml", "--server"))
	if len(found) != 2 || found[0].Object != "StreamIngress team/first" || !strings.Contains(found[0].Text, "rival/db") {
		t.Errorf("got %+v", found)
	}
	found = errorsOf(lints(t, has, ExitFindings, "-f", "a.yaml", "--server", "-n", "missing"))
	if len(found) != 2 || found[0].Rule != "NotFound" {
		t.Errorf("in no namespace, got %+v", found)
	}
	has.refuses = func(plural, _ string) error {
		if plural == "edgeclaims" {
			return forbid(plural)
		}
		return nil
	}
	if report := lints(t, has, ExitFindings, "-f", "a.yaml", "--server"); len(report.Unread) != 1 || report.Unread[0].Why != forbidden {
		t.Errorf("without the ledger, got %+v", report.Unread)
	}
	has.refuses = func(plural, _ string) error { return forbid(plural) }
	lints(t, has, ExitUnread, "-f", "a.yaml", "--server")
}
