package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// decision is the answer to one admission request.
type decision struct {
	warnings admission.Warnings
	problems refusal.Problems
	// warned is what it would have been refused for, if that were not only warned of; the warnings say so.
	warned refusal.Problems
}

// answer turns a decision into what admission expects, and counts it. An object with problems is Invalid, with a cause
// for each field. Errors of our own are a request to try again, never a verdict on the object.
func answer(
	ctx context.Context, kind schema.GroupKind, name string, decide func(context.Context) (decision, error),
) (admission.Warnings, error) {
	start := time.Now()
	d, err := decide(ctx)
	switch {
	case err == nil && len(d.problems) == 0 && len(d.warned) > 0:
		observe(ctx, kind.Kind, "warned", d.warned[0].Reason, start)
		return d.warnings, nil
	case err == nil && len(d.problems) == 0:
		observe(ctx, kind.Kind, "allowed", "", start)
		return d.warnings, nil
	case apierrors.IsAlreadyExists(err):
		observe(ctx, kind.Kind, "denied", string(metav1.StatusReasonAlreadyExists), start)
		return d.warnings, err
	case err != nil:
		err = unavailable(err)
		tell(log.FromContext(ctx), err)
		observe(ctx, kind.Kind, "error", string(apierrors.ReasonForError(err)), start)
		return d.warnings, err
	default:
		observe(ctx, kind.Kind, "denied", d.problems[0].Reason, start)
		return d.warnings, apierrors.NewInvalid(kind, name, d.problems.ErrorList())
	}
}

// tell logs an error of our own. That somebody asks too often is theirs, and might be told as often as they ask.
func tell(logger logr.Logger, err error) {
	if apierrors.IsTooManyRequests(err) {
		logger.V(1).Info("admission has to wait", "reason", err.Error())
		return
	}
	logger.Error(err, "admission could not be decided")
}

// isNew says whether an object can be created: the API server asks admission before it looks whether there is one of that
// name, and nothing may be claimed for what is never stored. The cache is believed only that there is none.
//
// Only a create (POST) fails for a name that exists. Server-side apply creates as well, and becomes a change when somebody else was
// faster.
func isNew(ctx context.Context, view *kube.View, obj client.Object, resource schema.GroupResource) error {
	if known, err := view.Known(ctx, obj); err != nil || !known || !isCreate(ctx) {
		return err
	}
	exists, err := view.Exists(ctx, obj)
	if exists {
		return apierrors.NewAlreadyExists(resource, obj.GetName())
	}
	return err
}

// isCreate says whether the request can only create.
func isCreate(ctx context.Context) bool {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return false
	}
	var options metav1.TypeMeta
	return json.Unmarshal(req.Options.Raw, &options) == nil && options.Kind == "CreateOptions"
}

// unavailable makes sure that an error carries an API status, so that clients know that they may try again.
func unavailable(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && apierrors.IsTooManyRequests(err) {
		return err
	}
	return apierrors.NewServiceUnavailable("portcullis could not decide, try again: " + err.Error())
}

// warn turns problems that are no reason to refuse into warnings.
func warn(problems refusal.Problems) admission.Warnings {
	warnings := make(admission.Warnings, 0, len(problems))
	for _, p := range problems {
		warnings = append(warnings, p.Err.Field+": "+p.Err.Detail)
	}
	return warnings
}

// reserving is how an admission asks for points: a dry run finds out whether it could have them.
func reserving(ctx context.Context, ledger *claim.Ledger) claim.Acquire {
	if isDryRun(ctx) {
		return ledger.Check
	}
	return ledger.Reserve
}

// counted are conflicts, which are counted if there are any.
func counted(conflicts refusal.Problems) refusal.Problems {
	if len(conflicts) > 0 {
		kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
	}
	return conflicts
}

// reserveAll claims points, all of them or none; if it only asks, it finds out whether it could. Where beside, which may be nil, says so,
// it relies on claims that others have. held says which of the points is somebody else's, and withdraw takes back what was claimed.
func reserveAll(
	ctx context.Context, ledger *claim.Ledger, asks bool, by claim.Claimant, beside func(*v1beta1.EdgeClaim) claim.Beside,
	points []claim.Coordinate,
) (held *claim.HeldError, withdraw func(context.Context) error, err error) {
	switch {
	case !asks:
		withdraw, err = ledger.ReserveBeside(ctx, by, beside, points...)
	case beside != nil:
		err = ledger.CheckBeside(ctx, by, beside, points...)
	default:
		err = ledger.Check(ctx, by, nil, points...)
	}
	if withdraw == nil {
		withdraw = nothing
	}
	if held, ok := errors.AsType[*claim.HeldError](err); ok {
		return held, withdraw, nil
	}
	return nil, withdraw, err
}

// conflictOf says that a point is held, which was found out as it was claimed: as a rule has it, and in few words where that can't be
// asked.
func conflictOf(
	ctx context.Context, view *kube.View, held *claim.HeldError, reason string, path *field.Path, point string,
	rule func(*kube.Facts) refusal.Problems,
) (refusal.Problems, error) {
	problems, err := kube.Decide(ctx, view, rule)
	if err != nil { // what else it would say is not worth that it is not said
		problems = refusal.One(reason, refusal.Duplicate(path, point, refusal.Held(held.Claim, false, 0)))
	}
	return problems, err
}

// nothing is to be taken back.
func nothing(context.Context) error { return nil }

// isDryRun says whether the request must have no effect.
func isDryRun(ctx context.Context) bool {
	req, err := admission.RequestFromContext(ctx)
	return err == nil && req.DryRun != nil && *req.DryRun
}

var errNotSynced = errors.New("the cluster is still being read")

// ready says whether decisions can be made.
func ready(view *kube.View) error {
	if !view.Synced() {
		return errNotSynced
	}
	return nil
}
