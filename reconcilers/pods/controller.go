// Package pods keeps the PodToIP of each Pod, and records in the log and in metrics what happens to Pods.
package pods

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/podtoip"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// reconciler keeps the PodToIP of each Pod, and records in the log and in metrics what happens to Pods.
type reconciler struct {
	view        *kube.View
	writer      client.Client
	mode        podtoip.Mode
	recent      *recentChanges
	transitions transitionLog
}

// Options are what the reconciler of Pods works with.
type Options struct {
	View  *kube.View
	Kinds *kube.Kinds
	// Live reads past the cache.
	Live client.Reader
	// Mode says which Pods get PodToIPs.
	Mode podtoip.Mode
}

// Setup watches Pods, unless PodToIPs are off: then those that were made before are deleted, and nothing is watched.
func Setup(mgr manager.Manager, o Options) error {
	registerMetrics()
	if o.Mode == podtoip.Off {
		return mgr.Add(manager.RunnableFunc(sweeper{live: o.Live, writer: mgr.GetClient()}.run))
	}
	r := &reconciler{
		view: o.View, writer: mgr.GetClient(), mode: o.Mode, recent: newRecentChanges(clock.RealClock{}),
		transitions: transitionLog{log: mgr.GetLogger().WithName("pods")},
	}
	build := builder.ControllerManagedBy(mgr).Named("pod").
		Watches(&corev1.Pod{}, r.onPod()).
		Watches(&v1beta1.PodToIP{}, onPodToIP())
	if o.Mode == podtoip.Labeled {
		build.Watches(kube.NamespaceObject(), r.onNamespace(), builder.OnlyMetadata)
	}
	options := watch.Orderly[reconcile.Request](16)
	options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLongest)
	return build.WithOptions(options).Complete(watch.Guarded(o.View, o.Kinds, r))
}

const (
	// retryFirst is how long after a failure it is tried again; after each further one it takes twice as long, up to
	// retryLongest: a PodToIP that is wrong misleads whoever reads it.
	retryFirst   = 50 * time.Millisecond
	retryLongest = time.Minute
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=podtoips,verbs=list;watch;create;patch;delete

// Reconcile keeps the PodToIP of one name.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod, err := r.view.Pods.Get(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	current, err := r.view.Pods.PodToIP(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	covered, err := r.covers(ctx, req.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	change := podtoip.Plan(current, pod, covered)
	if wait := r.recent.begin(req.NamespacedName, versionOf(current), change); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.carryOut(ctx, req.NamespacedName, change); err != nil {
		r.recent.forget(req.NamespacedName)
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}

// versionOf is the version of a PodToIP, "" when there is none.
func versionOf(p *v1beta1.PodToIP) string {
	if p == nil {
		return ""
	}
	return p.ResourceVersion
}

// covers says whether the Pods of a namespace get PodToIPs.
func (r *reconciler) covers(ctx context.Context, namespace string) (bool, error) {
	if r.mode == podtoip.All {
		return true, nil
	}
	labels, err := r.view.NamespaceLabels(ctx, namespace)
	return r.mode.Covers(labels), err
}

// carryOut makes a change to a PodToIP.
func (r *reconciler) carryOut(ctx context.Context, key types.NamespacedName, change podtoip.Change) error {
	if change.Delete != "" {
		former := &v1beta1.PodToIP{}
		former.Namespace, former.Name, former.UID = key.Namespace, key.Name, change.Delete
		if err := removePodToIP(ctx, r.writer, former); err != nil {
			return err
		}
	}
	if change.Apply == nil {
		return nil
	}
	apply, err := podToIPOf(key, change)
	if err != nil {
		return err
	}
	err = r.writer.Apply(ctx, apply, write.AsOwner...)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // its Pods go, too
	}
	if err != nil {
		podToIPFailures.WithLabelValues("apply").Inc()
		return fmt.Errorf("applying PodToIP %s: %w", key, err)
	}
	log.FromContext(ctx).V(1).Info("applied", "ips", change.Apply.PodAddresses)
	return nil
}

// removePodToIP deletes a PodToIP. When there is another one of its name by now, that one stays.
func removePodToIP(ctx context.Context, c client.Client, p client.Object) error {
	err := write.Remove(ctx, c, p)
	if apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		podToIPFailures.WithLabelValues("delete").Inc()
		return fmt.Errorf("deleting PodToIP %s: %w", client.ObjectKeyFromObject(p), err)
	}
	log.FromContext(ctx).V(1).Info("deleted")
	return nil
}

// podToIPOf is what to apply: all fields, also those that are empty. The Pod owns it, so that the garbage collector
// deletes it where Portcullis can't.
func podToIPOf(key types.NamespacedName, change podtoip.Change) (runtime.ApplyConfiguration, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(change.Apply)
	if err != nil {
		return nil, fmt.Errorf("writing down PodToIP %s: %w", key, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"ownerReferences": []any{map[string]any{
			"apiVersion": "v1", "kind": "Pod", "name": key.Name, "uid": string(change.Owner),
		}}},
		"spec": spec,
	}}
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("PodToIP"))
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return client.ApplyConfigurationFromUnstructured(u), nil
}
