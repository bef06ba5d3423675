package integration

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// conformanceSuite is the module of the Gateway API's own tests of its implementations.
const conformanceSuite = "sigs.k8s.io/gateway-api/conformance"

// conflictsOfSuite are the objects of the suite that are refused, by file, and why: the suite has them in conflict on purpose, to see that
// an implementation serves one of two. The third ListenerSet of the first file is not among them: it conflicts with the first one only,
// which is not there.
var conflictsOfSuite = map[string]map[string]string{
	"listenerset-hostname-conflict.yaml": {
		inInfra + "listenerset-with-hostname-conflict-with-gateway-1":      "one of its host names is the Gateway's",
		inInfra + "listenerset-with-hostname-conflict-with-gateway-2":      "its host name is the Gateway's",
		inInfra + "listenerset-with-hostname-conflict-with-listener-set-2": "its host name is the ListenerSet's before it",
	},
	"listenerset-protocol-conflict.yaml": {
		inInfra + "listenerset-with-protocol-conflict-with-gateway-1":      "it wants all of a port that it and the Gateway share by host name",
		inInfra + "listenerset-with-protocol-conflict-with-gateway-2":      "it wants all of a port that the Gateway shares by host name",
		inInfra + "listenerset-with-protocol-conflict-with-listener-set-1": "it wants all of a port that it and the Gateway share by host name",
		inInfra + "listenerset-with-protocol-conflict-with-listener-set-2": "it wants all of a port that the Gateway shares by host name",
	},
}

// inInfra is how objects of the suite begin that are in conflict.
const inInfra = "ListenerSet gateway-conformance-infra/"

// TestConformanceManifestsPass has everything that the conformance tests of the Gateway API store come in, as far as they do not store
// conflicts: who runs them in a cluster where all is guarded gets the answers of the implementation. The suite has two namespaces be for one
// name, so that it needs names that namespaces share.
func TestConformanceManifestsPass(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	dir, err := harness.PinnedDir(t.Context(), "tools/conformance", conformanceSuite)
	must(w, err)
	w.create(hostPolicy("all", []string{"*.com", "*.net", "*.org", "*.io", "*.local", "*.example"}))
	s := &suite{fixture: w}
	base := s.store("base", filepath.Join(dir, "base", "manifests.yaml"))
	files, err := filepath.Glob(filepath.Join(dir, "tests", "*.yaml"))
	must(w, err)
	if len(files) == 0 {
		t.Fatalf("there are no tests in %s", dir)
	}
	for _, path := range files {
		file := filepath.Base(path)
		got := s.store(file, path)
		got.refuses(t, file, conflictsOfSuite[file])
		s.drop(got)
	}
	base.refuses(t, "base", nil)
	for file := range conflictsOfSuite {
		if !slices.Contains(files, filepath.Join(dir, "tests", file)) {
			t.Errorf("%s is no file of the suite any longer", file)
		}
	}
	for kind, asked := range s.asked {
		var decided float64
		for _, r := range w.Replicas {
			decided += decisions(w, r, kind)
		}
		t.Logf("%d objects of kind %s were stored, or refused, and there are %v decisions", asked, kind, decided)
		if asked == 0 || decided < float64(asked) {
			t.Errorf("%d objects of kind %s came, and there are %v decisions: they were let in unasked", asked, kind, decided)
		}
	}
}

// suite stores the objects of the conformance tests.
type suite struct {
	*fixture
	// asked is how many objects of the guarded kinds were stored or refused.
	asked map[string]int
}

// storedFile is what came of the objects of a file.
type storedFile struct {
	stored  []client.Object
	refused map[string]error
}

// refuses checks that no others are refused than are in conflict, and all of these.
func (f storedFile) refuses(t *testing.T, file string, conflicts map[string]string) {
	t.Helper()
	for _, object := range slices.Sorted(maps.Keys(f.refused)) {
		if conflicts[object] == "" {
			t.Errorf("%s: %s is refused: %v", file, object, f.refused[object])
		}
	}
	for _, object := range slices.Sorted(maps.Keys(conflicts)) {
		if f.refused[object] == nil {
			t.Errorf("%s: %s is not refused, although %s", file, object, conflicts[object])
		}
	}
}

// store creates the objects of a file, one after another, as the suite does. Those of kinds that are not installed are left out.
func (s *suite) store(file, path string) storedFile {
	s.t.Helper()
	objects, err := controlplane.ReadFile(path)
	must(s.fixture, err)
	if s.asked == nil {
		s.asked = map[string]int{"Gateway": 0, "ListenerSet": 0, "HTTPRoute": 0, "GRPCRoute": 0, "TLSRoute": 0, "TCPRoute": 0}
	}
	got := storedFile{refused: map[string]error{}}
	for _, object := range objects {
		fill(object.Object)
		err := s.Client.Create(s.t.Context(), object)
		name := object.GetKind() + " " + client.ObjectKeyFromObject(object).String()
		_, guarded := s.asked[object.GetKind()]
		if guarded && (err == nil || isRefusal(err)) {
			s.asked[object.GetKind()]++
		}
		switch {
		case err == nil:
			got.stored = append(got.stored, object)
		case meta.IsNoMatchError(err):
		case object.GetKind() == "Namespace" && apierrors.IsAlreadyExists(err):
		case isRefusal(err):
			got.refused[name] = err
		default:
			s.t.Errorf("%s: %s is not stored: %v", file, name, err)
		}
	}
	return got
}

// isRefusal says whether a webhook said no.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "admission webhook")
}

var placeholders = strings.NewReplacer(
	"{GATEWAY_CLASS_NAME}", "conformance", "{GATEWAY_CONTROLLER_NAME}", "test.example.com/gateways",
	"PLACEHOLDER_UNUSABLE_ADDRS", "192.0.2.1", "PLACEHOLDER_USABLE_ADDRS", "198.51.100.1",
)

// fill replaces the placeholders of the suite.
func fill(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = fill(v[key])
		}
	case []any:
		for i := range v {
			v[i] = fill(v[i])
		}
	case string:
		return placeholders.Replace(v)
	}
	return value
}

// drop deletes what a file has stored, and waits until nothing is claimed for it. That a port is shared by host name stays in the ledger
// for the grace, and keeps nobody out. Namespaces stay: nobody here empties them.
func (s *suite) drop(f storedFile) {
	s.t.Helper()
	gone := map[string]bool{}
	for _, object := range slices.Backward(f.stored) {
		if kind := object.(*unstructured.Unstructured).GetKind(); kind != "Namespace" {
			s.delete(object)
			gone[fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(object))] = true
		}
	}
	s.eventually("the claims to be released", func() error {
		var claims v1beta1.EdgeClaimList
		if err := s.Client.List(s.t.Context(), &claims); err != nil {
			return err
		}
		for i := range claims.Items {
			at, err := claim.Of(&claims.Items[i])
			if err != nil {
				return err
			}
			if by := claims.Items[i].Spec.HeldBy; at.IsListener() && !at.IsHosts() && gone[by] {
				return fmt.Errorf("%s is held by %s, who is gone", at, by)
			}
		}
		return nil
	})
}
