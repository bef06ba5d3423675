package claim

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestFakeAnswersAsTheAPIServerDoes holds the promises of Store, as the test of the real one does.
func TestFakeAnswersAsTheAPIServerDoes(t *testing.T) {
	f, ctx := &Fake{}, t.Context()
	first := New(tcp(80), Claimant{Holder: alice, UID: "a1"})
	if _, err := f.Get(ctx, first.Name); !apierrors.IsNotFound(err) {
		t.Errorf("Get of none: %v", err)
	}
	if err := f.Create(ctx, first); err != nil || first.ResourceVersion == "" || first.UID == "" {
		t.Fatalf("Create: %v, version %q, UID %q", err, first.ResourceVersion, first.UID)
	}
	if err := f.Create(ctx, New(tcp(80), Claimant{Holder: bob, UID: "b1"})); !apierrors.IsAlreadyExists(err) {
		t.Errorf("Create of the second: %v", err)
	}
	if err := f.Create(ctx, first.DeepCopy()); !apierrors.IsBadRequest(err) {
		t.Errorf("Create with a version: %v", err)
	}
	for scope, want := range map[string]int{first.Spec.Scope: 1, "stream/other": 0} {
		if list, err := f.List(ctx, scope, ""); err != nil || len(list) != want {
			t.Errorf("List of %s: %v %v, want %d", scope, list, err, want)
		}
	}
	now, err := f.Get(ctx, first.Name)
	if err != nil {
		t.Fatal(err)
	}
	stale := now.DeepCopy()
	if err := f.Update(ctx, now); err != nil || now.ResourceVersion != stale.ResourceVersion {
		t.Errorf("Update that changes nothing: %v, version %q", err, now.ResourceVersion)
	}
	now.Spec.Holder.Generation = 2
	if err := f.Update(ctx, now); err != nil || now.ResourceVersion == stale.ResourceVersion {
		t.Errorf("Update: %v, version %q", err, now.ResourceVersion)
	}
	if err := f.Update(ctx, stale.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("Update of an old version: %v", err)
	}
	if err := f.Delete(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("Delete of an old version: %v", err)
	}
	if err := f.Delete(ctx, now); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if err := f.Delete(ctx, now); !apierrors.IsNotFound(err) {
		t.Errorf("Delete of none: %v", err)
	}
}
