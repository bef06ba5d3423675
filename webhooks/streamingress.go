package webhooks

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/rules"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// +kubebuilder:webhook:path=/validate-nginx-stream-jeffthecoder-xyz-v1beta1-streamingress,mutating=false,failurePolicy=fail,sideEffects=NoneOnDryRun,groups=nginx-stream.jeffthecoder.xyz,resources=streamingresses,verbs=create;update,versions=v1beta1,name=streamingress.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=3,matchPolicy=Equivalent

// streamValidator decides on StreamIngresses.
type streamValidator struct {
	view   *kube.View
	ledger *claim.Ledger
}

var (
	_ admission.Validator[*v1beta1.StreamIngress] = &streamValidator{}

	streamKind     = schema.GroupKind{Group: v1beta1.GroupName, Kind: "StreamIngress"}
	streamResource = schema.GroupResource{Group: v1beta1.GroupName, Resource: "streamingresses"}
)

func (v *streamValidator) fresh() kube.Fresh { return kube.Fresh{View: v.view} }

// ValidateCreate claims the port of a new stream.
func (v *streamValidator) ValidateCreate(ctx context.Context, s *v1beta1.StreamIngress) (admission.Warnings, error) {
	return answer(ctx, streamKind, s.Name, func(ctx context.Context) (decision, error) { return v.decide(ctx, nil, s) })
}

// ValidateUpdate claims the port of a stream that moves to another, and asks for consent when its traffic goes
// elsewhere. All other changes pass.
func (v *streamValidator) ValidateUpdate(ctx context.Context, before, s *v1beta1.StreamIngress) (admission.Warnings, error) {
	return answer(ctx, streamKind, s.Name, func(ctx context.Context) (decision, error) { return v.decide(ctx, before, s) })
}

// ValidateDelete always passes.
func (v *streamValidator) ValidateDelete(context.Context, *v1beta1.StreamIngress) (admission.Warnings, error) {
	return nil, nil
}

// decide judges a new stream (before is nil) or the change of one.
func (v *streamValidator) decide(ctx context.Context, before, s *v1beta1.StreamIngress) (d decision, err error) {
	if before != nil && !rules.Moves(before, s) && !rules.Redirects(before, s) {
		return d, nil
	}
	if err := ready(v.view); err != nil {
		return d, err
	}
	if before == nil {
		if err := isNew(ctx, v.view, s, streamResource); err != nil {
			return d, err
		}
	}
	class, problems, err := rules.ClassOf(ctx, v.fresh(), s)
	if err != nil || len(problems) > 0 {
		return decision{problems: problems}, err
	}
	moves, err := v.moves(ctx, before, s, class)
	if err != nil {
		return d, err
	}
	req := rules.Request{}
	if moves {
		if req, d.problems, err = rules.Port(ctx, v.fresh(), s, class); err != nil {
			return d, err
		}
	}
	if err := v.judgeUpstream(ctx, before, s, class, &d); err != nil || !moves || len(d.problems) > 0 {
		return d, err
	}
	d.problems, err = v.promise(ctx, s, req)
	return d, err
}

// judgeUpstream asks for the consent of the upstream's namespace where that is new, and warns of what is missing there. To a stream
// that has no consent, or none any longer, it does not tell which Services another namespace has.
func (v *streamValidator) judgeUpstream(
	ctx context.Context, before, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, d *decision,
) error {
	isNew := before == nil || rules.Redirects(before, s) || before.Spec.ClassName != s.Spec.ClassName
	view := rules.View(v.view)
	if isNew {
		view = v.fresh()
	}
	problems, err := rules.Consent(ctx, view, s, class)
	if err != nil {
		return err
	}
	if isNew {
		d.problems = append(d.problems, problems...)
	}
	if len(d.problems)+len(problems) > 0 {
		return nil
	}
	missing, err := rules.Upstream(ctx, v.view, s)
	d.warnings = warn(missing)
	return err
}

// moves says whether a stream is new, or really goes to another point: naming the class or the port that it has already
// is no move.
func (v *streamValidator) moves(ctx context.Context, before, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) (bool, error) {
	if before == nil || !rules.Moves(before, s) {
		return before == nil, nil
	}
	was, problems, err := rules.ClassOf(ctx, v.fresh(), before)
	if err != nil || len(problems) > 0 {
		return true, err
	}
	held, err := v.view.Held(ctx, claim.StreamHolder(s.Namespace, s.Name))
	if err != nil {
		return true, err
	}
	from, to := rules.Wanted(before, was.Name, held), rules.Wanted(s, class.Name, held)
	return from.IsZero() || from != to, nil
}

// promise claims the point that a stream asks for, or draws one for it.
func (v *streamValidator) promise(ctx context.Context, s *v1beta1.StreamIngress, req rules.Request) (refusal.Problems, error) {
	by := claim.Claimant{Holder: claim.StreamHolder(s.Namespace, s.Name), UID: s.UID, Generation: s.Generation}
	if req.At.IsZero() {
		return v.draw(ctx, s, by, req)
	}
	var problems refusal.Problems
	var err error
	if by.Adopts, problems, err = rules.Adoption(ctx, v.fresh(), s, req.Class, req.At); err != nil || len(problems) > 0 {
		return problems, err
	}
	err = reserving(ctx, v.ledger)(ctx, by, nil, req.At)
	if held, ok := errors.AsType[*claim.HeldError](err); ok {
		kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
		return rules.Conflict(ctx, v.view, s, req.At, held.Claim, v.ledger.GraceLeft(held.Claim))
	}
	if err != nil || isDryRun(ctx) {
		return nil, err
	}
	return v.claimFront(ctx, req.Front, req.At)
}

// claimFront claims what a port takes of what the front of the proxy shares with others. The claims are the front's, and stay as
// long as somebody has a claim on the port, which is there by now.
func (v *streamValidator) claimFront(ctx context.Context, front *rules.Front, at claim.Coordinate) (refusal.Problems, error) {
	for _, point := range front.Points(at.Protocol(), at.Port()) {
		err := v.ledger.Reserve(ctx, front.Claimant(), front.IsOwn, point)
		if held, ok := errors.AsType[*claim.HeldError](err); ok {
			kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
			return front.Refused(v.view, point, held.Claim), nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// draw claims a free port of the class's autoAssign range. Others draw at the same time, so the first choice may be
// gone; a dry run only finds out that there is a choice.
func (v *streamValidator) draw(
	ctx context.Context, s *v1beta1.StreamIngress, by claim.Claimant, req rules.Request,
) (refusal.Problems, error) {
	if isDryRun(ctx) {
		return nil, nil
	}
	_, err := rules.Draw(s, req, func(at claim.Coordinate) (bool, error) {
		_, foreign, err := v.view.Foreign(ctx, req.Class, stream.PortKey{Protocol: at.Protocol(), Port: at.Port()})
		if err != nil || foreign {
			return false, err
		}
		withdraw, err := v.ledger.ReserveAny(ctx, by, at)
		if err != nil {
			return false, claim.IgnoreHeld(err)
		}
		problems, err := v.claimFront(ctx, req.Front, at)
		if err != nil || len(problems) == 0 {
			return err == nil, err
		}
		return false, withdraw(ctx)
	})
	if errors.Is(err, rules.ErrNoFreePort) {
		return rules.NoFreePort(s, req.Class), nil
	}
	return nil, err
}
