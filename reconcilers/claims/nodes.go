package claims

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// classWants says whether a class that has a port of the nodes for its proxy is there, and somebody has a claim on that port of
// any class whose proxy is on the nodes, or such a proxy is still told to listen there.
func (s *holderReading) classWants(ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate) (seen claim.HolderState, err error) {
	class := &v1beta1.StreamIngressClass{}
	if seen.Exists, err = s.read(ctx, s.holder.Key(), class); err != nil {
		return seen, err
	}
	seen.UID, seen.Generation = class.UID, class.Generation
	if seen.Wants, err = s.isServed(ctx, c, at); err == nil && !seen.Wants {
		seen.Wants, err = s.isListed(ctx, at) // after the claims: what has none by now is not written any more
	}
	seen.Exists = seen.Exists || seen.Wants
	return seen, err
}

// isListed says whether the ConfigMap of a class whose proxy is on the nodes lists a port of them.
func (s *holderReading) isListed(ctx context.Context, at claim.Coordinate) (bool, error) {
	for _, class := range s.classes {
		ref := class.ConfigMap(at.Protocol())
		if ref == nil {
			continue
		}
		cm, err := s.configMap(ctx, *ref)
		if err != nil {
			return false, err
		}
		if _, listed := cm.Data[stream.Key(at.Port())]; listed {
			return true, nil
		}
	}
	return false, nil
}

// configMap reads a ConfigMap that a class names, an empty one where there is none: as it is watched, or live where the holder is.
func (s *holderReading) configMap(ctx context.Context, ref v1beta1.ObjectReference) (*corev1.ConfigMap, error) {
	if s.reader == s.view.Reader {
		cm, err := s.view.Targets.ConfigMap(ctx, ref)
		return cmp.Or(cm, &corev1.ConfigMap{}), err
	}
	cm := &corev1.ConfigMap{}
	_, err := s.read(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, cm)
	return cm, err
}

// enqueueOnNodes asks for a look at what a class has of the nodes, if it has a port there.
func (r *claimReconciler) enqueueOnNodes(ctx context.Context, q claimQueue, protocol v1beta1.Protocol, port int32) {
	c, err := r.View.Claim(ctx, claim.NodePort(string(protocol), port).Name())
	if err == nil && c != nil && claim.HolderOf(c).IsClass() {
		enqueueClaim(q, c)
	}
}

// onConfigMap looks at the claims of a ConfigMap that a class names, and at what classes have of the nodes for ports of which the
// entries have changed.
func (r *claimReconciler) onConfigMap() handler.TypedEventHandler[client.Object, claimRequest] {
	own := onHolder(claim.ConfigMapHolder, predicate.Funcs{})
	lookOnNodes := func(ctx context.Context, q claimQueue, before, after map[string]string) {
		for _, port := range stream.ChangedPorts(before, after) {
			r.enqueueOnNodes(ctx, q, v1beta1.TCP, port)
			r.enqueueOnNodes(ctx, q, v1beta1.UDP, port)
		}
	}
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: own.Create,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q claimQueue) {
			own.Update(ctx, e, q)
			lookOnNodes(ctx, q, e.ObjectOld.(*corev1.ConfigMap).Data, e.ObjectNew.(*corev1.ConfigMap).Data)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			own.Delete(ctx, e, q)
			lookOnNodes(ctx, q, e.Object.(*corev1.ConfigMap).Data, nil)
		},
	}
}
