// Package gitops tests what docs/recipes.md gives Argo CD and Flux, with the interpreters that they have.
package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

const root = "../.."

// example is the block of YAML in docs/recipes.md that has a name.
func example(t *testing.T, name string, into any) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- tested: "+name+" -->\n```yaml\n")
	text, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("docs/recipes.md has no example %s", name)
	}
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// reporting are the kinds that have conditions.
func reporting(t *testing.T) (kinds []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatal(err)
		}
		if _, has := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["conditions"]; has {
			kinds = append(kinds, crd.Spec.Names.Kind)
		}
	}
	if len(kinds) < 4 {
		t.Fatalf("only %v have conditions", kinds)
	}
	return kinds
}

// luaHealth is what Argo CD shows of an object by a script.
func luaHealth(t *testing.T, script string, object map[string]any) (health, message string) {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{ // those that it lets a script have, but for os
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	answer, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("it returns %v", state.Get(-1))
	}
	return answer.RawGetString("status").String(), answer.RawGetString("message").String()
}

// toLua is a value of JSON as Lua has it.
func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case int64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	default:
		return lua.LNil
	}
}

// said is a condition about a generation.
func said(kind string, is metav1.ConditionStatus, reason string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: is, Reason: reason, Message: "words", ObservedGeneration: generation}
}

const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

// states are what objects of generation 2 say of themselves, and what that is to be taken for.
var states = map[string]struct {
	kinds          []string // left out: those of routes
	conditions     []metav1.Condition
	argo           string
	flux           status.Status
	nothingWritten bool
}{
	"nothing yet": {kinds: all, nothingWritten: true, argo: "Progressing", flux: status.UnknownStatus},
	"about what was before": {
		kinds: all, conditions: []metav1.Condition{
			said(v1beta1.ConditionAccepted, yes, v1beta1.ReasonAccepted, 1), said(v1beta1.ConditionProgrammed, yes, v1beta1.ReasonProgrammed, 1),
		}, argo: "Progressing", flux: status.InProgressStatus,
	},
	"refused": {
		kinds: all, conditions: []metav1.Condition{
			said(v1beta1.ConditionAccepted, no, v1beta1.ReasonPortConflict, 2), said(v1beta1.ConditionProgrammed, no, v1beta1.ReasonNotAccepted, 2),
		}, argo: "Degraded", flux: status.FailedStatus,
	},
	"open": {conditions: []metav1.Condition{
		said(v1beta1.ConditionAccepted, yes, v1beta1.ReasonAccepted, 2), said(v1beta1.ConditionProgrammed, yes, v1beta1.ReasonProgrammed, 2),
	}, argo: "Healthy", flux: status.CurrentStatus},
	"accepted, and about to be opened": {conditions: []metav1.Condition{
		said(v1beta1.ConditionAccepted, yes, v1beta1.ReasonAccepted, 2), said(v1beta1.ConditionProgrammed, no, v1beta1.ReasonPending, 2),
	}, argo: "Progressing", flux: status.InProgressStatus},
	"accepted, and the proxy has no room": {conditions: []metav1.Condition{
		said(v1beta1.ConditionAccepted, yes, v1beta1.ReasonAccepted, 2), said(v1beta1.ConditionProgrammed, no, v1beta1.ReasonConfigMapFull, 2),
	}, argo: "Degraded", flux: status.InProgressStatus},
	"accepted, and its upstream is missing": {kinds: streams, conditions: []metav1.Condition{
		said(v1beta1.ConditionAccepted, yes, v1beta1.ReasonAccepted, 2), said(v1beta1.ConditionResolvedRefs, no, v1beta1.ReasonBackendNotFound, 2),
		said(v1beta1.ConditionProgrammed, no, v1beta1.ReasonUnresolvedRefs, 2),
	}, argo: "Progressing", flux: status.InProgressStatus},
	"handed over": {kinds: streams, conditions: []metav1.Condition{
		said(v1beta1.ConditionAccepted, no, v1beta1.ReasonHandedOver, 2), said(v1beta1.ConditionProgrammed, no, v1beta1.ReasonNotAccepted, 2),
		said(v1beta1.ConditionHandedOver, yes, v1beta1.ReasonHandedOver, 2),
	}, argo: "Suspended", flux: status.CurrentStatus},
	"accepted, of a kind that opens nothing": {kinds: []string{"AddressPool", "HostPolicy"}, conditions: []metav1.Condition{
		said(v1beta1.ConditionAccepted, yes, v1beta1.ReasonAccepted, 2),
	}, argo: "Healthy", flux: status.CurrentStatus},
}

var (
	streams = []string{"StreamIngress"}
	opening = []string{"StreamIngress", "StreamIngressClass"}
	all     = []string{"StreamIngress", "StreamIngressClass", "AddressPool", "HostPolicy"}
)

// object is one of generation 2 with conditions.
func object(t *testing.T, kind string, conditions []metav1.Condition, nothing bool) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": "one", "namespace": "shop", "generation": int64(2)}, "spec": map[string]any{},
	}}
	if nothing {
		return u
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1beta1.HostPolicyStatus{Conditions: conditions})
	if err != nil {
		t.Fatal(err)
	}
	if kind != "HostPolicy" {
		content["observedGeneration"] = conditions[0].ObservedGeneration
	}
	u.Object["status"] = content
	return u
}

// eachState calls check for each object in each state.
func eachState(t *testing.T, check func(t *testing.T, u *unstructured.Unstructured, argo string, flux status.Status)) {
	t.Helper()
	for name, s := range states {
		kinds := s.kinds
		if kinds == nil {
			kinds = opening
		}
		for _, kind := range kinds {
			t.Run(kind+" "+name, func(t *testing.T) { check(t, object(t, kind, s.conditions, s.nothingWritten), s.argo, s.flux) })
		}
	}
}

// TestArgoHealth runs the scripts for Argo CD over what our kinds say.
func TestArgoHealth(t *testing.T) {
	var cm corev1.ConfigMap
	example(t, "argocd-health", &cm)
	for _, kind := range reporting(t) {
		if cm.Data[scriptKey(kind)] == "" {
			t.Errorf("there is no script for %s", kind)
		}
	}
	eachState(t, func(t *testing.T, u *unstructured.Unstructured, want string, _ status.Status) {
		got, message := luaHealth(t, cm.Data[scriptKey(u.GetKind())], u.Object)
		if got != want || message == "" || message == "nil" {
			t.Errorf("%s: %q, want %s", got, message, want)
		}
	})
}

func scriptKey(kind string) string {
	return fmt.Sprintf("resource.customizations.health.%s_%s", v1beta1.GroupName, kind)
}

// TestFluxHealth evaluates the expressions for Flux over what our kinds say.
func TestFluxHealth(t *testing.T) {
	var kustomization struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
			// What the test does not look at.
			DependsOn any    `json:"dependsOn"`
			Interval  string `json:"interval"`
			Path      string `json:"path"`
			Prune     bool   `json:"prune"`
			Wait      bool   `json:"wait"`
			SourceRef any    `json:"sourceRef"`
		} `json:"spec"`
	}
	example(t, "flux-health", &kustomization)
	of := map[string]*cel.StatusEvaluator{}
	for _, check := range kustomization.Spec.HealthCheckExprs {
		evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
		if err != nil || check.APIVersion != v1beta1.GroupVersion.String() {
			t.Fatalf("%s %s: %v", check.APIVersion, check.Kind, err)
		}
		of[check.Kind] = evaluator
	}
	for _, kind := range reporting(t) {
		if of[kind] == nil {
			t.Errorf("there are no expressions for %s", kind)
		}
	}
	eachState(t, func(t *testing.T, u *unstructured.Unstructured, _ string, want status.Status) {
		result, err := of[u.GetKind()].Evaluate(t.Context(), u)
		switch {
		case want == status.UnknownStatus: // an error, after which Flux waits
			if err == nil {
				t.Errorf("%s without a status", result.Status)
			}
		case err != nil:
			t.Error(err)
		case result.Status != want:
			t.Errorf("%s, want %s", result.Status, want)
		}
	})
}

// TestFluxNeedsExpressions shows why: left alone, Flux takes what was refused for done, as we have no condition Ready.
func TestFluxNeedsExpressions(t *testing.T) {
	for _, kind := range reporting(t) {
		if !slices.Contains(all, kind) {
			t.Errorf("%s is in no state", kind)
		}
		result, err := status.Compute(object(t, kind, states["refused"].conditions, false))
		if err != nil || result.Status != status.CurrentStatus {
			t.Errorf("%s: %v: %v; if it is no longer taken for done, leave the expressions out", kind, result, err)
		}
	}
}
