package integration

import (
	"context"
	"errors"
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
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// handedPaths is how many paths are handed over at a time, of each kind of line in turn.
const handedPaths = 8

// lineKind is what goes from object to object: the paths of annotated Services, of guarded Ingresses, of routes on a Gateway, and names
// that belong to namespaces.
type lineKind int

const (
	ofServices lineKind = iota
	ofIngresses
	ofRoutes
	ofNames
)

func kindOfLine(i int) lineKind { return lineKind(i % 4) }

// pathLines are paths that go from object to object.
type pathLines struct {
	*fixture
	namespaces []string
	edge       *gatewayv1.Gateway
	// told counts the rivals that were told no.
	told atomic.Int64
	killedLeaders
}

// TestHandOverPathsUnderAttack hands paths and names over, again and again, by creates and by edits, while rivals ask for them and the
// leader is killed soon after it has taken over. At every version somebody of the line has each path, in the ledger and by an Ingress,
// and nobody else ever has the claim; in the end the last one has it.
func TestHandOverPathsUnderAttack(t *testing.T) {
	o := raceOptions()
	o.Flags = append(o.Flags, patientGivers)
	w := guarded(t, o)
	w.create(namespace("infra"))
	l := &pathLines{fixture: w, edge: w.openGateway("infra/lines", routable("open", gatewayv1.HTTPProtocolType, 8080, gatewayv1.NamespacesFromAll))}
	w.create(hostPolicy("lines", []string{"*.names.test"}, ownsNames))
	for i := range 3 {
		l.namespaces = append(l.namespaces, fmt.Sprintf("paths-%d", i))
		w.create(namespace(l.namespaces[i]))
	}
	w.create(namespace("paths-rivals"))
	w.policiesCount("the policy", unreadable("paths-rivals/early"))
	for i := range handedPaths {
		w.create(l.heir(i, 0))
	}
	for i := range handedPaths {
		l.isServed(i, 0)
	}
	history := newHistory(t, w.Harness, func() moment {
		return &pathMoment{holders: map[string]claim.Holder{}, serving: map[types.NamespacedName]*networkingv1.Ingress{}}
	}, &v1beta1.EdgeClaimList{}, &networkingv1.IngressList{})
	stop := l.killingLeaders(w)
	var group sync.WaitGroup
	for i := range handedPaths {
		group.Go(func() {
			for n := 1; (n <= max(*handOvers/handedPaths, 1) || l.kills.Load() < 2) && !t.Failed(); n++ {
				l.handOver(i, n)
				l.done.Add(1)
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

func pathHost(i int) string {
	if kindOfLine(i) == ofNames {
		return fmt.Sprintf("h%d.names.test", i)
	}
	return fmt.Sprintf("h%d.lines.test", i)
}

// heir is the n-th in the line of the i-th path.
func (l *pathLines) heir(i, n int) client.Object { return l.on(i, n, pathHost(i)) }

func (l *pathLines) on(i, n int, host string) client.Object {
	key := fmt.Sprintf("%s/path-%d-heir-%d", l.namespaces[(i+n)%len(l.namespaces)], i, n)
	return l.asks(i, n, key, host)
}

// asks is an object that asks for what goes along the i-th line; of names, routes and Ingresses do in turn.
func (l *pathLines) asks(i, n int, key, host string) client.Object {
	switch kind := kindOfLine(i); {
	case kind == ofServices:
		return asking(key, "host="+host)
	case kind == ofRoutes, kind == ofNames && n%2 == 0:
		return httpRoute(key, onListener(l.edge, "open"), gatewayv1.Hostname(host))
	default:
		return ingressOn(key, "/", host)
	}
}

func (l *pathLines) holder(i, n int) claim.Holder {
	of := l.heir(i, n)
	switch kindOfLine(i) {
	case ofServices:
		return claim.ServiceHolder(of.GetNamespace(), of.GetName())
	case ofIngresses:
		return claim.IngressHolder(of.GetNamespace(), of.GetName())
	default:
		return claim.NamespaceHolder(of.GetNamespace())
	}
}

// isServed waits until the n-th of a line has the path, and its Ingress serves it.
func (l *pathLines) isServed(i, n int) {
	l.t.Helper()
	switch kindOfLine(i) {
	case ofNames:
		l.nameHeldBy(pathHost(i), l.holder(i, n).String())
		return
	case ofRoutes:
		l.pointHeldBy(claim.HTTP(pathHost(i), "/").OnGateway(client.ObjectKeyFromObject(l.edge)).Name(), l.holder(i, n).String())
		return
	default:
	}
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
	case byEdit && kindOfLine(i) == ofServices:
		l.insist("taking over by "+heir.GetName(), patch(heir, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`,
			v1beta1.AnnotationHTTP, "host="+pathHost(i))))
	case byEdit:
		l.insist("taking over by "+heir.GetName(), func() error {
			stored := heir.DeepCopyObject().(client.Object)
			if err := l.Client.Get(l.t.Context(), client.ObjectKeyFromObject(heir), stored); err != nil {
				return err
			}
			switch stored := stored.(type) {
			case *networkingv1.Ingress:
				stored.Spec.Rules[0].Host = pathHost(i)
			case *gatewayv1.HTTPRoute:
				stored.Spec.Hostnames[0] = gatewayv1.Hostname(pathHost(i))
			}
			return l.Client.Update(l.t.Context(), stored)
		})
	default:
		l.insist("taking over by "+heir.GetName(), create(heir))
	}
	l.isServed(i, n)
	if kindOfLine(i) == ofServices { // its Ingress goes with it
		l.serves(giver, "")
	}
	l.insist("the end of "+giver.GetName(), func() error {
		return client.IgnoreNotFound(l.Client.Delete(l.t.Context(), giver.DeepCopyObject().(client.Object)))
	})
}

// rival asks for a path all the time, and is never to be told yes by a replica: while none answers, it passes, and then it gets nothing.
func (l *pathLines) rival(ctx context.Context, i, n int) {
	for ctx.Err() == nil {
		like := i
		if kindOfLine(i) == ofServices || kindOfLine(i) == ofIngresses {
			like = rand.N(2)
		}
		rival := l.asks(like, rand.N(2), fmt.Sprintf("paths-rivals/path-%d-%d", i, n), pathHost(i))
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

// insist tries until it works: what is in the way is that replicas are killed, and that one whose cache is behind goes by who had a point
// before. A namespace hands nothing over, either, while something else may be stored for which it has a name: a create that was answered by
// nobody, for example. So who is refused asks again, and is to have it in the end.
func (l *pathLines) insist(what string, try func() error) {
	l.t.Helper()
	(&churn{edge: &edge{fixture: l.fixture}}).insist(what, func() error {
		if err := try(); err != nil {
			return errors.New(err.Error())
		}
		return nil
	})
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
		if err != nil || !goesAlong(at) {
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

// goesAlong says whether a point is what goes along a line: of a name that belongs to namespaces not the paths of Ingresses.
func goesAlong(at claim.Coordinate) bool {
	if strings.HasSuffix(at.Host(), ".names.test") {
		return at.IsHostname()
	}
	return at.IsRoutePath() || at.IsHTTP() && !at.IsHost()
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
	line, holder := fmt.Sprintf("path-%d-heir-", i), m.holders[key.Name]
	if kind := kindOfLine(i); kind == ofRoutes || kind == ofNames {
		if !holder.IsNamespace() || !strings.HasPrefix(holder.Name, "paths-") || holder.Name == "paths-rivals" {
			return fmt.Errorf("%s is held by %q", key.Name, holder)
		}
		return nil
	}
	if !strings.HasPrefix(holder.Name, line) || holder.Namespace == "paths-rivals" {
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
