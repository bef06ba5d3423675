package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// handedPaths is how many paths are handed over at a time: those of annotated Services, and, each second one, those of guarded Ingresses.
const handedPaths = 8

// pathLines are paths that go from object to object.
type pathLines struct {
	*fixture
	namespaces []string
	// told counts the rivals that were told no, and kills the leaders that were killed.
	told, kills atomic.Int64
}

// TestHandOverPathsUnderAttack hands paths over, again and again, by creates and by edits, while rivals ask for them and the leader is killed
// soon after it has taken over. At every version somebody of the line has each path, in the ledger and by an Ingress, and nobody else ever has
// the claim; in the end the last one has it.
func TestHandOverPathsUnderAttack(t *testing.T) {
	o := raceOptions()
	o.Flags = append(o.Flags, patientGivers)
	w := guarded(t, o)
	l := &pathLines{fixture: w}
	for i := range 3 {
		l.namespaces = append(l.namespaces, fmt.Sprintf("paths-%d", i))
		w.create(namespace(l.namespaces[i]))
	}
	w.create(namespace("paths-rivals"))
	for i := range handedPaths {
		w.create(l.heir(i, 0))
	}
	for i := range handedPaths {
		l.isServed(i, 0)
	}
	history := newHistory(t, w.Harness, func() moment {
		return &pathMoment{holders: map[string]claim.Holder{}, serving: map[types.NamespacedName]*networkingv1.Ingress{}}
	}, &v1beta1.EdgeClaimList{}, &networkingv1.IngressList{})
	stop := killingLeaders(w, &l.kills)
	var group sync.WaitGroup
	for i := range handedPaths {
		group.Go(func() {
			for n := 1; (n <= max(*handOvers/handedPaths, 1) || l.kills.Load() < 2) && !t.Failed(); n++ {
				l.handOver(i, n)
			}
		})
	}
	group.Wait()
	stop()
	t.Logf("%d leaders were killed, %d rivals told no", l.kills.Load(), l.told.Load())
	if l.told.Load() == 0 {
		t.Error("no rival ever asked")
	}
	history.mustHold(w)
}

func pathHost(i int) string { return fmt.Sprintf("h%d.lines.test", i) }

// isOfServices says whether the i-th path is that of annotated Services.
func isOfServices(i int) bool { return i%2 == 0 }

// heir is the n-th in the line of the i-th path.
func (l *pathLines) heir(i, n int) client.Object { return l.on(i, n, pathHost(i)) }

func (l *pathLines) on(i, n int, host string) client.Object {
	key := fmt.Sprintf("%s/path-%d-heir-%d", l.namespaces[(i+n)%len(l.namespaces)], i, n)
	if isOfServices(i) {
		return asking(key, "host="+host)
	}
	return ingressOn(key, "/", host)
}

func (l *pathLines) holder(i, n int) claim.Holder {
	of := l.heir(i, n)
	if isOfServices(i) {
		return claim.ServiceHolder(of.GetNamespace(), of.GetName())
	}
	return claim.IngressHolder(of.GetNamespace(), of.GetName())
}

// isServed waits until the n-th of a line has the path, and its Ingress serves it.
func (l *pathLines) isServed(i, n int) {
	l.t.Helper()
	l.pathHeldBy(pathHost(i), "/", l.holder(i, n).String())
	l.eventually(fmt.Sprintf("an Ingress of %s", l.holder(i, n)), func() error {
		if ing := l.ingressOf(l.heir(i, n)); ing == nil || !exposure.Serves(ing, claim.HTTP(pathHost(i), "/")) {
			return fmt.Errorf("it does not serve the path: %v", ing)
		}
		return nil
	})
}

// handOver has the n-th of a line have the path in place of the one before.
func (l *pathLines) handOver(i, n int) {
	giver, heir := l.heir(i, n-1), l.heir(i, n)
	ctx, end := context.WithCancel(l.t.Context())
	var rivals sync.WaitGroup
	rivals.Go(func() { l.rival(ctx, i, n) })
	defer rivals.Wait()
	defer end()
	patch := func(of client.Object, text string) func() error {
		return func() error {
			return l.Client.Patch(l.t.Context(), of.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)))
		}
	}
	create := func(obj client.Object) func() error {
		return func() error {
			return ignoreExists(l.Client.Create(l.t.Context(), obj.DeepCopyObject().(client.Object)))
		}
	}
	byEdit := n%3 == 0
	if byEdit {
		l.insist("creating "+heir.GetName(), create(l.on(i, n, fmt.Sprintf("other-%d-%d.lines.test", i, n))))
	}
	l.insist("naming "+heir.GetName(), patch(giver, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`,
		v1beta1.AnnotationHandOverTo, client.ObjectKeyFromObject(heir).String())))
	switch {
	case byEdit && isOfServices(i):
		l.insist("taking over by "+heir.GetName(), patch(heir, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`,
			v1beta1.AnnotationHTTP, "host="+pathHost(i))))
	case byEdit:
		l.insist("taking over by "+heir.GetName(), func() error {
			stored := &networkingv1.Ingress{}
			if err := l.Client.Get(l.t.Context(), client.ObjectKeyFromObject(heir), stored); err != nil {
				return err
			}
			stored.Spec.Rules[0].Host = pathHost(i)
			return l.Client.Update(l.t.Context(), stored)
		})
	default:
		l.insist("taking over by "+heir.GetName(), create(heir))
	}
	l.isServed(i, n)
	if isOfServices(i) { // its Ingress goes with it
		l.serves(giver, "")
	}
	l.insist("the end of "+giver.GetName(), func() error {
		return client.IgnoreNotFound(l.Client.Delete(l.t.Context(), giver.DeepCopyObject().(client.Object)))
	})
}

// rival asks for a path all the time, and is never to be told yes by a replica: while none answers, it passes, and then it gets nothing.
func (l *pathLines) rival(ctx context.Context, i, n int) {
	for ctx.Err() == nil {
		var rival client.Object = asking(fmt.Sprintf("paths-rivals/path-%d-%d", i, n), "host="+pathHost(i))
		if rand.N(2) == 0 {
			rival = ingressOn(fmt.Sprintf("paths-rivals/path-%d-%d", i, n), "/", pathHost(i))
		}
		err := l.Client.Create(ctx, rival)
		switch {
		case err == nil:
			_ = l.Client.Delete(context.WithoutCancel(ctx), rival)
		case apierrors.IsInvalid(err):
			l.told.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20*time.Millisecond + rand.N(200*time.Millisecond)):
		}
	}
}

// insist tries until it works: what is in the way is that replicas are killed. Who is named is never refused.
func (l *pathLines) insist(what string, try func() error) {
	l.t.Helper()
	(&churn{edge: &edge{fixture: l.fixture}}).insist(what, try)
}

// pathMoment is who has each of the paths at a version, and which Ingresses there are.
type pathMoment struct {
	holders map[string]claim.Holder
	serving map[types.NamespacedName]*networkingv1.Ingress
}

func (m *pathMoment) apply(e happening) []types.NamespacedName {
	switch stored := e.stored.(type) {
	case *v1beta1.EdgeClaim:
		at, err := claim.Of(stored)
		if err != nil || !at.IsHTTP() || at.IsHost() {
			return nil
		}
		if m.holders[at.Host()] = claim.HolderOf(stored); e.gone {
			delete(m.holders, at.Host())
		}
	case *networkingv1.Ingress:
		if key := client.ObjectKeyFromObject(stored); e.gone {
			delete(m.serving, key)
		} else {
			m.serving[key] = stored
		}
	case *corev1.Service:
		return nil
	}
	return m.everybody()
}

func (m *pathMoment) everybody() (hosts []types.NamespacedName) {
	for i := range handedPaths {
		hosts = append(hosts, types.NamespacedName{Name: pathHost(i)})
	}
	return hosts
}

// check says what is wrong with a path: that nobody of its line has it, or that no Ingress of the line serves it.
func (m *pathMoment) check(key types.NamespacedName) error {
	var i int
	if _, err := fmt.Sscanf(key.Name, "h%d.", &i); err != nil {
		return err
	}
	line := fmt.Sprintf("path-%d-heir-", i)
	if holder := m.holders[key.Name]; !strings.HasPrefix(holder.Name, line) || holder.Namespace == "paths-rivals" {
		return fmt.Errorf("%s is held by %q", key.Name, holder)
	}
	serving := 0
	for by, ing := range m.serving {
		if strings.HasPrefix(by.Name, line) && exposure.Serves(ing, claim.HTTP(key.Name, "/")) {
			serving++
		}
	}
	if serving == 0 || serving > 2 {
		return fmt.Errorf("%d Ingresses of the line of %s serve it", serving, key.Name)
	}
	return nil
}

func (m *pathMoment) around([]happening, int, types.NamespacedName) string { return "" }
