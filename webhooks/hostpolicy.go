package webhooks

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// +kubebuilder:webhook:path=/validate-nginx-stream-jeffthecoder-xyz-v1beta1-hostpolicy,mutating=false,failurePolicy=fail,sideEffects=None,groups=nginx-stream.jeffthecoder.xyz,resources=hostpolicies,verbs=create;update,versions=v1beta1,name=hostpolicy.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=3,matchPolicy=Equivalent
// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=hostpolicies,verbs=list;watch

// hostPolicyValidator decides on HostPolicies.
type hostPolicyValidator struct {
	view *kube.View
}

var (
	_ admission.Validator[*v1beta1.HostPolicy] = &hostPolicyValidator{}

	hostPolicyKind = schema.GroupKind{Group: v1beta1.GroupName, Kind: "HostPolicy"}
)

// ValidateCreate refuses a policy that has a host of another one, or that can select no namespace.
func (v *hostPolicyValidator) ValidateCreate(ctx context.Context, policy *v1beta1.HostPolicy) (admission.Warnings, error) {
	return answer(ctx, hostPolicyKind, policy.Name, func(ctx context.Context) (decision, error) { return v.decide(ctx, policy) })
}

// ValidateUpdate refuses the same in a change.
func (v *hostPolicyValidator) ValidateUpdate(ctx context.Context, before, policy *v1beta1.HostPolicy) (admission.Warnings, error) {
	return answer(ctx, hostPolicyKind, policy.Name, func(ctx context.Context) (d decision, err error) {
		if equality.Semantic.DeepEqual(before.Spec, policy.Spec) {
			return d, nil
		}
		return v.decide(ctx, policy)
	})
}

// ValidateDelete always passes: names are given to nobody then, and what stands keeps what it has.
func (v *hostPolicyValidator) ValidateDelete(context.Context, *v1beta1.HostPolicy) (admission.Warnings, error) {
	return nil, nil
}

// decide judges a policy beside all others as they are stored now: they change rarely, and one that was made a moment ago counts.
func (v *hostPolicyValidator) decide(ctx context.Context, policy *v1beta1.HostPolicy) (d decision, err error) {
	book, err := v.view.Hosts.LivePolicies(ctx)
	if err != nil {
		return d, err
	}
	d.problems = hostname.PolicyProblems(hostname.Read(policy), book.Beside(policy))
	return d, nil
}
