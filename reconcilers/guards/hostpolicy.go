package guards

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// hostPolicyReconciler says in the status of each HostPolicy whether all of it counts.
type hostPolicyReconciler struct {
	access.Access
}

func setupHostPolicy(mgr manager.Manager, a access.Access) error {
	r := &hostPolicyReconciler{a}
	return builder.ControllerManagedBy(mgr).Named("hostpolicy").
		WatchesRawSource(watch.OnHostPolicies(a.View, r.everyPolicy)).
		WithOptions(watch.Orderly[reconcile.Request](1)).
		Complete(watch.Guarded(a.View, a.Kinds, r))
}

// everyPolicy asks for a look at all policies: what counts of one depends on the others.
func (r *hostPolicyReconciler) everyPolicy(ctx context.Context) (requests []reconcile.Request) {
	var list v1beta1.HostPolicyList
	if err := r.View.Reader.List(ctx, &list); err != nil {
		log.FromContext(ctx).Error(err, "could not list HostPolicies")
	}
	for i := range list.Items {
		requests = append(requests, watch.ForObject(&list.Items[i]))
	}
	return requests
}

// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=hostpolicies/status,verbs=patch

// Reconcile brings the status of one policy up to date.
func (r *hostPolicyReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	policy := &v1beta1.HostPolicy{}
	if err := r.View.Reader.Get(ctx, req.NamespacedName, policy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	next := policy.DeepCopy()
	accepted := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonAccepted, Message: "all of the policy counts"}
	problems := hostname.PolicyProblems(hostname.Read(policy), r.View.Hosts.Policies().Conflicts(policy.Name))
	if len(problems) > 0 {
		accepted = report.Failed(problems)
	}
	accepted.Type, accepted.ObservedGeneration = v1beta1.ConditionAccepted, policy.Generation
	report.SetCondition(&next.Status.Conditions, accepted)
	if equality.Semantic.DeepEqual(policy.Status, next.Status) {
		return reconcile.Result{}, nil
	}
	before := meta.FindStatusCondition(policy.Status.Conditions, v1beta1.ConditionAccepted)
	written, err := write.ChangeStatus(ctx, r.Writer, policy, next)
	if err != nil {
		return watch.Later(err)
	}
	if written && (before == nil && len(problems) > 0 || before != nil && before.Reason != accepted.Reason) {
		report.ConditionChanged(r.Events, next, accepted)
	}
	return reconcile.Result{}, nil
}
