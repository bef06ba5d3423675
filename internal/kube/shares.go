package kube

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// IndexShare finds the EdgeClaims that objects of a namespace have in a family of scopes; see shareOf. Those on paths are
// left out: nobody counts them by namespace.
const IndexShare = "share"

func shareOf(namespace, family string) string { return family + " " + namespace }

func shareKeys(c *v1beta1.EdgeClaim) []string {
	if c.Spec.Scope == claim.HTTPScope {
		return nil
	}
	return []string{shareOf(c.Spec.Holder.Namespace, claim.ScopeFamily(c.Spec.Scope))}
}

// ClaimsOfNamespace lists the claims that the objects of a namespace have in a family of scopes; see claim.ScopeFamily. Claims that
// this replica is making, or has made a moment ago, are among them.
func (v *View) ClaimsOfNamespace(ctx context.Context, namespace, family string) ([]*v1beta1.EdgeClaim, error) {
	made := v.made.of(shareOf(namespace, family)) // first: what it forgets meanwhile the cache shows
	claims, err := v.claimsBy(ctx, IndexShare, shareOf(namespace, family))
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		delete(made, c.Name)
	}
	for _, c := range made {
		claims = append(claims, c)
	}
	return claims, nil
}

// Fronts lists the Services that classes name.
func (v *View) Fronts(ctx context.Context) ([]types.NamespacedName, error) {
	var fronts []types.NamespacedName
	named := func(c *v1beta1.StreamIngressClass) {
		if ref := c.Spec.Service; ref != nil {
			fronts = append(fronts, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	if kept, known := v.stores.list(reflect.TypeFor[*v1beta1.StreamIngressClass]()); known {
		for _, obj := range kept {
			named(obj.(*v1beta1.StreamIngressClass))
		}
		return fronts, nil
	}
	classes, err := v.Classes(ctx)
	for i := range classes {
		named(&classes[i])
	}
	return fronts, err
}

// madeClaims are the claims that this replica is writing, or has written, until the cache shows them. So of the requests
// that come to one replica each counts those before it.
type madeClaims struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// byShare has them by share and name, and byName by name.
	byShare map[string]map[string]*v1beta1.EdgeClaim
	byName  map[string]madeClaim
	// lapses are the names in the order of time.
	lapses []madeClaim
}

type madeClaim struct {
	share string
	claim *v1beta1.EdgeClaim
	until time.Time
}

func newMadeClaims(ctx context.Context, c cache.Cache) (*madeClaims, error) {
	m := emptyMadeClaims(clock.RealClock{})
	shown := func(obj any) {
		if c, ok := objectOf(obj).(*v1beta1.EdgeClaim); ok {
			m.forget(c.Name)
		}
	}
	_, err := follow(ctx, c, &v1beta1.EdgeClaim{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc: shown, UpdateFunc: func(_, obj any) { shown(obj) }, DeleteFunc: shown,
	})
	return m, err
}

func emptyMadeClaims(c clock.PassiveClock) *madeClaims {
	return &madeClaims{clock: c, byShare: map[string]map[string]*v1beta1.EdgeClaim{}, byName: map[string]madeClaim{}}
}

// write notes a claim, and then has it written. One that could not be is forgotten.
func (m *madeClaims) write(c *v1beta1.EdgeClaim, write func() error) error {
	if m == nil {
		return write()
	}
	noted := m.note(c)
	err := write()
	if err != nil && noted {
		m.forget(c.Name)
	}
	return err
}

// note notes a claim, unless one of its name is noted already.
func (m *madeClaims) note(c *v1beta1.EdgeClaim) bool {
	keys := shareKeys(c)
	if len(keys) == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lapse()
	if _, noted := m.byName[c.Name]; noted {
		return false
	}
	made := madeClaim{share: keys[0], claim: c.DeepCopy(), until: m.clock.Now().Add(assumption)}
	if m.byShare[made.share] == nil {
		m.byShare[made.share] = map[string]*v1beta1.EdgeClaim{}
	}
	m.byShare[made.share][c.Name], m.byName[c.Name] = made.claim, made
	m.lapses = append(m.lapses, made)
	return true
}

func (m *madeClaims) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(name)
}

// drop forgets a claim. The lock must be held, as for lapse.
func (m *madeClaims) drop(name string) {
	made, noted := m.byName[name]
	if !noted {
		return
	}
	delete(m.byName, name)
	delete(m.byShare[made.share], name)
	if len(m.byShare[made.share]) == 0 {
		delete(m.byShare, made.share)
	}
}

// lapse forgets the claims that the cache should have shown by now: they came and went while nobody was looking.
func (m *madeClaims) lapse() {
	for now := m.clock.Now(); len(m.lapses) > 0 && !m.lapses[0].until.After(now); m.lapses = m.lapses[1:] {
		if first := m.lapses[0]; m.byName[first.claim.Name].claim == first.claim {
			m.drop(first.claim.Name)
		}
	}
}

// of are the claims of a share, by name.
func (m *madeClaims) of(share string) map[string]*v1beta1.EdgeClaim {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lapse()
	claims := make(map[string]*v1beta1.EdgeClaim, len(m.byShare[share]))
	for name, c := range m.byShare[share] {
		claims[name] = c
	}
	return claims
}
