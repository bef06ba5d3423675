package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestReadsOfTenantsInFlightAreLimited floods the view with requests that each need an object past the cache.
func TestReadsOfTenantsInFlightAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reading, most atomic.Int64
		next := make(chan bool)
		live := clientOf(t).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				now := reading.Add(1)
				defer reading.Add(-1)
				for was := most.Load(); now > was; was = most.Load() {
					most.CompareAndSwap(was, now)
				}
				select {
				case <-next:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		}).Build()
		v := &objects{tenants: LimitInFlight(live, tenantReads)}
		ctx, cancel := context.WithCancel(t.Context())
		var found, late atomic.Int64
		for range 5 * tenantReads {
			go func() {
				exists, err := v.Exists(ctx, &networkingv1.Ingress{})
				switch {
				case exists:
					found.Add(1)
				case errors.Is(err, context.Canceled):
					late.Add(1)
				default:
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		for range 2 * tenantReads {
			next <- true
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if most.Load() != tenantReads || found.Load() != 2*tenantReads || late.Load() != 3*tenantReads {
			t.Errorf("%d are read at a time; %d are found and %d can't wait any longer", most.Load(), found.Load(), late.Load())
		}
	})
}
