package lint

import (
	"flag"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// settings are the defaults, changed by flags.
func settings(t *testing.T, args ...string) (s kube.Settings) {
	t.Helper()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	s.Bind(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

// newLinter is one of a cluster with these flags.
func newLinter(t *testing.T, args ...string) *Linter {
	t.Helper()
	l, err := New(t.Context(), Options{Settings: settings(t, args...)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// manifests reads documents of YAML. Those of a kind with a namespace are in default if they name none.
func manifests(t *testing.T, l *Linter, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		if u.GetNamespace() == "" && l.IsNamespaced(u.GroupVersionKind()) {
			u.SetNamespace("default")
		}
		all = append(all, u)
	}
	return all
}

// says applies documents and returns what is said of the last, one line for each refusal and warning.
func says(t *testing.T, l *Linter, text string) string {
	t.Helper()
	var lines []string
	for _, u := range manifests(t, l, text) {
		v, err := l.Apply(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		lines = nil
		for _, p := range v.Refusals {
			lines = append(lines, p.Reason+" "+p.Field+": "+p.Message)
		}
		for _, w := range v.Warnings {
			lines = append(lines, "warning: "+w)
		}
	}
	return strings.Join(lines, "\n")
}

const class = `
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngressClass
metadata:
  name: public
  annotations: {nginx-stream.jeffthecoder.xyz/is-default-class: "true"}
spec:
  tcpConfigMap: {namespace: ingress-nginx, name: tcp-services}
  autoAssign: {from: 20000, to: 20001}
`

// lenient is the class, if it only warns.
const lenient = class + "  enforcement: Warn\n"

const postgres = `
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: postgres}
spec: {listen: 5432, upstream: {service: postgres, port: 5432}}
`

func TestApply(t *testing.T) {
	for name, row := range map[string]struct{ given, want string }{
		"a stream": {class + "\n---\n" + postgres, "warning: spec.upstream.service: there is no Service default/postgres yet"},
		"no class": {postgres, "spec.className"},
		"a port that is taken": {class + "\n---\n" + postgres + "\n---\n" + strings.ReplaceAll(postgres, "name: postgres", "name: db"),
			"FieldValueDuplicate spec.listen: Duplicate value: \"TCP/5432\": held by StreamIngress default/postgres since"},
		"a port that is taken, and a class that only warns": {
			lenient + "\n---\n" + postgres + "\n---\n" + strings.ReplaceAll(postgres, "name: postgres", "name: db"),
			`warning: admitted, and not opened, as class "public" only warns (enforcement: Warn): spec.listen: Duplicate value: "TCP/5432": held by StreamIngress default/postgres since`},
		"the same again": {class + "\n---\n" + postgres + "\n---\n" + postgres, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := says(t, newLinter(t), row.given); !strings.Contains(got, row.want) || row.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

const second = `
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: second}
spec: {listen: 5432, upstream: {service: postgres, port: 5432}}
`

// TestChanges holds that what an object gives up is free, and that what a manifest does no longer name is taken off.
func TestChanges(t *testing.T) {
	l := newLinter(t)
	says(t, l, class+"\n---\n"+postgres+"\n---\n"+strings.ReplaceAll(postgres, "listen: 5432", "listen: 5433"))
	if got := says(t, l, second); strings.Contains(got, "Duplicate") {
		t.Errorf("a port that is given up: %s", got)
	}
	l = newLinter(t)
	third := strings.NewReplacer("name: second", "name: third", "listen: 5432", "listen: 5433").Replace(second)
	says(t, l, lenient+"\n---\n"+postgres+"\n---\n"+strings.ReplaceAll(second, "listen: 5432", "listen: 5433")+"\n---\n"+second)
	if got := says(t, l, third); strings.Contains(got, "Duplicate") {
		t.Errorf("a port that is given up for one that is only warned of: %s", got)
	}
	l = newLinter(t)
	says(t, l, class+"\n---\n"+strings.ReplaceAll(postgres, "listen: 5432", "listen: 5433"))
	says(t, l, strings.ReplaceAll(postgres, "listen: 5432, ", ""))
	stored := l.objects.stored[l.definitions[manifests(t, l, postgres)[0].GroupVersionKind().GroupKind()].kind.GroupKind()]
	for key, obj := range stored {
		if spec := obj.(*v1beta1.StreamIngress); key.Name == "postgres" && (spec.Spec.Listen != nil || spec.Status.Listen != 5433) {
			t.Errorf("got %+v", spec)
		}
	}
}

func TestKinds(t *testing.T) {
	for name, row := range map[string]struct{ given, want string }{
		"another kind":    {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}", ""},
		"no kind of ours": {strings.ReplaceAll(postgres, "StreamIngress", "StreamIngres"), "NotFound kind: no matches"},
		"an unknown field": {"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80, prot: TCP}]}}",
			`UnknownField spec.ports[0].prot: unknown field`},
		"another type": {"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: x}]}}", "BadRequest"},
	} {
		if got := says(t, newLinter(t), row.given); !strings.HasPrefix(got, row.want) || row.want == "" && got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestHandOver has a stream of the manifests hand its port over to another one, and to nobody else.
func TestHandOver(t *testing.T) {
	const stream = `
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: NAME, annotations: {nginx-stream.jeffthecoder.xyz/hand-over-to: "TO"}}
spec: {listen: 5432, upstream: {service: db, port: 1}}
`
	named := func(name, to string) string {
		return "---" + strings.NewReplacer("NAME", name, "TO", to).Replace(stream)
	}
	for name, want := range map[string]bool{"heir": true, "other": false} {
		l := newLinter(t)
		got := says(t, l, strings.TrimSpace(class)+"\n"+named("giver", "default/heir")+named(name, ""))
		isHeld := strings.Contains(got, "held by StreamIngress default/giver")
		isFine := strings.HasPrefix(got, "warning: ") && !strings.Contains(got, "\n")
		if isFine != want || isHeld == want {
			t.Errorf("%s is told %q", name, got)
		}
	}
}
