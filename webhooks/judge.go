package webhooks

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// exempt are the namespaces where config/webhook/patch.yaml has nothing wait for Portcullis.
var exempt = []string{metav1.NamespaceSystem, "portcullis-system"}

// Judge asks the webhooks that Setup registers, without a server: who has a view and a ledger of objects that are not stored anywhere
// gets the verdicts that the API server would get.
type Judge struct{ webhooks []hook }

// NewJudge makes a judge of the webhooks that decide with these options.
func NewJudge(o Options) Judge { return Judge{all(o)} }

// creates is what the API server says of a request that can only create.
var creates = runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)}

// Validate asks all webhooks of the kind of a new object (before is nil), or of the change of one, and claims for it what it is to have.
// It returns what they warn of, and the errors of those that refuse it, which are apierrors.APIStatus.
func (j Judge) Validate(ctx context.Context, before, obj client.Object) (warnings admission.Warnings, refusals []error) {
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update}}
	if before == nil {
		request.Operation, request.Options = admissionv1.Create, creates
	}
	ctx = admission.NewContextWithRequest(ctx, request)
	for _, w := range j.webhooks {
		if w.isOurs && slices.Contains(exempt, obj.GetNamespace()) {
			continue
		}
		warned, err := w.validate(ctx, before, obj)
		warnings = append(warnings, warned...)
		if err != nil {
			refusals = append(refusals, err)
		}
	}
	return warnings, refusals
}
