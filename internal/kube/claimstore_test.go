package kube

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestClaimStoreAnswersAsTheLedgerExpects holds the promises of claim.Store.
func TestClaimStoreAnswersAsTheLedgerExpects(t *testing.T) {
	var deleted client.DeleteOptions
	var listed client.ListOptions
	c := clientOf(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			listed = client.ListOptions{}
			listed.ApplyOptions(opts)
			return c.List(ctx, list, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			deleted = client.DeleteOptions{}
			deleted.ApplyOptions(opts)
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
	store, ctx := claimStore{live: c, writer: c, written: newWritten(clock.RealClock{}), reads: &sharedReads[*v1beta1.EdgeClaim]{}}, t.Context()
	first := claimOn("public", v1beta1.TCP, 80, claim.StreamHolder("shop", "a"))
	if _, err := store.Get(ctx, first.Name); !apierrors.IsNotFound(err) {
		t.Errorf("Get of none: %v", err)
	}
	if err := store.Create(ctx, first); err != nil || first.ResourceVersion == "" {
		t.Fatalf("Create: %v, version %q", err, first.ResourceVersion)
	}
	if err := store.Create(ctx, claimOn("public", v1beta1.TCP, 80, claim.StreamHolder("shop", "b"))); !apierrors.IsAlreadyExists(err) {
		t.Errorf("Create of the second: %v", err)
	}
	got, err := store.Get(ctx, first.Name)
	if diff := cmp.Diff(first.Spec, got.Spec); err != nil || diff != "" {
		t.Errorf("Get: %v %s", err, diff)
	}
	if list, err := store.List(ctx, "stream/public", first.ResourceVersion); err != nil || len(list) != 1 || list[0].Name != first.Name ||
		listed.Raw.ResourceVersion != first.ResourceVersion || listed.Raw.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		t.Errorf("List since a version: %v %v, with %+v", list, err, listed.Raw)
	}
	if list, err := store.List(ctx, "stream/other", ""); err != nil || len(list) != 0 || listed.Raw.ResourceVersion != "" || listed.Raw.ResourceVersionMatch != "" {
		t.Errorf("List of another scope: %v %v, with %+v", list, err, listed.Raw)
	}
	stale := got.DeepCopy()
	got.Spec.Holder.Generation = 2
	if err := store.Update(ctx, got); err != nil || got.ResourceVersion == stale.ResourceVersion {
		t.Errorf("Update: %v", err)
	}
	if err := store.Update(ctx, stale.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("Update of an old version: %v", err)
	}
	if err := store.Delete(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("Delete of an old version: %v", err)
	}
	got.UID = "life"
	if err := store.Delete(ctx, got); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if p := deleted.Preconditions; p == nil || p.UID == nil || *p.UID != "life" || p.ResourceVersion == nil || *p.ResourceVersion != got.ResourceVersion {
		t.Errorf("Delete had the preconditions %+v", p)
	}
	if err := store.Delete(ctx, got); !apierrors.IsNotFound(err) {
		t.Errorf("Delete of none: %v", err)
	}
}

func TestNewLedgerAsksTheCacheFirst(t *testing.T) {
	stored := claimOn("public", v1beta1.TCP, 80, claim.StreamHolder("shop", "a"))
	v := viewOf(t, stored)
	l := NewLedger(nil, nil, v, claim.Ledger{Grace: claim.DefaultGrace})
	if got := l.Cached(stored.Name); got == nil || got.Name != stored.Name {
		t.Errorf("Cached: %v", got)
	}
	if got := l.Cached("stream.public.tcp.81"); got != nil {
		t.Errorf("Cached of none: %v", got)
	}
	if l.Clock == nil || l.Grace != claim.DefaultGrace {
		t.Errorf("clock %v, grace %v", l.Clock, l.Grace)
	}
	if l.Seen(t.Context(), claim.Claimant{Holder: claim.StreamHolder("shop", "a"), UID: types.UID("u")}) {
		t.Error("what was never stored was seen")
	}
}
