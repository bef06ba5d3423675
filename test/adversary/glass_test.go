package adversary

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// breakGlass has requests pass without a verdict while no replica answers, as docs/operations.md tells those who can't wait.
func (s *stage) breakGlass(o *observer, rng *rand.Rand) act {
	wait := time.Duration(2000+rng.IntN(3000)) * time.Millisecond
	return act{
		what: fmt.Sprintf("kill -9 both replicas, let requests pass for %v, start others", wait),
		do: func(ctx context.Context) error {
			// Whatever comes between is made good: the tenants act until then.
			ctx = context.WithoutCancel(ctx)
			version, err := s.failurePolicy(ctx, admissionv1.Ignore)
			if err != nil {
				return err
			}
			o.excuse(version)
			if err := s.replicas.away(ctx, wait); err != nil {
				return err
			}
			if _, err := s.failurePolicy(ctx, admissionv1.Fail); err != nil {
				return err
			}
			return o.madeGood(s.t.Context())
		},
	}
}

// failurePolicy is set for the webhooks that would else have requests fail. It returns the version of that.
func (s *stage) failurePolicy(ctx context.Context, policy admissionv1.FailurePolicyType) (uint64, error) {
	var webhooks []string
	for _, name := range []string{"streamingress", "streamingressclass", "addresspool", "service-ports"} {
		webhooks = append(webhooks, fmt.Sprintf(`{"name":"%s.nginx-stream.jeffthecoder.xyz","failurePolicy":%q}`, name, policy))
	}
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "portcullis"}}
	patch := fmt.Sprintf(`{"webhooks":[%s]}`, strings.Join(webhooks, ","))
	err := s.Client.Patch(ctx, configuration, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	if err != nil {
		return 0, err
	}
	return versionOf(configuration)
}

// away kills both replicas, and starts others after a while.
func (r *replicas) away(ctx context.Context, wait time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, one := range r.running {
		errs = append(errs, one.Kill())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := harness.Pause(ctx, wait); err != nil {
		return err
	}
	for i := range r.running {
		another, err := r.h.StartReplica(ctx)
		if err != nil {
			return err
		}
		r.running[i] = another
	}
	return nil
}

// excuse has the laws that admission keeps not be looked at for changes from a version on.
func (o *observer) excuse(version uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.unguarded, o.now.guarded = version, 0
}

// madeGood waits until all laws are kept again, and has them be looked at from then on. Promised is that what was admitted while
// no replica answered is gone 5 s after one leads, which the log tells; one that was killed holds its lease for 20 s more. Requests
// that were admitted before somebody answered may be stored a moment later.
func (o *observer) madeGood(ctx context.Context) error {
	began := time.Now()
	if err := harness.Pause(ctx, time.Second); err != nil {
		return err
	}
	version, err := o.version(ctx)
	if err != nil {
		return err
	}
	err = within(ctx, patience, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.reachedLocked() < version {
			return fmt.Errorf("the observer has seen version %d, of %d", o.reachedLocked(), version)
		}
		for _, svc := range o.now.services {
			for _, l := range laws {
				if err := l.check(o.now, change{object: svc, seen: time.Now()}, svc); err != nil && l.bypassed {
					return fmt.Errorf("%s: %w", l.name, err)
				}
			}
		}
		o.now.guarded = o.reachedLocked()
		return nil
	})
	if err != nil && ctx.Err() == nil {
		o.fail(fmt.Errorf("%v after replicas answer again: %w", patience, err), change{seen: time.Now()})
	}
	o.s.t.Logf("what was admitted while no replica answered was gone %v after two were ready", time.Since(began).Round(100*time.Millisecond))
	return err
}
