package kube

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// Hosts reads whose host names are: the policies, what uses a name, and which names of others overlap with one.
type Hosts struct {
	objects  *objects
	claims   *Claims
	gateways *Gateways
	http     *Ingresses
	policies *book[*v1beta1.HostPolicy, hostname.Book]
	stored   *storedLooks
	// Guarded are the kinds in which host names are judged, beside the annotation ingress/http.
	Guarded guard.Actions
	// Entering locks a namespace for which what stands is entered: of two names at a time, each might find that it may have one more.
	Entering *KeyMutex[string]
}

// Policies are the policies of the cluster, as the cache has them. Only their specs are up to date.
func (h *Hosts) Policies() *hostname.Book { return h.policies.read() }

// OnPoliciesChanged has a function called whenever the policies have changed; see book.onChange.
func (h *Hosts) OnPoliciesChanged(changed func()) { h.policies.onChange(changed) }

// LivePolicies are the policies of the cluster as they are stored now.
func (h *Hosts) LivePolicies(ctx context.Context) (*hostname.Book, error) {
	var list v1beta1.HostPolicyList
	if err := h.objects.live.List(ctx, &list); err != nil {
		return nil, err
	}
	return hostname.NewBook(pointersTo(list.Items)), nil
}

// Judges says whether host names of a kind are judged.
func (h *Hosts) Judges(kind guard.Kind) bool {
	return kind == hostname.Exposed || h.Guarded.Guards(kind)
}

// Claims lists the claims on host names as such.
func (h *Hosts) Claims(ctx context.Context) ([]*v1beta1.EdgeClaim, error) {
	return h.claims.in(ctx, claim.HostnameScope)
}

const (
	// shownWithin is how long the cache may take to show a claim that was made a moment ago, and shownEvery how often it is looked.
	shownWithin = 5 * time.Second
	shownEvery  = 2 * time.Millisecond
)

// Overlapping implements claim.Overlapping, by the names that a policy has given: of those that the same policy is about, a wildcard can't
// be beside a name below it. The claims of the cache change in the order of their versions, so that what it shows once it shows a version
// is all that was stored before that.
func (h *Hosts) Overlapping(ctx context.Context, at claim.Coordinate, by claim.Holder, version string) ([]string, error) {
	if !h.Policies().Owns() {
		return nil, nil
	}
	if version != "" {
		if err := h.awaitShown(ctx, at.Name(), claim.Version(version)); err != nil {
			return nil, err
		}
	}
	claims, err := h.overlapping(ctx, at, by)
	names := make([]string, 0, len(claims))
	for _, c := range claims {
		names = append(names, c.Name)
	}
	return names, err
}

// awaitShown waits until the cache shows a claim at a version, or a later one.
func (h *Hosts) awaitShown(ctx context.Context, name string, version int64) error {
	shows := func(context.Context) (bool, error) {
		obj, known, err := h.objects.stores.find(reflect.TypeFor[*v1beta1.EdgeClaim](), types.NamespacedName{Name: name})
		c, _ := obj.(*v1beta1.EdgeClaim)
		return !known || c != nil && claim.Version(c.ResourceVersion) >= version, err
	}
	if err := wait.PollUntilContextTimeout(ctx, shownEvery, shownWithin, true, shows); err != nil {
		return fmt.Errorf("waiting for the cache to show %s: %w", name, err)
	}
	return nil
}

// overlapping lists the claims of others that overlap with a host name.
func (h *Hosts) overlapping(ctx context.Context, at claim.Coordinate, by claim.Holder) (claims []*v1beta1.EdgeClaim, err error) {
	book := h.Policies()
	for _, above := range book.Above(at.Host()) {
		c, err := h.objects.Claim(ctx, above.Name())
		if err != nil {
			return nil, err
		}
		if c != nil && isOrWillBeAnothers(c, by) {
			claims = append(claims, c)
		}
	}
	suffix, wild := wildcard(at.Host())
	if !wild {
		return claims, nil
	}
	below, err := h.claims.by(ctx, IndexBelow, suffix)
	for _, c := range below {
		if isOrWillBeAnothers(c, by) && c.Name != at.Name() && book.Owner(c.Spec.Point) == book.Owner(at.Host()) {
			claims = append(claims, c)
		}
	}
	return claims, err
}

// isOrWillBeAnothers says whether another holder has a claim, or has been promised it.
func isOrWillBeAnothers(c *v1beta1.EdgeClaim, by claim.Holder) bool {
	heir := claim.HeirOf(c)
	return claim.HolderOf(c) != by || heir != (claim.Holder{}) && heir != by
}

// IndexBelow finds the EdgeClaims on host names by what is behind their dots.
const IndexBelow = "below"

// belowKeys are those under which IndexBelow finds a claim.
func belowKeys(c *v1beta1.EdgeClaim) []string {
	if c.Spec.Scope != claim.HostnameScope {
		return nil
	}
	suffixes := claim.Suffixes(c.Spec.Point)
	return suffixes[:min(len(suffixes), hostname.MostLabels)]
}

var _ hostname.Facts = &Facts{}

// HostPolicies are the policies of the cluster.
func (f *Facts) HostPolicies() *hostname.Book { return f.ask.hosts.Policies() }

// Using are the objects that use a host name, as far as it is guarded in them.
func (f *Facts) Using(host string) []hostname.User { return f.using.of(f, host, f.ask.hosts.Using) }

// UsedIn says whether anything in a namespace uses a host name that is judged there, or an Ingress serves it.
func (f *Facts) UsedIn(namespace, host string) bool {
	return once(f, func(ctx context.Context) (bool, error) { return f.ask.hosts.UsedIn(ctx, namespace, host) })
}

// Overlapping is a claim of another holder that overlaps with a host name, nil for none.
func (f *Facts) Overlapping(at claim.Coordinate, by claim.Holder) *v1beta1.EdgeClaim {
	return once(f, func(ctx context.Context) (*v1beta1.EdgeClaim, error) {
		claims, err := f.ask.hosts.overlapping(ctx, at, by)
		if err != nil || len(claims) == 0 {
			return nil, err
		}
		return slices.MinFunc(claims, func(a, b *v1beta1.EdgeClaim) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		}), nil
	})
}

// hasStored says whether the cache has an object of a namespace with the claimant's UID, at its version or a later one.
func (h *Hosts) hasStored(ctx context.Context, by claim.Claimant) bool {
	if by.Name == "" {
		return false
	}
	versions, err := h.stored.in(ctx, by.Name, func() (map[types.UID]int64, error) {
		versions := map[types.UID]int64{}
		err := h.each(ctx, h.users(), by.Name, nil, func(obj client.Object) error {
			versions[obj.GetUID()] = claim.Version(obj.GetResourceVersion())
			return nil
		})
		return versions, err
	})
	version, has := versions[by.UID]
	return err == nil && has && version >= by.Generation
}

// storedLooks are the latest looks at what namespaces have stored: a request may ask of each of hundreds of points, and a look reads the
// whole namespace. That an object is not stored yet may be said for storedFor longer than it is true, as with any cache.
type storedLooks struct {
	clock clock.PassiveClock
	// reading locks a namespace that is being read: who asks meanwhile goes by that look.
	reading *KeyMutex[string]
	mu      sync.Mutex
	known   map[string]storedLook
}

type storedLook struct {
	at       time.Time
	versions map[types.UID]int64
}

// storedFor is for how long a look at a namespace is good.
const storedFor = 20 * time.Millisecond

func newStoredLooks() *storedLooks {
	return &storedLooks{clock: clock.RealClock{}, reading: &KeyMutex[string]{}, known: map[string]storedLook{}}
}

// in are the versions of the objects of a namespace, as they are read now or were a moment ago.
func (l *storedLooks) in(
	ctx context.Context, namespace string, read func() (map[types.UID]int64, error),
) (map[types.UID]int64, error) {
	unlock, err := l.reading.Lock(ctx, namespace)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if look, known := l.latest(namespace); known {
		return look.versions, nil
	}
	began := l.clock.Now()
	versions, err := read()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[namespace] = storedLook{began, versions}
	return versions, nil
}

// latest is the look at a namespace that is still good, and forgets all others that are not.
func (l *storedLooks) latest(namespace string) (look storedLook, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	maps.DeleteFunc(l.known, func(_ string, look storedLook) bool { return now.Sub(look.at) >= storedFor })
	look, known = l.known[namespace]
	return look, known
}
