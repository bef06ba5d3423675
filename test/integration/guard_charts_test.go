package integration

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestChartsAreAdmitted has what popular charts make come in where each name is one namespace's: as it is created, and as it is applied
// again and changed.
func TestChartsAreAdmitted(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"), hostPolicy("charts", []string{"*.charts.test"}, ownsNames))
	w.policiesCount("the policy", unreadable("infra/early"))
	w.openGateway("infra/edge")
	w.admitCharts()
	var claims v1beta1.EdgeClaimList
	w.eventually("each name to be held, and once", func() error {
		var held []string
		must(w, w.Client.List(t.Context(), &claims, client.MatchingFields{"spec.scope": claim.HostnameScope}))
		for i := range claims.Items {
			held = append(held, claims.Items[i].Spec.Point+" by "+claims.Items[i].Spec.HeldBy)
		}
		if len(held) != 18 {
			return fmt.Errorf("%d names are held: %v", len(held), held)
		}
		return nil
	})
	for _, host := range []string{"shop.charts.test", "store.charts.test", "api.saas.charts.test", "x.saas.charts.test", "mqtt.internal.charts.test", "grpc.argocd.charts.test"} {
		w.refusedFor(w.toCreate(ingressOn("errors/thief", "/login", host)), "spec.rules[0].host", "held by Namespace ")
	}
	must(w, w.Client.List(t.Context(), &claims, client.MatchingFields{"spec.heldBy": "Namespace shop", "spec.point": "shop.charts.test"}))
	if len(claims.Items) != 1 || claims.Items[0].Spec.Holder.Name != "shop" {
		t.Errorf("an owner finds %v", claims.Items)
	}
}

// TestChartsAreAdmittedPathByPath has the same come in where no policy speaks, and each path is one namespace's.
func TestChartsAreAdmittedPathByPath(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"))
	w.openGateway("infra/edge")
	w.admitCharts()
	for _, thief := range []*networkingv1.Ingress{
		ofClass(ingressOn("errors/thief", "/oauth2", "shop.charts.test"), "nginx"),
		ofClass(ingressOn("errors/thief", "/admin/sidekiq", "gitlab.charts.test"), "gitlab-nginx"),
		ingressOn("errors/thief", "/chartrepo", "core.harbor.charts.test"),
	} {
		rule := thief.Spec.Rules[0]
		w.refusedFor(w.toCreate(thief), "spec.rules[0].http.paths[0].path", "path "+rule.HTTP.Paths[0].Path+" on host "+rule.Host, "is held by Ingress ")
	}
}

// admitCharts creates what charts make, and applies it again, as it is and changed.
func (w *fixture) admitCharts() {
	w.t.Helper()
	objects, err := controlplane.ReadFile("testdata/charts.yaml")
	must(w, err)
	if len(objects) < 20 {
		w.t.Fatalf("%d objects", len(objects))
	}
	namespaces := sets.New[string]()
	for _, obj := range objects {
		if ns := obj.GetNamespace(); !namespaces.Has(ns) {
			namespaces.Insert(ns)
			w.create(namespace(ns))
		}
		if err := w.Client.Create(w.t.Context(), obj.DeepCopy()); err != nil {
			w.t.Errorf("%s %s/%s: %v", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
	}
	for _, obj := range objects {
		obj.SetLabels(map[string]string{"helm.sh/chart": "2"})
		//nolint:staticcheck // an unstructured object has no apply configuration
		if err := w.Client.Patch(w.t.Context(), obj.DeepCopy(), client.Apply, client.FieldOwner("helm"), client.ForceOwnership); err != nil {
			w.t.Errorf("%s %s/%s, applied: %v", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
	}
}
