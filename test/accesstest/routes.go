package accesstest

import (
	"testing"
	"time"

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
	if err := kube.AddIndexes(t.Context(), cached); err != nil {
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
	for err := view.Gateways.Read(t.Context()); err != nil; err = view.Gateways.Read(t.Context()) {
		if !kube.IsUnread(err) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	return view
}
