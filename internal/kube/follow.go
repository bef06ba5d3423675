package kube

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// follow has the events of a kind told as a cache comes to know of them. What is returned says whether all that was there
// at the start has been told.
func follow(
	ctx context.Context, c cache.Informers, kind client.Object, told toolscache.ResourceEventHandlerFuncs,
) (toolscache.ResourceEventHandlerRegistration, error) {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(told)
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	return registration, nil
}

// followPoints has told which points come to have a claim in a cache, and which have none any longer.
func followPoints(
	ctx context.Context, c cache.Cache, set func(obj any, claimed bool),
) (toolscache.ResourceEventHandlerRegistration, error) {
	return follow(ctx, c, &v1beta1.EdgeClaim{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { set(obj, true) },
		DeleteFunc: func(obj any) { set(obj, false) },
	})
}

// pointOf is the point of the claim that an event is about, the zero Coordinate if that can't be told.
func pointOf(obj any) claim.Coordinate {
	c, ok := objectOf(obj).(*v1beta1.EdgeClaim)
	if !ok {
		return claim.Coordinate{}
	}
	at, err := claim.Parse(c.Name)
	if err != nil {
		return claim.Coordinate{}
	}
	return at
}

// objectOf is the object that an event is about: of one that went unseen, the last that was seen of it.
func objectOf(obj any) any {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}
