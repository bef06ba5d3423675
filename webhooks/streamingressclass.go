package webhooks

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// +kubebuilder:webhook:path=/validate-nginx-stream-jeffthecoder-xyz-v1beta1-streamingressclass,mutating=false,failurePolicy=fail,sideEffects=NoneOnDryRun,groups=nginx-stream.jeffthecoder.xyz,resources=streamingressclasses,verbs=create;update,versions=v1beta1,name=streamingressclass.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=3,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate-nginx-stream-jeffthecoder-xyz-v1beta1-streamingressclass,mutating=false,failurePolicy=ignore,sideEffects=None,groups=nginx-stream.jeffthecoder.xyz,resources=streamingressclasses,verbs=delete,versions=v1beta1,name=streamingressclass-delete.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=3,matchPolicy=Equivalent

// classValidator decides on StreamIngressClasses.
type classValidator struct {
	view   *kube.View
	ledger *claim.Ledger
}

var (
	_ admission.Validator[*v1beta1.StreamIngressClass] = &classValidator{}

	classKind = schema.GroupKind{Group: v1beta1.GroupName, Kind: "StreamIngressClass"}
)

// ValidateCreate refuses a class that would write where another class writes.
func (v *classValidator) ValidateCreate(ctx context.Context, class *v1beta1.StreamIngressClass) (admission.Warnings, error) {
	return answer(ctx, classKind, class.Name, func(ctx context.Context) (decision, error) { return v.decide(ctx, nil, class) })
}

// ValidateUpdate refuses changes that would take the door away from streams that are behind it.
func (v *classValidator) ValidateUpdate(ctx context.Context, before, class *v1beta1.StreamIngressClass) (admission.Warnings, error) {
	return answer(ctx, classKind, class.Name, func(ctx context.Context) (decision, error) { return v.decide(ctx, before, class) })
}

// ValidateDelete always passes, and warns when streams lose their proxy.
func (v *classValidator) ValidateDelete(ctx context.Context, class *v1beta1.StreamIngressClass) (admission.Warnings, error) {
	return answer(ctx, classKind, class.Name, func(ctx context.Context) (decision, error) {
		served, err := v.served(ctx, class.Name)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not count the streams of a class that is deleted")
		}
		if n := served[v1beta1.TCP] + served[v1beta1.UDP]; n > 0 {
			return decision{warnings: admission.Warnings{fmt.Sprintf(
				"class %s serves %d stream(s): their ports are closed now, and opened again when a class of this name returns",
				class.Name, n)}}, nil
		}
		return decision{}, nil
	})
}

func (v *classValidator) decide(ctx context.Context, before, class *v1beta1.StreamIngressClass) (d decision, err error) {
	sameSpec := before != nil && equality.Semantic.DeepEqual(before.Spec, class.Spec)
	if sameSpec && before.IsDefault() == class.IsDefault() {
		return d, nil
	}
	if err := ready(v.view); err != nil {
		return d, err
	}
	if d.warnings, err = v.otherDefaults(ctx, class); err != nil || sameSpec {
		return d, err
	}
	if class.OnNodes() && (before == nil || !before.OnNodes()) {
		d.warnings = append(d.warnings, sharesNodes(class, v.view.LoadBalancers.Pools().Pools())...)
	}
	var served map[v1beta1.Protocol]int
	var streams []v1beta1.StreamIngress
	if before != nil {
		if served, err = v.served(ctx, class.Name); err != nil {
			return d, err
		}
		if streams, err = v.view.Streams.OfClass(ctx, class.Name); err != nil {
			return d, err
		}
	}
	d.problems, err = kube.Decide(ctx, v.view, func(f *kube.Facts) refusal.Problems {
		problems := append(stream.CheckClass(class), stream.ClassTargets(f, stream.NewTargets(before, class), nil)...)
		if before == nil {
			return problems
		}
		problems = append(problems, stream.ClassChange(before, class, served)...)
		return append(problems, stream.ClassConsent(f, before, class, streams)...)
	})
	if err != nil || len(d.problems) > 0 {
		return d, err
	}
	behind, err := v.behind(ctx, before, class)
	return decision{warnings: append(d.warnings, behind.warnings...), problems: behind.problems}, err
}

// behind decides on what a class asks of its Gateway or of its pool.
func (v *classValidator) behind(ctx context.Context, before, class *v1beta1.StreamIngressClass) (decision, error) {
	if class.Spec.Gateway != nil {
		return decision{warnings: v.gateway(ctx, before, class)}, nil
	}
	return v.addresses(ctx, before, class)
}

// gateway warns of what keeps a class from having ports on the Gateway that it comes to name: that may change.
func (v *classValidator) gateway(ctx context.Context, before, class *v1beta1.StreamIngressClass) admission.Warnings {
	if before != nil && equality.Semantic.DeepEqual(before.Spec.Gateway, class.Spec.Gateway) {
		return nil
	}
	state, err := v.view.Gateways.Now(ctx, class) // it may have been made a moment ago
	if err != nil {                               // a warning is all that it is for
		log.FromContext(ctx).Error(err, "could not read the Gateway of a class")
		return nil
	}
	return warn(state.Problems(class))
}

// addresses decides on what a class asks of its pool, and claims the addresses that it asks for by name. Those it must be able to have,
// where it has not asked for them before; that there is no pool, or no free address, may change: of that it is warned.
func (v *classValidator) addresses(ctx context.Context, before, class *v1beta1.StreamIngressClass) (d decision, err error) {
	if class.Spec.AddressPool == nil || before != nil && equality.Semantic.DeepEqual(before.Spec.AddressPool, class.Spec.AddressPool) {
		return d, nil
	}
	// The pool may have been made a moment ago.
	decided, err := kube.Decide(ctx, kube.LiveReader{View: v.view}, func(f *kube.Facts) allocator.Decision {
		return allocator.ForClass(f, class, v.ledger.GraceLeft)
	})
	for _, p := range decided.Problems {
		switch p.Reason {
		case v1beta1.ReasonAddressPoolNotFound, v1beta1.ReasonNoFreeAddress:
			d.warnings = append(d.warnings, warn(refusal.Problems{p})...)
		default:
			d.problems = append(d.problems, p)
		}
	}
	if err != nil || len(d.problems) > 0 || len(class.Spec.AddressPool.Addresses) == 0 {
		return d, err
	}
	for _, allocation := range decided.Allocations {
		if d.problems, err = v.reserve(ctx, class, allocation); err != nil || len(d.problems) > 0 {
			return d, err
		}
	}
	return d, nil
}

// reserve claims an address for a class.
func (v *classValidator) reserve(
	ctx context.Context, class *v1beta1.StreamIngressClass, allocation allocator.Allocation,
) (refusal.Problems, error) {
	by := claim.Claimant{Holder: claim.ClassHolder(class.Name), UID: class.UID, Generation: class.Generation}
	for _, at := range allocation.Points {
		err := reserving(ctx, v.ledger)(ctx, by, nil, at)
		if held, ok := errors.AsType[*claim.HeldError](err); ok {
			kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
			return kube.Decide(ctx, v.view, func(f *kube.Facts) refusal.Problems {
				return allocator.ClassConflict(f, class, allocation.Address, held.Claim, v.ledger.GraceLeft(held.Claim))
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// otherDefaults warns when several classes are the default one.
func (v *classValidator) otherDefaults(ctx context.Context, class *v1beta1.StreamIngressClass) (admission.Warnings, error) {
	if !class.IsDefault() {
		return nil, nil
	}
	classes, err := v.view.Classes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range classes {
		if other := &classes[i]; other.Name != class.Name && other.IsDefault() {
			return admission.Warnings{fmt.Sprintf(
				"class %s is the default too: new streams that name no class are refused until only one is", other.Name)}, nil
		}
	}
	return nil, nil
}

// served counts the streams that hold a port of a class.
func (v *classValidator) served(ctx context.Context, class string) (map[v1beta1.Protocol]int, error) {
	claims, err := v.view.Claims.OfClass(ctx, class)
	served := map[v1beta1.Protocol]int{}
	for at := range maps.Keys(claims) {
		if claim.HolderOf(claims[at]).IsStream() {
			served[at.Protocol()]++
		}
	}
	return served, err
}
