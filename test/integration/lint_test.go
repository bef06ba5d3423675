package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"jeffthecoder.xyz/portcullis/internal/findings"
	"jeffthecoder.xyz/portcullis/plugin"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// linted is how many manifests are generated, and lintSeed what they follow from.
	linted   = 1000
	lintSeed = 17
)

// TestLintSaysWhatApplyingSays applies generated manifests, valid and not, one after the other, and expects lint to say of each what the API
// server says: whether it is refused, and the field that it is refused for.
func TestLintSaysWhatApplyingSays(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1})
	must(w, w.InstallGatewayKinds(t.Context(), "tlsroutes", "httproutes", "grpcroutes"))
	g := newGenerator(lintSeed)
	all := g.begin()
	begun := len(all)
	for len(all) < begun+linted {
		all = append(all, g.next())
	}
	said := w.lints(all, "--guard", "all=Deny", "--cert-manager=false")
	refused := map[string]int{}
	for i, m := range all {
		u := asObject(w, m)
		fields, err := w.applies(u)
		if i < begun && err != nil {
			t.Fatalf("%s: %v", u.GetName(), err)
		}
		want := slices.Compact(slices.Sorted(slices.Values(fields)))
		got := said[i].fields()
		if slices.ContainsFunc(differences, func(d difference) bool { return d.is(u, err) }) {
			continue
		}
		if (err == nil) != (len(said[i]) == 0) || err != nil && !slices.Equal(got, want) {
			t.Errorf("manifest %d: %s\n  applying says: %v %v\n  lint says: %v %v", i, asJSON(w, m), want, err, got, said[i])
		}
		if err != nil {
			refused[u.GetKind()]++
		}
	}
	t.Logf("refused: %v", refused)
	for _, kind := range []string{"StreamIngress", "StreamIngressClass", "AddressPool", "HostPolicy", "Service", "Ingress", "ListenerSet"} {
		if refused[kind] == 0 {
			t.Errorf("no %s was refused: the test holds nothing of it", kind)
		}
	}
}

// TestLintServer holds that manifests are judged beside what a cluster has, with the rights that docs/plugin.md names, and that nothing is
// written.
func TestLintServer(t *testing.T) {
	w := shared(t)
	w.newEdge("linted")
	s := sti("linted-team/postgres", of("linted"), tcp(5432), to("db", 5432))
	w.create(namespace("linted-team"), service("linted-team/db", port("sql", 5432)), s)
	w.programmed(s)
	const user = "linter"
	// Without controllers, nobody puts together what view is made of.
	for _, role := range []string{"system:aggregate-to-view", "portcullis-streamingress-view", "portcullis-ledger-view"} {
		w.create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user + "-" + strings.ReplaceAll(role, ":", "-")},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		})
	}
	stream := func(name string, listen int) fields {
		return manifest(oursVersion, "StreamIngress", "linted-team", name, nil, fields{"spec": fields{
			"className": "linted", "listen": listen, "upstream": fields{"service": "db", "port": "sql"},
		}})
	}
	var text strings.Builder
	for _, m := range []fields{stream("rival", 5432), stream("postgres", 5433), stream("rival", 5432)} {
		text.WriteString(asJSON(w, m) + "\n---\n")
	}
	file := filepath.Join(t.TempDir(), "all.yaml")
	must(w, os.WriteFile(file, []byte(text.String()), 0o600))
	report := plugin.Lint{}
	w.eventually("the rights of "+user, func() error {
		status, out, errOut := w.plugin(user, "lint", "--server", "-f", file, "-o", "json")
		if status != plugin.ExitFindings || strings.Contains(errOut, "edgeclaims") {
			return fmt.Errorf("lint ended with %d: %s", status, errOut)
		}
		return json.Unmarshal([]byte(out), &report)
	})
	if len(report.Findings) != 1 || report.Findings[0].Line != 1 || report.Findings[0].Field != "spec.listen" ||
		!strings.Contains(report.Findings[0].Text, "held by StreamIngress linted-team/postgres") {
		t.Errorf("got %+v", report.Findings)
	}
	for _, u := range report.Unread {
		if u.Why == "forbidden" && u.What != "nodes" && u.What != "ingressclasses" && !isOfGatewayAPI(u.What) {
			t.Errorf("%s, though docs/plugin.md says that it may be read", u)
		}
	}
	w.get(s)
	must(w, is(*s.Spec.Listen, 5432))
}

// isOfGatewayAPI says whether a kind is one that view does not have without the roles that the Gateway API brings.
func isOfGatewayAPI(plural string) bool {
	return strings.HasSuffix(plural, "routes") || strings.HasPrefix(plural, "gateway") || plural == "listenersets" ||
		plural == "referencegrants" || plural == "certificates"
}

// difference is one that must be, as docs/plugin.md lists it.
type difference struct {
	why string
	is  func(u *unstructured.Unstructured, err error) bool
}

// differences are those that the manifests lead to.
var differences = []difference{
	{"a namespace that is not given is taken to be there", func(u *unstructured.Unstructured, err error) bool {
		return apierrors.IsNotFound(err) && strings.Contains(err.Error(), `namespaces "`+u.GetNamespace()+`" not found`)
	}},
}

// lintSaid is what lint refuses an object for.
type lintSaid []plugin.LintFinding

func (s lintSaid) fields() []string {
	var fields []string
	for _, f := range s {
		fields = append(fields, f.Field)
	}
	return slices.Compact(slices.Sorted(slices.Values(fields)))
}

// lints runs lint on manifests, each in a line of a file, and returns what it says of each.
func (w *fixture) lints(all []fields, args ...string) map[int]lintSaid {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "all.yaml")
	var text strings.Builder
	for _, m := range all {
		text.WriteString(asJSON(w, m) + "\n---\n")
	}
	must(w, os.WriteFile(file, []byte(text.String()), 0o600))
	status, out, errOut := w.plugin("nobody", append([]string{"lint", "-f", file, "-o", "json"}, args...)...)
	if status == plugin.ExitUnread {
		w.t.Fatalf("lint ended with %d: %s", status, errOut)
	}
	report := plugin.Lint{}
	must(w, json.Unmarshal([]byte(out), &report))
	said := map[int]lintSaid{}
	for _, f := range report.Findings {
		if f.Level == findings.Error {
			i := (f.Line - 1) / 2
			said[i] = append(said[i], f)
		}
	}
	return said
}

func asJSON(w *fixture, m fields) string {
	text, err := json.Marshal(m)
	must(w, err)
	return string(text)
}

func asObject(w *fixture, m fields) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	must(w, json.Unmarshal([]byte(asJSON(w, m)), &u.Object))
	must(w, u.UnmarshalJSON([]byte(asJSON(w, m))))
	return u
}
