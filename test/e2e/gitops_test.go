package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// fromGit is what Git has of an edge's proxy, at some commit: nothing of what Portcullis writes there.
func fromGit(commit string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: proxy, labels: {commit: %[1]s}}
spec: {selector: {app: proxy}, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: tcp-services, labels: {commit: %[1]s}}
data: {"9": "manual/discard:9"}
`, commit)
}

// applied is what the API server answers to an apply: the object as just that write has left it.
type applied struct {
	Items []struct {
		Kind     string
		Metadata struct{ Labels map[string]string }
		Data     map[string]string
		Spec     struct{ Ports []struct{ Port int } }
	}
}

// TestProxyFromGit applies the proxy's Service and its ConfigMap as Flux and Argo CD do, while they have an entry and a port of Portcullis':
// no such write takes them away.
func TestProxyFromGit(t *testing.T) {
	t.Cleanup(bePatient(t))
	e := newEdge(t, "git")
	apply(t, e.namespace, asking("web", e.class, 5432))
	entry := e.namespace + "/web:80"
	e.leadsTo(t, map[int]string{5432: entry})
	for commit, how := range [][]string{
		{}, // Argo CD, after newEdge has applied it the same way
		{"--server-side", "--force-conflicts", "--field-manager=argocd-controller"},
		{"--server-side", "--force-conflicts", "--field-manager=kustomize-controller"},
	} {
		t.Run(strings.Join(append([]string{"apply"}, how...), " "), func(t *testing.T) {
			out, err := tryKubectl(fromGit(fmt.Sprintf("c%d", commit)), append([]string{"apply", "-n", e.namespace, "-o", "json", "-f", "-"}, how...)...)
			if err != nil {
				t.Fatal(err)
			}
			var written applied
			if err := json.Unmarshal([]byte(out), &written); err != nil {
				t.Fatal(err)
			}
			if len(written.Items) != 2 {
				t.Fatalf("%d objects are applied", len(written.Items))
			}
			for _, object := range written.Items {
				if object.Metadata.Labels["commit"] != fmt.Sprintf("c%d", commit) {
					t.Errorf("the %s is not of this commit: %v", object.Kind, object.Metadata.Labels)
				}
				if object.Kind == "ConfigMap" && object.Data["5432"] != entry {
					t.Errorf("the entry is gone: %v", object.Data)
				}
				if object.Kind == "Service" && len(object.Spec.Ports) != 2 {
					t.Errorf("the port is gone: %v", object.Spec.Ports)
				}
			}
			e.leadsTo(t, map[int]string{5432: entry})
		})
	}
}

// TestStreamRenamedInGit renames a stream as docs/recipes.md has it: in one step the new one is refused, by a dry run already, and in two the
// port is handed over.
func TestStreamRenamedInGit(t *testing.T) {
	t.Cleanup(bePatient(t))
	e := newEdge(t, "renamed")
	apply(t, e.namespace, asking("old", e.class, 5432))
	entries := map[int]string{5432: e.namespace + "/web:80"}
	e.leadsTo(t, entries)
	commit := func(manifests string, more ...string) error {
		_, err := tryKubectl(manifests, append([]string{"apply", "--server-side", "--field-manager=kustomize-controller", "-n", e.namespace, "-f", "-"},
			more...)...)
		return err
	}
	eventually(t, "the new stream to be refused", func() error { // a replica may learn a moment later that the old one is stored
		err := commit(asking("new", e.class, 5432), "--dry-run=server")
		if err == nil {
			t.Fatal("in one commit it is let in")
		}
		if !strings.Contains(err.Error(), "held by") {
			return err
		}
		return nil
	})
	giving := strings.Replace(asking("old", e.class, 5432), "metadata: {name: old",
		fmt.Sprintf("metadata: {annotations: {nginx-stream.jeffthecoder.xyz/hand-over-to: %s/new}, name: old", e.namespace), 1)
	if err := commit(giving, "--force-conflicts"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new stream to be let in", func() error { return commit(asking("new", e.class, 5432)) })
	kubectl(t, "wait", "--for=condition=HandedOver", "streamingress/old", "-n", e.namespace, "--timeout="+patience.String())
	kubectl(t, "wait", "--for=condition=Programmed", "streamingress/new", "-n", e.namespace, "--timeout="+patience.String())
	e.leadsTo(t, entries)
	kubectl(t, "delete", "streamingress", "old", "-n", e.namespace)
	e.leadsTo(t, entries)
}
