package integration

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// TestNetworkPolicy holds that config/networkpolicy is about the replicas and their ports, as it comes and as the manual has
// it filled in, and that an API server takes it. No network here would enforce it.
func TestNetworkPolicy(t *testing.T) {
	w := shared(t)
	for name, more := range map[string]string{"as it comes": "", "filled in": w.tested("network-policy", "yaml")} {
		t.Run(name, func(t *testing.T) {
			objects, err := controlplane.RenderText(t.Context(), t.TempDir(),
				"resources: [%s/overlays/standalone]\ncomponents: [%s/networkpolicy]\n"+more)
			if err != nil {
				t.Fatal(err)
			}
			policy, deployment := &networkingv1.NetworkPolicy{}, &appsv1.Deployment{}
			for _, object := range objects {
				switch object.GetKind() {
				case "NetworkPolicy":
					err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, policy, true)
				case "Deployment":
					err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, deployment, true)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			pods := deployment.Spec.Template
			if err != nil || selector.Empty() || policy.Namespace != deployment.Namespace || !selector.Matches(labels.Set(pods.Labels)) {
				t.Errorf("it selects %s in %s, and the pods in %s have %v: %v", selector, policy.Namespace, deployment.Namespace, pods.Labels, err)
			}
			if slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
				t.Error("it keeps the replicas from the API server")
			}
			// The kubelet, which alone asks port health, is let in whatever the policy says.
			ports := map[string]int32{}
			for _, p := range pods.Spec.Containers[0].Ports {
				if p.Name != "health" {
					ports[p.Name] = p.ContainerPort
				}
			}
			got := map[string]int32{"webhook": onlyPort(t, policy, 0), "metrics": onlyPort(t, policy, 1)}
			if len(policy.Spec.Ingress) != 2 || len(ports) != 2 || got["webhook"] != ports["webhook"] || got["metrics"] != ports["metrics"] {
				t.Errorf("it lets in to %v, and the containers have %v", got, ports)
			}
			must(w, w.Client.Create(t.Context(), policy, client.DryRunAll))
		})
	}
}

// onlyPort is the one port of a rule, which lets in somebody in particular.
func onlyPort(t *testing.T, policy *networkingv1.NetworkPolicy, rule int) int32 {
	t.Helper()
	r := policy.Spec.Ingress[rule]
	if len(r.From) == 0 || len(r.Ports) != 1 || r.Ports[0].Protocol == nil || *r.Ports[0].Protocol != corev1.ProtocolTCP || r.Ports[0].Port == nil {
		t.Fatalf("rule %d is %+v", rule, r)
	}
	return r.Ports[0].Port.IntVal
}
