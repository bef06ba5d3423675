package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// hostsPath is where the API server asks about the host names of a kind, whose plural follows.
const hostsPath = "/guard-hosts-"

// hostGuard decides on the host names that objects of a kind use, by HostPolicies.
type hostGuard struct {
	listenerGuard
	// kind is what the names of such objects are guarded as, but for those that they give to external-dns; empty where they have no others.
	kind guard.Kind
	// of is the kind of the objects, and resource its plural.
	of       schema.GroupKind
	resource schema.GroupResource
}

// validate judges the host names of a new object (before is nil), or those that an object comes to use, and claims them for its namespace.
// It answers for each kind as which they are guarded: one may be refused, and another warned of. What was claimed for those before one that
// is refused is taken back.
func (v hostGuard) validate(ctx context.Context, before, obj client.Object) (warnings admission.Warnings, err error) {
	claimed := &claimed{}
	for _, kind := range []guard.Kind{v.kind, guard.ExternalDNS} {
		if kind == "" || kind == guard.ExternalDNS && !hostname.IsInDNS(obj) {
			continue
		}
		warned, err := v.answerAs(ctx, kind, v.of, obj.GetName(), func(ctx context.Context) (decision, error) {
			return v.decide(ctx, kind, before, obj, claimed)
		})
		warnings = append(warnings, warned...)
		if err != nil {
			claimed.withdraw(ctx)
			return warnings, err
		}
	}
	return warnings, nil
}

// claimed is what was claimed for an object that is yet to be judged for something else.
type claimed []func(context.Context) error

// mostWithdrawing is how long a refusal waits for what is taken back. What is not is free after the grace.
const mostWithdrawing = time.Second

// withdraw takes it back. That it can't changes no verdict.
func (c *claimed) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostWithdrawing)
	defer cancel()
	for _, withdraw := range *c {
		if err := withdraw(ctx); err != nil {
			tell(log.FromContext(ctx), err)
		}
	}
}

// decide judges the names of a kind of a new object (before is nil) or the change of one.
func (v hostGuard) decide(
	ctx context.Context, kind guard.Kind, before, obj client.Object, claimed *claimed,
) (d decision, err error) {
	if err := ready(v.view); err != nil {
		return d, err
	}
	named := !v.view.Hosts.Policies().IsEmpty()
	judgesPaths := kind == guard.Ingress || slices.Contains(guard.Paths(), kind)
	if before == nil && (judgesPaths || named) {
		if err := isNew(ctx, v.view, obj, v.resource); err != nil {
			return d, err
		}
	}
	asks := v.asks(ctx, kind)
	var withdraw func(context.Context) error
	if named {
		if d.problems, withdraw, err = v.decideHosts(ctx, kind, before, obj, asks); err != nil || len(d.problems) > 0 {
			return d, err
		}
		*claimed = append(*claimed, withdraw)
	}
	if judgesPaths {
		d.problems, withdraw, err = v.decidePaths(ctx, before, obj, asks)
		*claimed = append(*claimed, withdraw)
	}
	return d, err
}

// decidePaths judges the paths of an object, where no policy gives the host to one namespace.
func (v hostGuard) decidePaths(
	ctx context.Context, before, obj client.Object, asks bool,
) (refusal.Problems, func(context.Context) error, error) {
	if ing, is := obj.(*networkingv1.Ingress); is {
		was, _ := before.(*networkingv1.Ingress)
		return pathDesk{v.view, v.ledger}.decide(ctx, was, ing, asks)
	}
	return routePathDesk{v.view, v.ledger}.decide(ctx, before, obj, asks)
}

// decideHosts judges the host names of an object by the policies.
func (v hostGuard) decideHosts(
	ctx context.Context, kind guard.Kind, before, obj client.Object, asks bool,
) (problems refusal.Problems, withdraw func(context.Context) error, err error) {
	if err := v.view.Gateways.Read(ctx); err != nil {
		return nil, nothing, err
	}
	request, err := v.request(ctx, kind, before, obj)
	if err != nil {
		return nil, nothing, err
	}
	return hostDesk{v.view, v.ledger, v.events}.decide(ctx, request, before, asks)
}

// request is what an object asks for of names of a kind.
func (v hostGuard) request(ctx context.Context, kind guard.Kind, before, obj client.Object) (*hostname.Request, error) {
	parents := v.view.Hosts.ParentsNow()
	user, err := v.view.Hosts.Names(ctx, obj, parents)
	if err != nil {
		return nil, err
	}
	user.Only(kind)
	request := &hostname.Request{User: user}
	if before == nil {
		return request, nil
	}
	was, err := v.view.Hosts.Names(ctx, before, parents)
	request.Before = was.Names
	return request, err
}

// hostDesk decides on host names, whatever uses them.
type hostDesk struct {
	view   *kube.View
	ledger *claim.Ledger
	events events.EventRecorder
}

// decide has the rules decide on the host names of an object, and claims for its namespace those that it asks for anew; if it only asks, it
// finds out whether it could. withdraw takes back what was claimed, for an object that is refused for something else.
func (h hostDesk) decide(
	ctx context.Context, r *hostname.Request, before client.Object, asks bool,
) (problems refusal.Problems, withdraw func(context.Context) error, err error) {
	verdict, err := kube.Decide(ctx, kube.LiveReader{View: h.view}, func(f *kube.Facts) hostname.Verdict {
		return hostname.Judge(f, r, h.ledger.GraceLeft)
	})
	if err != nil {
		return nil, nothing, err
	}
	withdraw = nothing
	if problems = verdict.Problems; len(problems) == 0 && len(verdict.Points) > 0 {
		problems, withdraw, err = h.claim(ctx, r, before, verdict, asks)
	}
	if len(problems) == 0 {
		return nil, withdraw, err
	}
	kube.Conflicts.WithLabelValues(kube.FromAdmission).Inc()
	if err != nil { // whatever it is, there is a conflict
		tell(log.FromContext(ctx), err)
	}
	if !asks {
		h.tell(r, problems)
	}
	return problems, withdraw, nil
}

// mostTold is how much of a refusal an event tells, in bytes: it has room for no more than 1,024.
const mostTold = 900

// tell tells those who keep a policy who has asked in vain, by an event about it: one for each namespace and reason, which counts.
func (h hostDesk) tell(r *hostname.Request, problems refusal.Problems) {
	policy := hostname.Refusing(h.view.Hosts.Policies(), r, problems)
	if policy == nil || h.events == nil {
		return
	}
	of := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: r.Namespace},
	}
	about := policy.DeepCopy()
	about.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("HostPolicy"))
	text := fmt.Sprintf("%s asked for a name in vain: %s", r.Holder, problems[0].Err)
	text = strings.ToValidUTF8(text[:min(len(text), mostTold)], "")
	h.events.Eventf(about, of, corev1.EventTypeWarning, problems[0].Reason, "Guard", "%s", text)
}

// claim claims names for a namespace. Whether they are more than it may have is looked at again once they are claimed: of two requests at a
// time, each may have found room for itself. By then the cache shows what was claimed before; see kube.Hosts.Overlapping.
func (h hostDesk) claim(
	ctx context.Context, r *hostname.Request, before client.Object, v hostname.Verdict, asks bool,
) (problems refusal.Problems, withdraw func(context.Context) error, err error) {
	by := r.Claimant(0)
	if before != nil {
		by.Generation = claim.AfterVersion(before.GetResourceVersion())
	}
	held, withdraw, err := reserveAll(ctx, h.ledger, asks, by, nil, v.Points)
	if held != nil {
		problems, err = conflictOf(ctx, h.view, held, v1beta1.ReasonHostConflict, field.NewPath("spec"), held.At.Host(),
			func(f *kube.Facts) refusal.Problems {
				return hostname.Conflict(f, r, held.At, held.Claim, h.ledger.GraceLeft)
			})
		return problems, withdraw, err
	}
	if err != nil || asks {
		return nil, withdraw, err
	}
	problems, err = kube.Decide(ctx, h.view, func(f *kube.Facts) refusal.Problems { return hostname.Limit(f, r, v.Fresh) })
	if len(problems) > 0 || err != nil {
		err = errors.Join(err, withdraw(ctx))
	}
	return problems, withdraw, err
}
