package integration

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// tested is the block of a language that docs/operations.md gives behind the comment "tested: <name>".
func (w *fixture) tested(name, language string) string {
	w.t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		w.t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- tested: "+name+" -->\n```"+language)
	if !found {
		w.t.Fatalf("docs/operations.md has no %s for %s", language, name)
	}
	block, _, _ := strings.Cut(rest, "```")
	return block
}

// runbook runs the commands that docs/operations.md gives behind the comment "tested: <name>", as an operator would.
func (w *fixture) runbook(name string) {
	w.t.Helper()
	block := w.tested(name, "console")
	programs, err := assets()
	if err != nil {
		w.t.Fatal(err)
	}
	script := strings.ReplaceAll(block, "\n$ ", "\n")
	cmd := exec.CommandContext(w.t.Context(), "sh", "-ec", script)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+w.Kubeconfig(),
		"KUBECACHEDIR="+filepath.Join(w.Dir(), "kubectl-cache"))
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s\n%s", name, err, script, out)
	}
}

// TestRunbook does what the operations manual says: to let streams pass while no replica answers, to have refusals
// inline again, and to take out what is left after an uninstallation.
func TestRunbook(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: shortLease}))
	w.apply("config/samples")
	w.create(namespace("shop"), namespace("rival"))
	standing := sti("shop/standing", of("public"), tcp(5432))
	w.eventually("the class to be seen", func() error { return w.try(standing) })
	w.programmed(standing)
	web := balancer("shop/web")
	w.create(web)
	w.balances(web, "192.0.2.0 VIP TCP/80")

	t.Log("nobody answers")
	if err := w.Replicas[0].Kill(); err != nil {
		t.Fatal(err)
	}
	mine, theirs := sti("shop/mine", of("public"), tcp(5433)), sti("rival/theirs", of("public"), tcp(5433))
	if err := w.try(mine.DeepCopy()); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Fatalf("without a replica: %v", err)
	}
	w.runbook("break-glass")
	w.eventually("the API server to let streams pass", func() error { return w.try(mine) })
	w.create(theirs)

	t.Log("a replica is back")
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.eventually("one of the two to have the port", func() error {
		w.get(mine, theirs)
		verdicts := []string{condition(mine.Status.Conditions, v1beta1.ConditionAccepted), condition(theirs.Status.Conditions, v1beta1.ConditionAccepted)}
		slices.Sort(verdicts)
		return is(strings.Join(verdicts, ", "), "False PortConflict, True Accepted")
	})
	w.runbook("mend-glass")
	w.eventually("refusals inline", func() error {
		err := w.Client.Create(t.Context(), sti("shop/late", of("public"), tcp(5432)), client.DryRunAll)
		return is(err != nil && strings.Contains(err.Error(), "held by StreamIngress shop/standing"), true)
	})
	if err := w.Replicas[1].Kill(); err != nil {
		t.Fatal(err)
	}
	w.eventually("nothing to pass unjudged", func() error {
		err := w.Client.Create(t.Context(), sti("shop/late", of("public"), tcp(5999)), client.DryRunAll)
		return is(err != nil && strings.Contains(err.Error(), "failed calling webhook"), true)
	})

	t.Log("Portcullis is gone, and its entries and addresses are left")
	w.runbook("leftover-addresses")
	w.balances(web, "")
	tcpServices := configMap("ingress-nginx/tcp-services", nil)
	edit(w, tcpServices, func(cm *corev1.ConfigMap) { cm.Data["9000"] = manual })
	w.runbook("leftovers")
	proxy := service("ingress-nginx/ingress-nginx-controller")
	w.get(tcpServices, proxy)
	if keys := slices.Collect(maps.Keys(tcpServices.Data)); !slices.Equal(keys, []string{"9000"}) {
		t.Errorf("tcp-services has %v", tcpServices.Data)
	}
	if got := names(proxy); got != "http,https" {
		t.Errorf("the Service has the ports %s", got)
	}
	for _, object := range []metav1.Object{tcpServices, proxy} {
		if object.GetLabels()[v1beta1.LabelClass] != "" {
			t.Errorf("%s has the label of the class", object.GetName())
		}
	}
}
