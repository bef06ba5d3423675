package accesstest

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/test/harness"
	"jeffthecoder.xyz/portcullis/test/memory"
)

// Guarding is a view by a real cache of some objects, with kinds guarded.
func Guarding(t testing.TB, actions guard.Actions, objects ...client.Object) *kube.View {
	t.Helper()
	cached, err := memory.Cache(harness.Scheme(), kube.CacheOptions(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(kube.AddIndexes(t.Context(), cached), memory.Select(t.Context(), cached)); err != nil {
		t.Fatal(err)
	}
	if err := kube.AddExposureIndexes(t.Context(), cached, kube.Exposing{}); err != nil {
		t.Fatal(err)
	}
	view, err := kube.NewView(t.Context(), cached, cached)
	if err != nil {
		t.Fatal(err)
	}
	view.Gateways.IndexBy(cached)
	view.Gateways.Guard(actions)
	view.Hosts.Guarded = actions
	if err := memory.Fill(t.Context(), cached, view.Synced); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := view.Gateways.Read(ctx)
		if kube.IsUnread(err) {
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		t.Fatal(err)
	}
	return view
}
