package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Which requests come here at all is narrowed down in config/webhook/patch.yaml.

// +kubebuilder:webhook:path=/validate--v1-service,mutating=false,failurePolicy=ignore,sideEffects=NoneOnDryRun,groups="",resources=services,verbs=create;update,versions=v1,name=service.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=3,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate--v1-service,mutating=false,failurePolicy=ignore,sideEffects=None,groups="",resources=services,verbs=delete,versions=v1,name=service-delete.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=1,matchPolicy=Equivalent

// +kubebuilder:webhook:path=/validate--v1-service,mutating=false,failurePolicy=fail,sideEffects=NoneOnDryRun,groups="",resources=services,verbs=update,versions=v1,name=service-ports.nginx-stream.jeffthecoder.xyz,admissionReviewVersions=v1,timeoutSeconds=3,matchPolicy=Equivalent

// serviceValidator decides on Services that ask for an Ingress, or as load balancers for addresses. A request that it can't
// decide on passes, with a warning: the reconcilers look at every Service again. Only the ports of a Service that is forwarded
// at an address of ours never change without a verdict.
type serviceValidator struct {
	view   *kube.View
	ledger *claim.Ledger
	events events.EventRecorder
}

var (
	_ admission.Validator[*corev1.Service] = &serviceValidator{}

	serviceKind = schema.GroupKind{Kind: "Service"}
)

const (
	// servicePatience is how long the API server waits for a decision, and would then go on without a warning.
	servicePatience = 3 * time.Second
	// deletePatience is the same for deletions.
	deletePatience = time.Second
	// named is how many objects a warning names.
	named = 3
)

// ValidateCreate judges a new Service, and claims the paths, addresses and ports that it asks for.
func (v *serviceValidator) ValidateCreate(ctx context.Context, svc *corev1.Service) (admission.Warnings, error) {
	return v.answer(ctx, servicePatience, svc, func(ctx context.Context) (decision, error) { return v.decide(ctx, nil, svc) })
}

// ValidateUpdate judges what changes of what a Service asks for, and whether the port of its Ingress is still there. All
// other changes pass. One that is forwarded as soon as it is stored fails when nothing can be said about it.
func (v *serviceValidator) ValidateUpdate(ctx context.Context, before, svc *corev1.Service) (admission.Warnings, error) {
	decide := func(ctx context.Context) (decision, error) { return v.decide(ctx, before, svc) }
	if !isForwarded(before, svc) {
		return v.answer(ctx, servicePatience, svc, decide)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline(ctx, servicePatience))
	defer cancel()
	return answer(ctx, serviceKind, svc.Name, decide)
}

// isForwarded says whether the ports of a Service change while its status lists an address that is Portcullis', as the
// conditions of service-ports in config/webhook/patch.yaml do: kube-proxy forwards every port at every address there.
func isForwarded(before, svc *corev1.Service) bool {
	class := svc.Spec.LoadBalancerClass
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || class != nil && *class != v1beta1.LoadBalancerClass {
		return false
	}
	isPort := func(a, b corev1.ServicePort) bool { return a.Protocol == b.Protocol && a.Port == b.Port }
	return !slices.EqualFunc(before.Spec.Ports, svc.Spec.Ports, isPort) &&
		slices.ContainsFunc(before.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
			return i.IP != "" && (class != nil || len(i.Ports) > 0)
		})
}

// ValidateDelete always passes, and warns when streams lose their upstream.
func (v *serviceValidator) ValidateDelete(ctx context.Context, svc *corev1.Service) (admission.Warnings, error) {
	return v.answer(ctx, deletePatience, svc, func(ctx context.Context) (decision, error) {
		streams, err := v.view.Streams.To(ctx, types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
		if err != nil || len(streams) == 0 {
			return decision{}, err
		}
		names := make([]string, 0, len(streams))
		for i := range streams {
			names = append(names, streams[i].Namespace+"/"+streams[i].Name)
		}
		slices.Sort(names)
		if len(names) > named {
			names = append(names[:named], "...")
		}
		return decision{warnings: admission.Warnings{fmt.Sprintf(
			"%d StreamIngress(es) send their traffic to Service %s/%s: %s; "+
				"their ports stay open, and lead nowhere until a Service of this name is back",
			len(streams), svc.Namespace, svc.Name, strings.Join(names, ", "))}}, nil
	})
}

// answer turns errors of our own into a warning: a Service must never wait for Portcullis.
func (v *serviceValidator) answer(
	ctx context.Context, patience time.Duration, svc *corev1.Service, decide func(context.Context) (decision, error),
) (admission.Warnings, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline(ctx, patience))
	defer cancel()
	warnings, err := answer(ctx, serviceKind, svc.Name, decide)
	if err == nil || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) {
		return warnings, err
	}
	return append(warnings, "portcullis could not check what the Service asks for now; it will, and report what is wrong by an event: "+
		err.Error()), nil
}

// decide judges a new Service (before is nil) or the change of one. Nothing is claimed for one that is refused, as far as
// can be told before.
func (v *serviceValidator) decide(ctx context.Context, before, svc *corev1.Service) (d decision, err error) {
	if before == nil {
		if err := ready(v.view); err != nil {
			return d, err
		}
		if err := isNew(ctx, v.view, svc, corev1.Resource("services")); err != nil {
			return d, err
		}
	}
	if _, requests := exposure.Annotation(svc); requests || v.view.LoadBalancers.IsOurs(svc) {
		if d.problems = refusal.UnreadableHeir(before, svc, before == nil, serviceKind.Kind, "what this one has"); len(d.problems) > 0 {
			return d, nil
		}
	}
	balancer, err := v.judgeLoadBalancer(ctx, before, svc)
	if err != nil {
		return d, err
	}
	if balancer != nil && len(balancer.problems) > 0 {
		return balancer.decision, nil
	}
	d, err = v.decideExposure(ctx, before, svc)
	if err != nil || len(d.problems) > 0 || balancer == nil {
		return d, err
	}
	d.warnings = append(d.warnings, balancer.warnings...)
	d.problems, err = v.reserve(ctx, before, balancer)
	return d, err
}

// decideExposure judges the annotation of a Service that requests an Ingress.
func (v *serviceValidator) decideExposure(ctx context.Context, before, svc *corev1.Service) (d decision, err error) {
	value, requests := exposure.Annotation(svc)
	if !requests {
		return d, nil
	}
	if before != nil {
		if was, had := exposure.Annotation(before); had && was == value {
			return v.ports(before, svc), nil
		}
	}
	if err := ready(v.view); err != nil {
		return d, err
	}
	request, points, problems, err := v.readExposure(ctx, svc)
	if err != nil || request == nil {
		return decision{problems: problems}, err
	}
	if d.warnings, err = v.classMissing(ctx, request.Class); err != nil {
		return d, err
	}
	if len(problems) > 0 {
		d.problems, err = v.promise(ctx, before, svc, points, problems)
		return d, err
	}
	d.problems, err = v.promiseHosts(ctx, before, svc, points)
	return d, err
}

// promiseHosts claims the hosts that a Service requests for its namespace, where a HostPolicy has that so, and then the paths on them.
func (v *serviceValidator) promiseHosts(
	ctx context.Context, before, svc *corev1.Service, points []claim.Coordinate,
) (refusal.Problems, error) {
	user, _ := hostname.Of(svc, v.view.Ingresses.Defaults)
	user.Only(hostname.Exposed)
	request := &hostname.Request{User: user}
	var stored client.Object
	if before != nil {
		was, _ := hostname.Of(before, v.view.Ingresses.Defaults)
		request.Before, stored = was.Names, before
	}
	desk := hostDesk{v.view, v.ledger, v.events}
	problems, withdraw, err := desk.decide(ctx, request, stored, isDryRun(ctx))
	if err != nil || len(problems) > 0 {
		return problems, err
	}
	given, err := kube.Decide(ctx, v.view, func(f *kube.Facts) []string { return hostname.Given(f, &request.User) })
	if err != nil {
		return nil, err
	}
	// Its Ingress serves nothing more on a name that it has handed over, and nobody else could.
	points = slices.DeleteFunc(slices.Clone(points), func(at claim.Coordinate) bool { return slices.Contains(given, at.Host()) })
	problems, err = v.promise(ctx, before, svc, points, nil)
	if len(problems) > 0 {
		err = errors.Join(err, withdraw(ctx))
	}
	return problems, err
}

// readExposure reads a request for an Ingress, and the points that the Service has to have for it, and says what is wrong with it. request
// is nil if it can't be read, or is for more points than one Service gets.
func (v *serviceValidator) readExposure(
	ctx context.Context, svc *corev1.Service,
) (request *exposure.Exposure, points []claim.Coordinate, problems refusal.Problems, err error) {
	problems, err = kube.Decide(ctx, v.view, func(facts *kube.Facts) refusal.Problems {
		e, problems := exposure.RequestOf(svc, facts.Defaults(client.ObjectKeyFromObject(svc)))
		if len(problems) == 0 {
			problems = exposure.Limit(facts, svc, e)
		}
		if len(problems) > 0 {
			return problems
		}
		request, points = &e, exposure.Wanted(facts, e)
		_, problems = exposure.Writable(facts, svc, e)
		return problems
	})
	return request, points, problems, err
}

// ports judges a change of the ports under an annotation that stays: it may not take the port away that the Ingress
// leads to. An annotation that led nowhere before does not keep anybody from changing the ports.
func (v *serviceValidator) ports(before, svc *corev1.Service) decision {
	if equality.Semantic.DeepEqual(before.Spec.Ports, svc.Spec.Ports) {
		return decision{}
	}
	e, problems := exposure.RequestOf(svc, v.view.Ingresses.Defaults)
	if len(problems) > 0 {
		return decision{}
	}
	if _, err := e.FindPort(before); err != nil {
		return decision{}
	}
	if _, err := e.FindPort(svc); err != nil {
		return decision{problems: refusal.One(v1beta1.ReasonServicePortNotFound, err)}
	}
	return decision{}
}

// classMissing warns of an IngressClass that does not exist: nothing would serve the Ingress.
func (v *serviceValidator) classMissing(ctx context.Context, class string) (admission.Warnings, error) {
	there, err := v.view.Ingresses.HasClass(ctx, class)
	switch {
	case err != nil || there:
		return nil, err
	case class == "":
		return admission.Warnings{"no IngressClass is named, and none is marked as the cluster's default: " +
			"until one is, no proxy may serve the Ingress; name one, for example class=nginx"}, nil
	default:
		return admission.Warnings{fmt.Sprintf("there is no IngressClass %q: until there is, no proxy serves the Ingress", class)}, nil
	}
}

// promise claims the points that a Service requests and does not hold yet, if nothing is wrong with it. It returns what is.
func (v *serviceValidator) promise(
	ctx context.Context, before, svc *corev1.Service, points []claim.Coordinate, problems refusal.Problems,
) (refusal.Problems, error) {
	var unheld []claim.Coordinate
	conflicts, err := kube.Decide(ctx, kube.LiveReader{View: v.view}, func(facts *kube.Facts) refusal.Problems {
		points = exposure.But(points, exposure.LostBefore(facts, before, svc))
		conflicts := exposure.Conflicts(facts, svc, points, v.ledger.GraceLeft)
		if len(problems)+len(conflicts) == 0 {
			unheld = exposure.Unheld(facts, before, points)
		}
		return conflicts
	})
	problems = append(problems, counted(conflicts)...)
	if err != nil || len(problems) > 0 {
		return problems, err
	}
	if len(unheld) > 0 && svc.DeletionTimestamp != nil {
		return exposure.BeingDeleted(), nil
	}
	by := claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID}
	if before != nil {
		by.Generation = claim.AfterVersion(before.ResourceVersion)
	}
	err = reserving(ctx, v.ledger)(ctx, by, exposure.MayTake(svc), unheld...)
	if held, ok := errors.AsType[*claim.HeldError](err); ok {
		problems, err := kube.Decide(ctx, v.view, func(facts *kube.Facts) refusal.Problems {
			return exposure.Conflict(facts, svc, held.At, held.Claim, v.ledger.GraceLeft(held.Claim))
		})
		return counted(problems), err
	}
	return nil, err
}
