package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// sizes are how many claims there are: what a decision costs should not depend on it. With -short, there are fewer.
func sizes() []int {
	if testing.Short() {
		return []int{100, 1000, 10000}
	}
	return []int{100, 10000, 65535}
}

// asking is the context of a request.
func asking(b testing.TB, operation admissionv1.Operation) context.Context {
	b.Helper()
	return admission.NewContextWithRequest(b.Context(), admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation, Options: optionsOf(operation)},
	})
}

// optionsOf are the options of a request, as the API server sends them along.
func optionsOf(operation admissionv1.Operation) runtime.RawExtension {
	kind := map[admissionv1.Operation]string{admissionv1.Create: "CreateOptions", admissionv1.Update: "UpdateOptions"}[operation]
	return runtime.RawExtension{Raw: []byte(`{"kind":"` + kind + `","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl-create"}`)}
}

// BenchmarkStreamIngress measures decisions on StreamIngresses, without the requests that write claims: those go to a
// store in memory.
func BenchmarkStreamIngress(b *testing.B) {
	for _, n := range sizes() {
		w := streamsWorld(b, n)
		v := &streamValidator{view: w.view, ledger: w.ledger}
		point := claim.Stream(worldClass, v1beta1.TCP, freePort).Name()
		b.Run(fmt.Sprintf("create/claims=%d", n), func(b *testing.B) {
			fresh := streamTo(team(0), "fresh", freePort)
			decideAll(b, admissionv1.Create, true, func(ctx context.Context) error {
				_, err := v.ValidateCreate(ctx, fresh)
				w.claims.Drop(point)
				return err
			})
		})
		b.Run(fmt.Sprintf("update/claims=%d", n), func(b *testing.B) {
			before := streamTo(team(0), "stream-0", 1)
			before.Status.ClassName, before.Status.Listen = worldClass, 1
			after := before.DeepCopy()
			after.Spec.Listen, after.Generation = new(int32(freePort)), 2
			decideAll(b, admissionv1.Update, true, func(ctx context.Context) error {
				_, err := v.ValidateUpdate(ctx, before, after)
				w.claims.Drop(point)
				return err
			})
		})
		b.Run(fmt.Sprintf("refusal/claims=%d", n), func(b *testing.B) {
			late := streamTo(team(1), "late", 1)
			decideAll(b, admissionv1.Create, false, func(ctx context.Context) error {
				_, err := v.ValidateCreate(ctx, late)
				return err
			})
		})
	}
}

// BenchmarkService measures decisions on Services that ask for an Ingress.
func BenchmarkService(b *testing.B) {
	for _, n := range sizes() {
		w := servicesWorld(b, n)
		v := &serviceValidator{view: w.view, ledger: w.ledger}
		free := claim.HTTP("fresh.example.com", "/").ServedBy("nginx").Name()
		b.Run(fmt.Sprintf("create/claims=%d", n), func(b *testing.B) {
			fresh := exposed(team(0), "fresh", "fresh.example.com")
			decideAll(b, admissionv1.Create, true, func(ctx context.Context) error {
				_, err := v.ValidateCreate(ctx, fresh)
				w.claims.Drop(free)
				return err
			})
		})
		b.Run(fmt.Sprintf("update/claims=%d", n), func(b *testing.B) {
			before, after := exposed(team(0), "app-0", "app-0.example.com"), exposed(team(0), "app-0", "fresh.example.com")
			decideAll(b, admissionv1.Update, true, func(ctx context.Context) error {
				_, err := v.ValidateUpdate(ctx, before, after)
				w.claims.Drop(free)
				return err
			})
		})
		b.Run(fmt.Sprintf("refusal/claims=%d", n), func(b *testing.B) {
			late := exposed(team(1), "late", "app-0.example.com")
			decideAll(b, admissionv1.Create, false, func(ctx context.Context) error {
				_, err := v.ValidateCreate(ctx, late)
				return err
			})
		})
	}
}

// BenchmarkLoadBalancer measures decisions on Services of type LoadBalancer: one that takes any address, one that asks for
// a free one, and one that asks for one that is held.
func BenchmarkLoadBalancer(b *testing.B) {
	const free = "10.9.9.9"
	for _, n := range sizes() {
		w := balancersWorld(b, n)
		v := &serviceValidator{view: w.view, ledger: w.ledger}
		point := claim.Address(netip.MustParseAddr(free)).Name()
		for _, kind := range []struct{ name, address string }{{"any", ""}, {"asking", free}, {"refusal", addressOf(0).String()}} {
			svc := balanced(team(1), "fresh", kind.address)
			b.Run(fmt.Sprintf("%s/claims=%d", kind.name, n), func(b *testing.B) {
				decideAll(b, admissionv1.Create, kind.name != "refusal", func(ctx context.Context) error {
					_, err := v.ValidateCreate(ctx, svc)
					w.claims.Drop(point)
					return err
				})
			})
		}
	}
}

// decideAll repeats a decision, and makes sure that each is the one that is meant.
func decideAll(b *testing.B, operation admissionv1.Operation, yes bool, decide func(context.Context) error) {
	b.Helper()
	ctx := asking(b, operation)
	_ = decide(ctx) // what is read once for each version of an object is no cost of a decision
	b.ReportAllocs()
	for b.Loop() {
		err := decide(ctx)
		if yes && err != nil || !yes && !apierrors.IsInvalid(err) {
			b.Fatalf("decided %v", err)
		}
	}
}

// BenchmarkReview measures a whole request as the webhook server gets it: what the API server sends is read, decided and
// answered.
func BenchmarkReview(b *testing.B) {
	w := streamsWorld(b, 10000)
	hook := admission.WithValidator(harness.Scheme(), &streamValidator{view: w.view, ledger: w.ledger})
	for _, kind := range []struct {
		name string
		s    *v1beta1.StreamIngress
	}{{"yes", streamTo(team(0), "fresh", freePort)}, {"no", streamTo(team(1), "late", 1)}} {
		body := review(b, kind.s)
		ask := func(b *testing.B) {
			b.Helper()
			req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/validate", bytes.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			hook.ServeHTTP(answer, req)
			if allowed := bytes.Contains(answer.Body.Bytes(), []byte(`"allowed":true`)); allowed != (kind.name == "yes") {
				b.Fatalf("answered %s", answer.Body)
			}
			w.claims.Drop(claim.Stream(worldClass, v1beta1.TCP, freePort).Name())
		}
		b.Run(kind.name, func(b *testing.B) {
			ask(b) // what is read once for each version of an object is no cost of a request
			b.ReportAllocs()
			for b.Loop() {
				ask(b)
			}
		})
	}
}

// review is what the API server asks about a new stream.
func review(b *testing.B, s *v1beta1.StreamIngress) []byte {
	b.Helper()
	s.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("StreamIngress"))
	raw, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: s.Namespace, Name: s.Name, Object: runtime.RawExtension{Raw: raw},
			Options: optionsOf(admissionv1.Create),
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return body
}
