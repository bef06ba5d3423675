package pods

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/podtoip"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// onPod records what happens to Pods, and looks at those whose PodToIP may have to change.
func (r *reconciler) onPod() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
			pod := kube.PodOf(e.Object)
			if e.IsInInitialList {
				r.transitions.found(pod)
			} else {
				r.transitions.record(podtoip.Transitions(nil, pod))
			}
			if _, wanted := podtoip.Wanted(pod); wanted && r.mayCover(ctx, pod.Namespace) {
				q.Add(watch.ForObject(pod))
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q watch.Queue) {
			before, after := kube.PodOf(e.ObjectOld), kube.PodOf(e.ObjectNew)
			r.transitions.record(podtoip.Transitions(before, after))
			if podtoip.Concerns(before, after) {
				q.Add(watch.ForObject(after))
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q watch.Queue) {
			r.transitions.record(podtoip.Transitions(kube.PodOf(e.Object), nil))
			q.Add(watch.ForObject(e.Object))
		},
	}
}

// mayCover says whether the Pods of a namespace may get PodToIPs. Most don't where it takes a label, and a queue that once had all Pods
// of a cluster keeps the memory for them. Of a namespace that is labeled later onNamespace tells: its Pods are cached by then.
func (r *reconciler) mayCover(ctx context.Context, namespace string) bool {
	covered, err := r.covers(ctx, namespace)
	return covered || err != nil // Reconcile will tell, and try again
}

// onPodToIP looks at every PodToIP that is there at the start, so that those whose Pod vanished meanwhile go, and at
// those that change: by our own hand, or by somebody else's.
func onPodToIP() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q watch.Queue) {
			podToIPs.Inc()
			q.Add(watch.ForObject(e.Object))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q watch.Queue) { q.Add(watch.ForObject(e.ObjectNew)) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q watch.Queue) {
			podToIPs.Dec()
			q.Add(watch.ForObject(e.Object))
		},
	}
}

// onNamespace looks at everything in a namespace that was labeled or unlabeled. One that appears, or is there at the start, is looked at,
// too: its Pods may have been seen before it, or before its label.
func (r *reconciler) onNamespace() handler.EventHandler {
	look := func(ctx context.Context, namespace client.Object, q watch.Queue) {
		names, err := r.view.Pods.Names(ctx, namespace.GetName())
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the Pods of a namespace", "namespace", namespace.GetName())
		}
		for _, name := range names {
			q.Add(reconcile.Request{NamespacedName: name})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
			if r.mode.Covers(e.Object.GetLabels()) {
				look(ctx, e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			if r.mode.Covers(e.ObjectOld.GetLabels()) != r.mode.Covers(e.ObjectNew.GetLabels()) {
				look(ctx, e.ObjectNew, q)
			}
		},
	}
}
