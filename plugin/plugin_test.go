package plugin

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestExitStatus(t *testing.T) {
	down := &fake{refuses: func(string, string) error { return errors.New("connection refused") }}
	closed := &fake{refuses: func(plural, _ string) error { return forbid(plural) }}
	useless := &fake{refuses: func(plural, _ string) error {
		if plural == "gateways" {
			return missing(plural)
		}
		if plural == "namespaces" || plural == "endpointslices" || plural == "nodes" {
			return nil
		}
		return forbid(plural)
	}}
	lost := &url.Error{Op: "Get", URL: "https://192.0.2.1", Err: errors.New("connection lost")}
	failing := func(plural string, err error) *fake {
		c := twice()
		c.refuses = func(asked, _ string) error {
			if asked == plural || plural == "all" {
				return err
			}
			return nil
		}
		return c
	}
	webhook, down503 := apierrors.NewInternalError(errors.New("conversion webhook failed")), apierrors.NewServiceUnavailable("down")
	naming := &corev1.Service{ObjectMeta: named("team", "s"), Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.9"}}}
	noted := &fake{objects: map[string][]runtime.Object{"services": {naming}}}
	for name, row := range map[string]struct {
		in   cluster
		args string
		want int
		says string
	}{
		"nothing found":             {&fake{}, "audit", ExitFine, "no findings"},
		"something found":           {twice(), "audit", ExitFindings, "1 finding: 1 error"},
		"a note":                    {noted, "audit", ExitFine, "1 finding: 1 note"},
		"no connection":             {down, "audit", ExitUnread, "connection refused"},
		"a kind that fails":         {failing("httproutes", webhook), "who shop.example.com", ExitFine, "could not read httproutes: Internal error"},
		"a kind that is converted":  {failing("hostpolicies", webhook), "audit", ExitFindings, "could not read hostpolicies: Internal error"},
		"ConfigMaps that fail":      {failing("configmaps", down503), "audit", ExitFindings, "configmaps named udp-services: down"},
		"all that fails":            {failing("all", down503), "audit", ExitUnread, "reading namespaces: down"},
		"a connection that is lost": {failing("hostpolicies", lost), "audit", ExitUnread, "connection lost"},
		"nobody that is known":      {failing("gateways", apierrors.NewUnauthorized("who are you?")), "audit", ExitUnread, "who are you?"},
		"no rights":                 {closed, "audit", ExitUnread, "nothing could be read"},
		"rights that are of no use": {useless, "audit", ExitUnread, "nothing could be read"},
		"no rights for doors":       {closed, "doors", ExitUnread, "nothing could be read"},
		"doors":                     {twice(), "doors", ExitFine, ""},
		"no doors":                  {&fake{}, "doors -A", ExitFine, "no open doors in any namespace"},
		"who":                       {twice(), "who shop.example.com", ExitFine, ""},
		"no point":                  {twice(), "who a..b", ExitUnread, "is no point"},
		"an unknown flag":           {twice(), "audit --no-such-flag", ExitUnread, "unknown flag"},
		"an unknown format":         {twice(), "audit -o xml", ExitUnread, "want one of table, wide, json, yaml"},
		"an unknown range":          {twice(), "audit --node-port-range 9-1", ExitUnread, "want two ports, such as 30000-32767"},
		"a file that can't be made": {twice(), "audit --junit /no/such/dir/file", ExitUnread, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, row.in, append([]string{"kubectl-portcullis"}, strings.Fields(row.args)...)...)
			if got.status != row.want || !strings.Contains(got.err, row.says) {
				t.Errorf("got %d, and %q on standard error", got.status, got.err)
			}
		})
	}
}

// TestExamples runs the examples of every command's help.
func TestExamples(t *testing.T) {
	examples := Examples()
	for _, name := range []string{"audit", "doors", "lint", "move", "who"} {
		if !slices.ContainsFunc(examples, func(line string) bool { return strings.HasPrefix(line, "kubectl portcullis "+name) }) {
			t.Errorf("%s has no example", name)
		}
	}
	files(t, map[string]string{
		"manifests/web.yaml": webService, "overlays/production/web.yaml": webService,
		"overlays/production/kustomization.yaml": "resources: [web.yaml]\n",
	})
	for _, line := range examples {
		words := strings.Fields(line)
		var c cluster = twice()
		if words[2] == "move" {
			c = fleet(streamOf(words[4], "postgres"))
		}
		if got := run(t, c, append([]string{"kubectl-portcullis"}, words[2:]...)...); got.status == ExitUnread {
			t.Errorf("%s: %s", line, got.err)
		}
	}
	for _, file := range []string{"audit.xml", "audit.sarif", "lint.xml", "lint.sarif"} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}

func TestCompletion(t *testing.T) {
	c := &fake{objects: map[string][]runtime.Object{"namespaces": {
		&corev1.Namespace{ObjectMeta: named("", "shop")}, &corev1.Namespace{ObjectMeta: named("", "blog")},
	}}}
	complete := filepath.Join(t.TempDir(), completer)
	for args, want := range map[string][]string{
		"": {"audit", "doors", "lint", "who"}, "audit -o ": {"table", "json"}, "doors -n ": {"shop", "blog"}, "doors -n s": {"shop"},
	} {
		words := append([]string{complete}, strings.Split(args, " ")...)
		got := run(t, c, words...)
		lines := strings.Split(got.out, "\n")
		for _, word := range want {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, word) }) {
				t.Errorf("%q: %s is missing in %q", args, word, got.out)
			}
		}
	}
	if got := run(t, c, complete, "doors", "-n", "s"); strings.Contains(got.out, "blog") {
		t.Errorf("got %q", got.out)
	}
}
