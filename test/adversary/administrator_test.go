package adversary

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// ofAdministrator is what the administrator changes meanwhile. What would take something from somebody is refused, and is tried
// all the same.
var ofAdministrator = []kind{
	{"patch class", 6, func(u *user, rng *rand.Rand) act { return merges(u, class(), classText(rng)) }},
	{"recreate class", 2, func(u *user, rng *rand.Rand) act {
		return recreates(u, rng, pick(rng, class(), hostClass(), directClass()))
	}},
	{"patch pool", 4, func(u *user, rng *rand.Rand) act { return merges(u, pool("whole"), poolText(rng)) }},
	{"recreate pool", 2, func(u *user, rng *rand.Rand) act { return recreates(u, rng, pool("whole")) }},
	{"recreate ConfigMap", 1, func(u *user, rng *rand.Rand) act {
		return recreates(u, rng, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: platform, Name: "udp-services"}})
	}},
	{"patch Gateway", 3, func(u *user, rng *rand.Rand) act { return merges(u, gateway(), gatewayText(rng)) }},
	{"recreate proxy", 1, func(u *user, rng *rand.Rand) act { return recreates(u, rng, proxy()) }},
}

// classText changes the rules of the class. Nobody loses a port by that.
func classText(rng *rand.Rand) string {
	return pick(rng,
		fmt.Sprintf(`{"spec":{"reserved":[{"from":%d}]}}`, pick(rng, 7004, 7006)),
		`{"spec":{"reserved":null}}`,
		`{"spec":{"allow":[{"from":7000,"to":7004},{"from":7000,"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"tenant-a"}}}]}}`,
		`{"spec":{"allow":null}}`,
		fmt.Sprintf(`{"spec":{"autoAssign":{"from":%d,"to":7006}}}`, pick(rng, 7000, 7003)),
		fmt.Sprintf(`{"spec":{"outsideUpstreams":%q}}`, pick(rng, "Allowed", "Denied")),
		fmt.Sprintf(`{"spec":{"upstreamNamespaces":%q}}`, pick(rng, "All", "Granted")),
	)
}

// poolText changes what the pool of whole addresses has, and for whom.
func poolText(rng *rand.Rand) string {
	return pick(rng,
		fmt.Sprintf(`{"spec":{"addresses":[%q,%q,%q]}}`, wholeAddresses[0], wholeAddresses[1], wholeAddresses[2]),
		fmt.Sprintf(`{"spec":{"addresses":[%q,%q]}}`, wholeAddresses[0], wholeAddresses[1]),
		fmt.Sprintf(`{"spec":{"addresses":[%q]}}`, wholeAddresses[rng.IntN(2)]),
		fmt.Sprintf(`{"spec":{"autoAssign":%t}}`, rng.IntN(2) == 0),
		fmt.Sprintf(`{"spec":{"priority":%d}}`, rng.IntN(3)),
	)
}

// recreates deletes an object, and makes it anew a moment later.
func recreates(u *user, rng *rand.Rand, obj client.Object) act {
	wait := time.Duration(rng.IntN(2000)) * time.Millisecond
	pause := act{what: fmt.Sprintf("wait %v", wait), do: func(ctx context.Context) error { return harness.Pause(ctx, wait) }}
	return then(deletes(u, obj), pause, creates(u, obj, "as it was"))
}

// restore makes what the administrator has deleted and could not make anew: nobody was there to allow it, or a tenant has a port of
// the proxy by now.
func (s *stage) restore() {
	for _, obj := range []client.Object{class(), hostClass(), directClass(), pool("whole"), proxy()} {
		s.eventually(fmt.Sprintf("%T %s to be there", obj, keyOf(obj)), func() error {
			err := s.Client.Create(s.t.Context(), obj.DeepCopyObject().(client.Object))
			if apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
}
