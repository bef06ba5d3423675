package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
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

func (v *streamValidator) live() kube.LiveReader { return kube.LiveReader{View: v.view} }

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

// decide judges a new stream (before is nil) or the change of one. What it is refused for is asked of the live reader, too.
func (v *streamValidator) decide(ctx context.Context, before, s *v1beta1.StreamIngress) (d decision, err error) {
	if d.problems = stream.UnreadableHeir(before, s); len(d.problems) > 0 {
		return d, nil
	}
	if before != nil && !asks(before, s) {
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
	j, err := kube.Decide(ctx, v.live(), func(f *kube.Facts) judgment { return judge(f, before, s) })
	if err != nil {
		return d, err
	}
	problems := slices.Concat(j.problems, j.consent)
	if len(problems) > 0 && !stream.OnlyWarned(j.class, s) {
		return decision{problems: problems}, nil
	}
	if !j.leadsAnew {
		// Nothing is refused for where it has led before: what the cache knows is enough to warn of that.
		j.missing, err = kube.Decide(ctx, v.view, func(f *kube.Facts) refusal.Problems { return missing(f, s, j.class) })
	}
	d.warnings = warn(j.missing)
	if err == nil && j.moves && len(j.problems) == 0 {
		j.problems, j.reserved, err = v.promise(ctx, s, j.request)
	}
	if err != nil {
		return d, err
	}
	return j.decide(d, s), nil
}

// asks says whether the change of a stream asks for something.
func asks(before, s *v1beta1.StreamIngress) bool {
	return stream.Moves(before, s) || stream.Redirects(before, s) || stream.AsksProxyProtocol(before, s)
}

// judgment is what the rules say of a stream before anything is claimed for it.
type judgment struct {
	// problems are those of its class and of its point, and consent are those of where it leads.
	problems, consent refusal.Problems
	class             *v1beta1.StreamIngressClass
	// moves says that it goes to another point, and request is what it asks for then.
	moves   bool
	request stream.Request
	// reserved says that its problems were found only after something was reserved for it.
	reserved bool
	// leaves is the point of its class that it has had, zero for none: it is closed, whether there is another one or not.
	leaves claim.Coordinate
	// keeps is the point of its class that it has and asks for, zero for none.
	keeps claim.Coordinate
	// leadsAnew says that it leads where it has not led before, and missing is what is not there yet.
	leadsAnew bool
	missing   refusal.Problems
}

// judge has the rules decide on the point of a stream, and on where it leads, each where that is new.
func judge(f stream.Facts, before, s *v1beta1.StreamIngress) (j judgment) {
	if j.class, j.problems = stream.ClassOf(f, s); len(j.problems) > 0 {
		return j
	}
	if j.leaves, j.moves = moves(f, before, s, j.class); j.moves {
		if j.problems = stream.HandedOver(f, s, j.class); len(j.problems) > 0 {
			return j
		}
		j.request, j.problems = stream.PortFor(f, s, j.class)
	}
	if before != nil && len(j.problems) == 0 {
		held := f.Held(claim.StreamHolder(s.Namespace, s.Name))
		if at := stream.Wanted(s, j.class.Name, held); slices.Contains(held, at) {
			j.keeps = at
		}
	}
	j.leadsAnew = before == nil || stream.Redirects(before, s) || before.Spec.ClassName != s.Spec.ClassName
	if !j.leadsAnew {
		if stream.AsksProxyProtocol(before, s) {
			j.consent = stream.ProxyProtocol(s, j.class)
		}
		return j
	}
	if j.consent = stream.Consent(f, s, j.class); len(j.problems)+len(j.consent) == 0 {
		j.missing = stream.Upstream(f, s)
	}
	return j
}

// decide adds to a decision what is wrong with the stream: it is refused for that, or warned of it. One that only may not lead where it
// does has its port, as it would have if that were withdrawn later: nothing is opened either way.
//
// Where something was reserved before a problem was found, it is refused whatever the class says. What was reserved is taken back, but for
// what another replica has admitted or renewed at the same time, for another request for the stream; stored, the stream would have it.
func (j *judgment) decide(d decision, s *v1beta1.StreamIngress) decision {
	problems := slices.Concat(j.problems, j.consent)
	if !stream.OnlyWarned(j.class, s) || len(j.problems) > 0 && j.reserved {
		d.problems = problems
		return d
	}
	var warnings admission.Warnings
	for _, p := range problems {
		warnings = append(warnings, stream.Warning(j.class, p.Err))
	}
	switch {
	case len(problems) == 0:
	case !j.leaves.IsZero():
		warnings = append(warnings, fmt.Sprintf("%s, which the stream has had, is closed: it no longer asks for it", j.leaves.Point()))
	case len(j.problems) == 0 && !j.keeps.IsZero():
		warnings = append(warnings, fmt.Sprintf("%s stays claimed, and is closed until the stream may lead there", j.keeps.Point()))
	}
	d.warnings, d.warned = append(warnings, d.warnings...), problems
	return d
}

// missing is what is not there yet behind a stream that leads where it has led before. To one that has no consent any longer it does
// not tell which Services another namespace has.
func missing(f stream.UpstreamFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	if len(stream.Consent(f, s, class)) > 0 {
		return nil
	}
	return stream.Upstream(f, s)
}

// moves says whether a stream is new, or really goes to another point: naming the class or the port that it has already
// is no move. leaves is the point of the same class that it has and goes from, zero for none.
func moves(
	f stream.Facts, before, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass,
) (leaves claim.Coordinate, moves bool) {
	if before == nil || !stream.Moves(before, s) {
		return leaves, before == nil
	}
	was, problems := stream.ClassOf(f, before)
	if len(problems) > 0 {
		return leaves, true
	}
	held := f.Held(claim.StreamHolder(s.Namespace, s.Name))
	from, to := stream.Wanted(before, was.Name, held), stream.Wanted(s, class.Name, held)
	if was.Name == class.Name && from != to && slices.Contains(held, from) {
		leaves = from
	}
	return leaves, from.IsZero() || from != to
}

// promise claims the point that a stream asks for, or one that is auto-assigned to it. reserved says that problems were found only after
// something was reserved.
func (v *streamValidator) promise(
	ctx context.Context, s *v1beta1.StreamIngress, req stream.Request,
) (problems refusal.Problems, reserved bool, err error) {
	by := claim.Claimant{Holder: claim.StreamHolder(s.Namespace, s.Name), UID: s.UID, Generation: s.Generation}
	if req.At.IsZero() {
		return v.autoAssign(ctx, s, by, req)
	}
	adoption, err := kube.Decide(ctx, v.live(), func(f *kube.Facts) stream.Adoption { return stream.AdoptionOf(f, s, req.Class, req.At) })
	if err != nil || len(adoption.Problems) > 0 {
		return adoption.Problems, false, err
	}
	by.Adopts = adoption.Adopts
	held, withdraw, err := reserveAll(ctx, v.ledger, isDryRun(ctx), by, nil, []claim.Coordinate{req.At})
	if held != nil {
		kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
		problems, err = kube.Decide(ctx, v.view, func(f *kube.Facts) refusal.Problems {
			return stream.Conflict(f, s, req.At, held.Claim, v.ledger.GraceLeft(held.Claim))
		})
		return problems, false, err
	}
	if err != nil || isDryRun(ctx) {
		return nil, false, err
	}
	problems, err = v.confirm(ctx, s, req)
	if err != nil || len(problems) == 0 {
		return nil, true, err
	}
	return problems, true, withdraw(ctx)
}

// confirm finds out what keeps a stream from the point that is reserved for it: a listener that the ledger does not have, or the front.
func (v *streamValidator) confirm(ctx context.Context, s *v1beta1.StreamIngress, req stream.Request) (refusal.Problems, error) {
	listens, err := v.view.Gateways.Listens(ctx, v.ledger, req.Class, req.At)
	if err != nil {
		return nil, err
	}
	if listens != nil {
		return kube.Decide(ctx, v.view, func(f *kube.Facts) refusal.Problems {
			return stream.Conflict(f, s, req.At, listens, v.ledger.GraceLeft(listens))
		})
	}
	return v.claimFront(ctx, req.Front, req.At)
}

// claimFront claims what a port takes of what the front of the proxy shares with others. The claims are the front's, and stay as
// long as somebody has a claim on the port, which is there by now.
func (v *streamValidator) claimFront(ctx context.Context, front *stream.Front, at claim.Coordinate) (refusal.Problems, error) {
	for _, point := range front.Points(at.Protocol(), at.Port()) {
		err := v.ledger.Reserve(ctx, front.Claimant(point), front.IsOwn, point)
		if held, ok := errors.AsType[*claim.HeldError](err); ok {
			kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
			return front.Refused(v.view.LoadBalancers.ReservedNodePorts, point, held.Claim), nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// autoAssign claims a free port of the class's autoAssign range. Others are assigned ports at the same time, so the first choice may be
// gone; a dry run only finds out that there is a choice.
func (v *streamValidator) autoAssign(
	ctx context.Context, s *v1beta1.StreamIngress, by claim.Claimant, req stream.Request,
) (problems refusal.Problems, reserved bool, err error) {
	if isDryRun(ctx) {
		return nil, false, nil
	}
	offered := func(lost *stream.PortSet) (stream.Offer, error) {
		return kube.Decide(ctx, v.live(), func(f *kube.Facts) stream.Offer { return stream.Offered(f, s, req, lost) })
	}
	_, err = stream.AutoAssign(s, req.Class, offered, func(at claim.Coordinate) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		assignable, err := kube.Decide(ctx, v.live(), func(f *kube.Facts) bool { return stream.IsAssignable(f, s, req.Class, at) })
		if err != nil || !assignable {
			return false, err
		}
		withdraw, err := v.ledger.ReserveAll(ctx, by, at)
		if err != nil {
			return false, claim.IgnoreHeld(err)
		}
		reserved = true
		if listens, err := v.view.Gateways.Listens(ctx, v.ledger, req.Class, at); err != nil || listens != nil {
			return false, errors.Join(err, withdraw(ctx))
		}
		problems, err := v.claimFront(ctx, req.Front, at)
		if err != nil || len(problems) == 0 {
			return err == nil, err
		}
		return false, withdraw(ctx)
	})
	if errors.Is(err, stream.ErrNoFreePort) {
		return stream.NoFreePort(s, req.Class), reserved, nil
	}
	return nil, reserved, err
}
