package streams

import (
	"testing"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// baseWith is what reconcilers of streams need, on a client whose cache never lags.
func baseWith(t testing.TB, c client.Client) base {
	t.Helper()
	return withLeftovers(accesstest.With(t, c))
}

// baseOn is what reconcilers of streams need, with a cache that shows what is in seen while there is stored what is in stored.
func baseOn(t testing.TB, seen, stored client.Client) (base, *informertest.FakeInformers) {
	t.Helper()
	a, informers := accesstest.On(t, seen, stored)
	return withLeftovers(a), informers
}

// baseOf is what reconcilers of streams need, in a cluster with these objects.
func baseOf(t testing.TB, objects ...client.Object) base {
	t.Helper()
	return withLeftovers(accesstest.Of(t, objects...))
}

func withLeftovers(a access.Access) base {
	return base{a, newLeftovers(clock.RealClock{}, claim.DefaultGrace)}
}
