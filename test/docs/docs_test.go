package docs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

var (
	reasonConstant = regexp.MustCompile(`\bReason\w+ += "(\w+)"`)
	alertName      = regexp.MustCompile(`- alert: (\w+)`)
	flagName       = regexp.MustCompile(`flags\.\w*Var\([^"]+"([a-z-]+)"`)
	roleComment    = regexp.MustCompile(`<!-- role: (\S+) -->`)
	link           = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading        = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchors   = regexp.MustCompile(`[^a-z0-9 _-]`)
	webhookName    = regexp.MustCompile(`"name": "([^"]+)"`)
	testName       = regexp.MustCompile(`(?m)^func (Test\w+)\(t`)
	makeTarget     = regexp.MustCompile("(?m)(?:^\\$ |&& |`)make ([a-z][a-z0-9-]*)")
)

func set(matches [][]string) map[string]bool {
	names := map[string]bool{}
	for _, m := range matches {
		names[m[1]] = true
	}
	return names
}

// reasons are the reasons of conditions and events that the API has.
func reasons(t *testing.T) map[string]bool {
	t.Helper()
	return set(reasonConstant.FindAllStringSubmatch(source(t, "api"), -1))
}

func TestEveryReasonIsExplained(t *testing.T) {
	explained := map[string]bool{}
	for _, row := range tables(t, section(t, read(t, "docs/troubleshooting.md"), "## By reason")) {
		for _, reason := range spans(row[0]) {
			explained[reason] = true
		}
	}
	compare(t, "docs/troubleshooting.md, By reason,", explained, reasons(t))
}

// TestRefusalsAreQuoted holds that the words of refusals in the table are those that Portcullis says.
func TestRefusalsAreQuoted(t *testing.T) {
	said := source(t, "internal", "webhooks", "reconcilers")
	known := reasons(t)
	rows := table(t, section(t, read(t, "docs/troubleshooting.md"), "<!-- refusals -->"))
	for _, row := range rows {
		if len(spans(row[0])) == 0 {
			t.Errorf("no words in %q", row[0])
		}
		for _, words := range spans(row[0]) {
			if !strings.Contains(said, words) {
				t.Errorf("nobody says %q", words)
			}
		}
		for _, reason := range spans(row[1]) {
			if !known[reason] {
				t.Errorf("%q is no reason", reason)
			}
		}
	}
}

// TestThreatsAreTested holds that there is a test of each name that the threat model gives, and one for each threat.
func TestThreatsAreTested(t *testing.T) {
	there := set(testName.FindAllStringSubmatch(code(t, true, "cmd", "internal", "plugin", "reconcilers", "test", "webhooks"), -1))
	for _, row := range tables(t, section(t, read(t, "docs/security.md"), "## Threat model")) {
		named := spans(row[len(row)-1])
		if len(named) == 0 {
			t.Errorf("no test holds %q", row[0])
		}
		for _, name := range named {
			if !there[name] {
				t.Errorf("there is no %s", name)
			}
		}
	}
}

func TestEveryFlagIsDescribed(t *testing.T) {
	described := map[string]bool{}
	for _, row := range table(t, section(t, read(t, "docs/operations.md"), "## Tuning")) {
		for _, name := range spans(row[0]) {
			if name = strings.TrimPrefix(name, "--"); !strings.HasPrefix(name, "zap-") && name != "kubeconfig" { // those of libraries
				described[name] = true
			}
		}
	}
	compare(t, "docs/operations.md, Tuning,", described, set(flagName.FindAllStringSubmatch(source(t, "cmd", "internal/kube"), -1)))
}

func TestEveryAlertIsDescribed(t *testing.T) {
	described := map[string]bool{}
	for _, row := range table(t, section(t, read(t, "docs/operations.md"), "## Alerts")) {
		described[spans(row[0])[0]] = true
	}
	compare(t, "docs/operations.md, Alerts,", described, set(alertName.FindAllStringSubmatch(read(t, "config/prometheus/rules.yaml"), -1)))
}

// TestEveryPermissionIsExplained holds that the tables have what the roles have.
func TestEveryPermissionIsExplained(t *testing.T) {
	text := read(t, "docs/security.md")
	files := roleComment.FindAllStringSubmatch(text, -1)
	if len(files) != 6 {
		t.Errorf("there are tables of %d files with roles", len(files))
	}
	for _, file := range files {
		explained := map[string]string{}
		for _, row := range table(t, section(t, text, "<!-- role: "+file[1]+" -->")) {
			explained[spans(row[0])[0]] = row[1]
			if row[2] == "" {
				t.Errorf("%s is not explained", row[0])
			}
		}
		granted := permissions(t, file[1])
		for resource, verbs := range granted {
			if explained[resource] != verbs {
				t.Errorf("docs/security.md should have the row | `%s` | %s | ... |, as %s does", resource, verbs, file[1])
			}
		}
		for resource := range explained {
			if granted[resource] == "" {
				t.Errorf("docs/security.md explains %s, of which %s says nothing", resource, file[1])
			}
		}
	}
}

// TestEveryRoleOfUsersIsDescribed holds that the table of roles has those that are for users, and says whose part they are.
func TestEveryRoleOfUsersIsDescribed(t *testing.T) {
	described, there := map[string]bool{}, map[string]bool{}
	for _, row := range table(t, section(t, read(t, "docs/security.md"), "## What users may do")) {
		described[strings.Join(row[:2], " ")] = true
	}
	for _, file := range []string{"user_roles.yaml", "podtoip_viewer.yaml"} {
		objects, err := controlplane.ReadFile(filepath.Join(root(t), "config", "rbac", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			part := "nothing"
			switch labels := object.GetLabels(); {
			case labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true":
				part = "`view`, `edit`, `admin`"
			case labels["rbac.authorization.k8s.io/aggregate-to-edit"] == "true":
				part = "`edit`, `admin`"
			}
			there["`"+object.GetName()+"` "+part] = true
		}
	}
	compare(t, "docs/security.md, What users may do,", described, there)
}

// permissions are the verbs that the roles in a file allow, by resource.
func permissions(t *testing.T, file string) map[string]string {
	t.Helper()
	objects, err := controlplane.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string]map[string]bool{}
	add := func(resource string, rule rbacv1.PolicyRule) {
		if verbs[resource] == nil {
			verbs[resource] = map[string]bool{}
		}
		for _, verb := range rule.Verbs {
			verbs[resource][verb] = true
		}
	}
	for _, object := range objects {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, url := range rule.NonResourceURLs {
				add(url, rule)
			}
			for _, resource := range rule.Resources {
				add(strings.TrimSuffix(resource+"."+rule.APIGroups[0], "."), rule)
			}
		}
	}
	texts := map[string]string{}
	for resource, allowed := range verbs {
		texts[resource] = strings.Join(slices.Sorted(maps.Keys(allowed)), ", ")
	}
	return texts
}

// TestBreakGlassOpensEveryDoor holds that the commands for when admission is down name every webhook that keeps requests
// waiting, and no other.
func TestBreakGlassOpensEveryDoor(t *testing.T) {
	objects, err := controlplane.ReadFile(filepath.Join(root(t), "config", "webhook", "manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	closed := map[string]bool{}
	if err := controlplane.EachWebhook(objects, func(webhook map[string]any) error {
		if webhook["failurePolicy"] == "Fail" {
			closed[webhook["name"].(string)] = true
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"break-glass", "mend-glass"} {
		_, rest, _ := strings.Cut(read(t, "docs/operations.md"), "<!-- tested: "+name+" -->")
		block, _, _ := strings.Cut(strings.TrimPrefix(rest, "\n```console"), "```")
		compare(t, "docs/operations.md, "+name+",", set(webhookName.FindAllStringSubmatch(block, -1)), closed)
	}
}

// TestOwnKustomization builds the kustomization that the manual proposes.
func TestOwnKustomization(t *testing.T) {
	_, rest, found := strings.Cut(section(t, read(t, "docs/operations.md"), "## Install"), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	dir := t.TempDir()
	up, err := filepath.Rel(dir, root(t))
	if err != nil || !found {
		t.Fatalf("an example: %t: %v", found, err)
	}
	example = strings.ReplaceAll(example, "../portcullis/", up+"/")
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	down, err := filepath.Rel(root(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := controlplane.Render(t.Context(), down)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, object := range objects {
		kinds[object.GetKind()] = true
		if object.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
			t.Fatal(err)
		}
		c := d.Spec.Template.Spec.Containers[0]
		got := fmt.Sprint(*d.Spec.Replicas, " ", c.Image, " ", strings.Join(c.Args, " "))
		if want := "3 registry.example.com/portcullis:v1 --cert-dir=/certs --default-load-balancer"; got != want {
			t.Errorf("it runs %s, want %s", got, want)
		}
	}
	if !kinds["Deployment"] || !kinds["ServiceMonitor"] {
		t.Errorf("it has the kinds %v", kinds)
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root(t), path)); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if anchor != "" && !anchors(read(t, path))[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, path, anchor)
			}
		}
	}
}

// anchors are those of the headings of a page.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		found[strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

func TestMakeKnowsWhatIsTold(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, page := range pages {
		for _, found := range makeTarget.FindAllStringSubmatch(read(t, page), -1) {
			if !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s: make has no target %s", page, found[1])
			}
		}
	}
}

// TestTheTablesAreRead makes sure that none of the tests above is content with nothing.
func TestTheTablesAreRead(t *testing.T) {
	for what, n := range map[string]int{
		"reasons": len(reasons(t)), "flags": len(set(flagName.FindAllStringSubmatch(source(t, "cmd", "internal/kube"), -1))),
		"permissions": len(permissions(t, "config/rbac/role.yaml")),
	} {
		if n < 10 {
			t.Errorf("only %d %s", n, what)
		}
	}
}

// TestGuardComponent holds that the component config/guard is whole on either overlay, in whatever order: the API server is told of an
// authority by cert-manager, or by Portcullis, which may do so, and the flag of the manual's kustomization is the one that counts.
func TestGuardComponent(t *testing.T) {
	_, rest, found := strings.Cut(read(t, "docs/guard.md"), "<!-- tested: guard -->\n```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/guard.md has no example")
	}
	example = strings.ReplaceAll(example, "../portcullis/config/", "%s/")
	for _, overlay := range []string{"default", "standalone"} {
		objects, err := controlplane.RenderText(t.Context(), t.TempDir(), "resources: [%s/overlays/"+overlay+"]\n"+example)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, object := range objects {
			found[object.GetKind()+" "+object.GetName()] = true
			authority := object.GetAnnotations()["cert-manager.io/inject-ca-from"]
			if object.GetName() == "portcullis-guard" && object.GetKind() == "ValidatingWebhookConfiguration" &&
				authority != "portcullis-system/portcullis-webhook" {
				t.Errorf("%s: cert-manager is told of %q", overlay, authority)
			}
			if object.GetKind() != "Deployment" {
				continue
			}
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
				t.Fatal(err)
			}
			args := d.Spec.Template.Spec.Containers[0].Args
			if got := args[len(args)-2:]; !slices.Equal(got, []string{"--guard=all=Deny", "--guard=all=Warn"}) {
				t.Errorf("%s: it runs with %v at the end", overlay, got)
			}
		}
		for _, name := range []string{"ValidatingWebhookConfiguration", "ClusterRole", "ClusterRoleBinding"} {
			if !found[name+" portcullis-guard"] {
				t.Errorf("%s: there is no %s of the guard", overlay, name)
			}
		}
	}
}
