package streams

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// writeSet writes one ListenerSet. Where the API server refuses it, the listeners that are new are tried one by one, so that one that it
// does not let in keeps none of the others waiting, nor those that are to go. Where it lets none into a new set, or a quota is used up,
// no further set is tried in this look.
func (r *classReconciler) writeSet(
	ctx context.Context, class *v1beta1.StreamIngressClass, stored *gatewayv1.ListenerSet, planned stream.PlannedSet, pass *listenerPass,
) error {
	added := slices.DeleteFunc(slices.Clone(planned.Listeners), func(l stream.Listener) bool { return hasListener(stored, l.Port) })
	if stored == nil && pass.full != "" {
		pass.refuseAll(added, pass.full)
		return nil
	}
	pass.wrote = true
	_, err := r.putSet(ctx, class, stored, planned.Name, planned.Listeners)
	if err == nil || apierrors.IsConflict(err) || !write.IsRefusal(err) {
		return err
	}
	if stored == nil && (write.IsFull(err) || apierrors.IsNotFound(err)) {
		pass.full = refusedSet(class, planned.Name, err)
		pass.refuseAll(added, pass.full)
		return nil
	}
	return r.addOneByOne(ctx, class, stored, planned, added, pass)
}

// refusedSet tells of a ListenerSet that the API server refuses.
func refusedSet(class *v1beta1.StreamIngressClass, name string, err error) string {
	return fmt.Sprintf("ListenerSet %s/%s: %s", class.Spec.Gateway.Namespace, name, err)
}

// addOneByOne writes what a ListenerSet is to have of the listeners that it has, and adds those that are new one by one.
func (r *classReconciler) addOneByOne(
	ctx context.Context, class *v1beta1.StreamIngressClass, stored *gatewayv1.ListenerSet, planned stream.PlannedSet, added []stream.Listener,
	pass *listenerPass,
) (err error) {
	listeners := slices.DeleteFunc(slices.Clone(planned.Listeners), func(l stream.Listener) bool { return slices.Contains(added, l) })
	written := stored
	if stored != nil && !equality.Semantic.DeepEqual(stream.ListenerSetSpec(*class.Spec.Gateway, listeners), stored.Spec) {
		if written, err = r.putSet(ctx, class, stored, planned.Name, listeners); err != nil {
			return err
		}
	}
	for _, l := range added {
		next, err := r.putSet(ctx, class, written, planned.Name, append(slices.Clone(listeners), l))
		switch {
		case err == nil:
			written, listeners = next, append(listeners, l)
		case apierrors.IsConflict(err) || !write.IsRefusal(err):
			return err
		default:
			pass.refuseAll([]stream.Listener{l}, refusedSet(class, planned.Name, err))
			if written == nil {
				pass.full = refusedSet(class, planned.Name, err)
			}
		}
	}
	if written != nil {
		pass.full = ""
	}
	return nil
}

// hasListener says whether a ListenerSet has a listener of ours for a port.
func hasListener(set *gatewayv1.ListenerSet, port stream.PortKey) bool {
	if set == nil {
		return false
	}
	_, has := stream.ListenerIn(set, port)
	return has
}

// refuseAll notes of some listeners that the API server refuses them.
func (p *listenerPass) refuseAll(listeners []stream.Listener, message string) {
	for _, l := range listeners {
		p.refuse(l.Port, v1beta1.ReasonRouteRefused, message)
	}
}

// putSet writes a ListenerSet that is to have some listeners, and returns it as it is then, nil if it is gone.
func (r *classReconciler) putSet(
	ctx context.Context, class *v1beta1.StreamIngressClass, stored *gatewayv1.ListenerSet, name string, listeners []stream.Listener,
) (*gatewayv1.ListenerSet, error) {
	spec := stream.ListenerSetSpec(*class.Spec.Gateway, listeners)
	log.FromContext(ctx).V(1).Info("writing", "listenerSet", name, "listeners", len(listeners))
	switch {
	case stored == nil:
		set := &gatewayv1.ListenerSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: class.Spec.Gateway.Namespace, Name: name, Labels: map[string]string{v1beta1.LabelClass: class.Name},
			},
			Spec: spec,
		}
		return set, write.Create(ctx, r.Writer, set)
	case len(listeners) == 0:
		return nil, write.RemoveUnchanged(ctx, r.Writer, stored)
	default:
		next := stored.DeepCopy()
		next.Spec = spec
		return next, write.Change(ctx, r.Writer, stored, next)
	}
}
