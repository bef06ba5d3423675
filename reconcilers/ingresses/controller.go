// Package ingresses keeps the Ingress and the Certificate of each annotated Service.
package ingresses

import (
	"context"
	"errors"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// ingressReconciler keeps the Ingress, and the Certificate, of each Service that requests one.
type ingressReconciler struct {
	access.Access
	// reported is what was last reported about the Services that request an Ingress.
	reported *report.ReportedState
	// handing is who waits for whom where points are handed over.
	handing *handing
	// heirPatience is how long an Ingress keeps what was handed over until that of the heir serves it.
	heirPatience time.Duration
}

// Setup adds the reconciler of annotated Services to the manager. heirPatience is how long an Ingress keeps what was handed over until that
// of the heir serves it.
func Setup(mgr manager.Manager, b access.Access, heirPatience time.Duration) error {
	r := &ingressReconciler{Access: b, reported: report.NewReportedState(), handing: newHanding(), heirPatience: heirPatience}
	registerIngressMetrics(r.reported)
	return builder.ControllerManagedBy(mgr).Named("ingress").
		For(&corev1.Service{}, builder.WithPredicates(requestChanged())).
		Watches(&networkingv1.Ingress{}, handler.EnqueueRequestsFromMapFunc(r.serviceOfName)).
		Watches(&v1beta1.EdgeClaim{}, r.onHTTPClaim()).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.heirOf), builder.WithPredicates(heirChanged())).
		WatchesRawSource(watch.OnHostPolicies(b.View, r.allExposed)). // any may have waited for a policy to change
		WatchesRawSource(watch.OnOlderReplicas(b.View, r.allExposed)).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.selected),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(watch.WhenInstalled(mgr, &cmv1.Certificate{},
			handler.EnqueueRequestsFromMapFunc(r.serviceOfName), r.certManagerCame)).
		WithOptions(watch.Orderly[reconcile.Request](16)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=list;watch
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=get;list;watch;create;patch;delete

// Reconcile makes the Ingress of one Service what the Service requests.
func (r *ingressReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	svc, err := r.View.Service(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case svc == nil || !requestsIngress(svc):
		return reconcile.Result{}, r.withdraw(ctx, req.NamespacedName, svc)
	case svc.DeletionTimestamp != nil:
		return outcome(r.yield(ctx, svc)) // until it is gone it keeps what it has; the garbage collector may be taking that away
	}
	w, problems, err := r.judge(ctx, svc)
	if err == nil && len(problems) == 0 {
		problems, err = r.realize(ctx, svc, w)
	}
	var again time.Duration
	if err == nil {
		again, err = r.conclude(ctx, svc, w, problems)
	}
	return outcome(again, err)
}

// outcome is the result of a look at a Service after which there is another one.
func outcome(again time.Duration, err error) (reconcile.Result, error) {
	if errors.Is(err, write.ErrStale) {
		return reconcile.Result{RequeueAfter: watch.CacheLag}, nil
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// conclude reports what has become of what a Service requests, and returns when to look again, 0 for never.
func (r *ingressReconciler) conclude(
	ctx context.Context, svc *corev1.Service, w wish, problems refusal.Problems,
) (again time.Duration, err error) {
	r.given(svc, w.without())
	if len(problems) > 0 {
		r.refuse(svc, w.Class, problems)
		again, err := r.whenRefused(ctx, svc, problems, w)
		if err != nil {
			return 0, err
		}
		yields, err := r.yield(ctx, svc)
		return watch.Soonest(again, yields), err
	}
	r.handing.refuses(client.ObjectKeyFromObject(svc), false)
	if w.waits {
		again = heirShown
	}
	if w.hasNothing() {
		r.reported.RecordState(svc, w.Class, "")
		return again, nil
	}
	return again, r.serve(ctx, svc, w)
}

// wish is what a Service requests, judged.
type wish struct {
	exposure.Exposure
	port int32
	// lost are the points that the Service has handed over, and is not to have; waits says that its Ingress has others yet. withheld are
	// those that it does not ask for, as it hands over what it has, and unserved those on names that it has handed over.
	lost, withheld, unserved []claim.Coordinate
	waits                    bool
}

// without are the points that the Service is not to have.
func (w wish) without() []claim.Coordinate {
	without := slices.Concat(w.lost, w.withheld)
	return append(without, exposure.But(w.unserved, without)...)
}

// hasNothing says whether nothing is left of what the Service requests.
func (w wish) hasNothing() bool {
	without := w.without()
	return len(without) > 0 && len(exposure.But(w.Points(), without)) == 0
}

// spec is what the Ingress is to say.
func (w wish) spec(svc *corev1.Service) networkingv1.IngressSpec {
	whole := w.IngressSpec(svc.Name, w.port)
	return exposure.Without(&whole, w.without())
}

// certified is what the Certificate is for: the hosts of which anything is left.
func (w wish) certified() exposure.Exposure {
	left := w.Exposure
	left.Hosts = nil
	for _, rule := range exposure.Without(new(w.IngressSpec("", w.port)), w.without()).Rules {
		left.Hosts = append(left.Hosts, rule.Host)
	}
	return left
}

// verdict is what the rules say of a request: what is wrong with it, or else those of its points that somebody else holds.
type verdict struct {
	wish
	problems, conflicts refusal.Problems
	// points are those that the Service has to have.
	points []claim.Coordinate
	// hosts are the names that the namespace of the Service has to have.
	hosts hostname.Verdict
}

// judge meets the verdict that admission would give, and claims what the Service does not hold yet.
func (r *ingressReconciler) judge(ctx context.Context, svc *corev1.Service) (wish, refusal.Problems, error) {
	v, err := kube.Decide(ctx, r.View, func(facts *kube.Facts) (v verdict) {
		v.Exposure, v.problems = exposure.RequestOf(svc, facts.Defaults(client.ObjectKeyFromObject(svc)))
		if len(v.problems) == 0 {
			v.problems = exposure.Limit(facts, svc, v.Exposure)
		}
		if len(v.problems) == 0 {
			v.port, v.problems = exposure.Writable(facts, svc, v.Exposure)
		}
		if len(v.problems) == 0 {
			request := r.hostsOf(svc, facts.Ingress(client.ObjectKeyFromObject(svc)))
			given := hostname.Given(facts, &request.User)
			request.Drop(given...) // what is asked for beside them is as it would be without
			v.unserved = exposure.UnservedOn(facts, svc, v.Exposure, given)
			v.hosts = hostname.Judge(facts, request, r.Ledger.GraceLeft)
			v.problems = v.hosts.Problems
		}
		if len(v.problems) == 0 {
			v.lost, v.withheld = exposure.Lost(facts, svc, v.Exposure), exposure.Withheld(facts, svc, v.Exposure)
			v.points = exposure.But(exposure.Wanted(facts, v.Exposure), v.without())
			v.conflicts = exposure.Conflicts(facts, svc, v.points, r.Ledger.GraceLeft)
		}
		return v
	})
	switch {
	case err != nil:
		return wish{}, nil, err
	case len(v.problems) > 0 && v.problems[0].Reason == v1beta1.ReasonHostConflict:
		return v.wish, r.conflicts(svc, v.problems), nil
	case len(v.problems) > 0:
		return v.wish, v.problems, nil
	case len(v.conflicts) > 0:
		return v.wish, r.conflicts(svc, v.conflicts), nil
	}
	if err := r.confirmWithheld(ctx, svc, v.withheld); err != nil {
		return v.wish, nil, err
	}
	if v.lost, v.waits, err = r.ripe(ctx, svc, v.lost); err != nil {
		return v.wish, nil, err
	}
	problems, err := r.claimHosts(ctx, svc, v.hosts.Points, v.hosts.Fresh)
	if err == nil && len(problems) == 0 {
		problems, err = r.claimAll(ctx, svc, v.points)
	}
	return v.wish, problems, err
}

// claimAll claims all points for a Service that is stored, as far as nobody else holds one.
func (r *ingressReconciler) claimAll(ctx context.Context, svc *corev1.Service, points []claim.Coordinate) (refusal.Problems, error) {
	by := claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID, Generation: claim.Version(svc.ResourceVersion)}
	return r.claimEach(ctx, svc, by, exposure.MayTake(svc), points, func(facts *kube.Facts, held *claim.HeldError) refusal.Problems {
		return exposure.Conflict(facts, svc, held.At, held.Claim, r.Ledger.GraceLeft(held.Claim))
	})
}

// claimEach claims points for a Service, or for its namespace, until one is somebody else's: then conflict says so.
func (r *ingressReconciler) claimEach(
	ctx context.Context, svc *corev1.Service, by claim.Claimant, mayTake claim.MayTake, points []claim.Coordinate,
	conflict func(*kube.Facts, *claim.HeldError) refusal.Problems,
) (refusal.Problems, error) {
	for _, at := range points {
		held, err := r.holds(ctx, by.Holder, at)
		if err != nil {
			return nil, err
		}
		if held {
			continue
		}
		_, err = r.Ledger.Claim(ctx, by, mayTake, at)
		if held, ok := errors.AsType[*claim.HeldError](err); ok {
			problems, err := kube.Decide(ctx, r.View, func(facts *kube.Facts) refusal.Problems { return conflict(facts, held) })
			return r.conflicts(svc, problems), err
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// holds says whether a holder has the claim on a point. The claim of a Service that was just admitted may not be in the
// cache yet, and a look is cheaper than an attempt to claim again.
func (r *ingressReconciler) holds(ctx context.Context, by claim.Holder, at claim.Coordinate) (bool, error) {
	held, err := r.View.Claim(ctx, at.Name())
	if err != nil || held != nil {
		return err == nil && claim.HolderOf(held) == by, err
	}
	if held, err = r.Ledger.Store.Get(ctx, at.Name()); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return claim.HolderOf(held) == by, nil
}

// conflicts counts a conflict, once for each change of what there is to say.
func (r *ingressReconciler) conflicts(svc *corev1.Service, problems refusal.Problems) refusal.Problems {
	if len(problems) > 0 && r.reported.Differs(svc, report.TopicIngress, report.Text(problems)) {
		kube.Conflicts.WithLabelValues(kube.FromReconciler).Inc()
	}
	return problems
}

func requestsIngress(svc *corev1.Service) bool {
	_, requests := exposure.Annotation(svc)
	return requests
}
