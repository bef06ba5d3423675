package webhooks

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Which requests come here, and that they pass while nobody answers, is in config/guard/webhooks.yaml.

// listenerGuard decides on the listeners of Gateways and ListenerSets, which others open. A request that it can't decide on passes, with a
// warning: the reconciler of package guard tells who lost.
type listenerGuard struct {
	view    *kube.View
	ledger  *claim.Ledger
	actions guard.Actions
	events  events.EventRecorder
}

var listenersPath = field.NewPath("spec", "listeners")

// guardPatience is how long the API server waits for a decision, and would then go on without a warning.
const guardPatience = 3 * time.Second

// onWrite is a validator of what is written: of a new object (before is nil), or of the change of one.
type onWrite[T client.Object] func(ctx context.Context, before, obj client.Object) (admission.Warnings, error)

// ValidateCreate judges a new object.
func (judge onWrite[T]) ValidateCreate(ctx context.Context, obj T) (admission.Warnings, error) {
	return judge(ctx, nil, obj)
}

// ValidateUpdate judges the change of an object.
func (judge onWrite[T]) ValidateUpdate(ctx context.Context, before, obj T) (admission.Warnings, error) {
	return judge(ctx, before, obj)
}

// ValidateDelete always passes.
func (onWrite[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// guarding has a guard answer as decide decides on an object of a kind: on a new one (before is nil), or the change of one.
func guarding[T client.Object](
	v listenerGuard, kind guard.Kind, decide func(ctx context.Context, before, obj T) (decision, error),
) onWrite[T] {
	return func(ctx context.Context, before, obj client.Object) (admission.Warnings, error) {
		return v.answer(ctx, kind, obj.GetName(), func(ctx context.Context) (decision, error) {
			was, _ := before.(T)
			return decide(ctx, was, obj.(T))
		})
	}
}

// answer turns a decision into what admission expects, by the action of a kind. Nothing but a conflict, and that too much is asked for at
// a time, keeps anybody from storing what is not ours.
func (v listenerGuard) answer(
	ctx context.Context, kind guard.Kind, name string, decide func(context.Context) (decision, error),
) (admission.Warnings, error) {
	return v.answerAs(ctx, kind, kindOf(kind), name, decide)
}

// answerAs does the same for an object of a kind of which something is guarded that has an action of its own.
func (v listenerGuard) answerAs(
	ctx context.Context, kind guard.Kind, what schema.GroupKind, name string, decide func(context.Context) (decision, error),
) (admission.Warnings, error) {
	action, guarded := v.actions[kind]
	if !guarded {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, deadline(ctx, guardPatience))
	defer cancel()
	if action == guard.Warn {
		return warned(ctx, what, decide)
	}
	warnings, err := answer(ctx, what, name, decide)
	if err == nil || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || apierrors.IsTooManyRequests(err) {
		return warnings, err
	}
	return append(warnings, undecided(err)), nil
}

// warned says what would have been refused.
func warned(ctx context.Context, kind schema.GroupKind, decide func(context.Context) (decision, error)) (admission.Warnings, error) {
	start := time.Now()
	d, err := decide(ctx)
	switch {
	case apierrors.IsAlreadyExists(err):
		observe(ctx, kind.Kind, "denied", string(metav1.StatusReasonAlreadyExists), start)
		return d.warnings, err
	case err != nil:
		observe(ctx, kind.Kind, "error", string(apierrors.ReasonForError(unavailable(err))), start)
		return append(d.warnings, undecided(err)), nil
	case len(d.problems) > 0:
		observe(ctx, kind.Kind, "warned", d.problems[0].Reason, start)
		for _, p := range d.problems {
			d.warnings = append(d.warnings, "portcullis would refuse this: "+p.Err.Error())
		}
	default:
		observe(ctx, kind.Kind, "allowed", "", start)
	}
	return d.warnings, nil
}

func undecided(err error) string {
	return "portcullis could not check now whether somebody else has what this asks for; it will, and report by an event: " + err.Error()
}

// asks says that nothing is to be claimed for a request: it is a dry run, or the action of its kind is not to refuse what is held.
func (v listenerGuard) asks(ctx context.Context, kind guard.Kind) bool {
	return v.actions[kind] == guard.Warn || isDryRun(ctx)
}

// gateway judges a new Gateway (before is nil) or the change of one, and claims what it comes to listen on.
func (v listenerGuard) gateway(ctx context.Context, before, g *gatewayv1.Gateway) (decision, error) {
	var had []guard.Listener
	if before != nil {
		had = guard.OfGateway(before).Listeners
	} else if err := v.isNew(ctx, g, "gateways"); err != nil {
		return decision{}, err
	}
	request, err := v.view.Gateways.Request(ctx, guard.OfGateway(g), g, had)
	if err != nil {
		return decision{}, err
	}
	request.Deleting = g.DeletionTimestamp != nil
	return v.judge(ctx, guard.Gateway, request)
}

// set judges a new ListenerSet (before is nil) or the change of one, and claims what it comes to listen on.
func (v listenerGuard) set(ctx context.Context, before, set *gatewayv1.ListenerSet) (decision, error) {
	request, err := v.setRequest(ctx, before, set)
	if err != nil || request == nil {
		return decision{}, err
	}
	return v.judge(ctx, guard.ListenerSet, request)
}

// setRequest is what a new ListenerSet (before is nil) or the change of one asks for; nil for one that Portcullis has made for a class, and
// for one that no Gateway lets attach: those are not judged.
func (v listenerGuard) setRequest(ctx context.Context, before, set *gatewayv1.ListenerSet) (*guard.Request, error) {
	own, err := v.view.Gateways.IsOwnNow(ctx, set)
	if err != nil || own {
		return nil, err
	}
	key := kube.GatewayOf(set)
	has, err := kube.LiveReader{View: v.view}.NamespaceLabels(ctx, set.Namespace)
	if err != nil {
		return nil, err
	}
	gateway, err := v.view.Gateways.Letting(ctx, key, set.Namespace, has)
	if err != nil || gateway == nil {
		return nil, err
	}
	var had []guard.Listener
	if before == nil {
		if err := v.isNew(ctx, set, "listenersets"); err != nil {
			return nil, err
		}
	} else if kube.GatewayOf(before) == key {
		had = guard.OfListenerSet(before, key).Listeners
	}
	return v.view.Gateways.Request(ctx, guard.OfListenerSet(set, key), gateway, had)
}

func (v listenerGuard) isNew(ctx context.Context, obj client.Object, resource string) error {
	if err := v.view.Gateways.Read(ctx); err != nil {
		return err
	}
	return isNew(ctx, v.view, obj, schema.GroupResource{Group: gatewayv1.GroupName, Resource: resource})
}

// judge has the rules decide on a request, and claims what it asks for anew.
func (v listenerGuard) judge(ctx context.Context, kind guard.Kind, request *guard.Request) (d decision, err error) {
	if err := ready(v.view); err != nil {
		return d, err
	}
	points := request.Points()
	if len(points) == 0 {
		return d, nil
	}
	d.problems, err = kube.Decide(ctx, kube.LiveReader{View: v.view}, func(f *kube.Facts) refusal.Problems {
		return guard.Judge(f, request, v.ledger.GraceLeft)
	})
	if err == nil && len(d.problems) == 0 {
		d.problems, err = v.claim(ctx, kind, request, points)
	}
	if len(d.problems) == 0 {
		return d, err
	}
	kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
	if err != nil { // whatever it is, there is a conflict
		tell(log.FromContext(ctx), err)
	}
	return d, nil
}

// claim claims points, if the action of their kind is to refuse what is held, and finds out whether it could otherwise.
func (v listenerGuard) claim(
	ctx context.Context, kind guard.Kind, request *guard.Request, points []claim.Coordinate,
) (refusal.Problems, error) {
	conflict := func(at claim.Coordinate, held *claim.HeldError) (refusal.Problems, error) {
		return conflictOf(ctx, v.view, held, v1beta1.ReasonPortConflict, listenersPath, at.Point(), func(f *kube.Facts) refusal.Problems {
			return guard.Conflict(f, request, at, held.Claim, v.ledger.GraceLeft(held.Claim))
		})
	}
	held, withdraw, err := reserveAll(ctx, v.ledger, v.asks(ctx, kind), request.Claimant, nil, points)
	if held != nil {
		return conflict(held.At, held)
	}
	if err != nil {
		return nil, err
	}
	// A stream claims its port, and looks for listeners then; a listener does it the other way round. Of two at a time one sees the other.
	for _, at := range points {
		for _, port := range guard.Streams(request.Classes, at) {
			found, err := v.ledger.HeldAt(ctx, port, request.Holder, "")
			if err != nil || found == nil || !claim.HolderOf(found).IsStream() {
				if err != nil {
					return nil, errors.Join(err, withdraw(ctx))
				}
				continue
			}
			problems, err := conflict(at, &claim.HeldError{At: port, Claim: found})
			return problems, errors.Join(err, withdraw(ctx))
		}
	}
	return nil, nil
}
