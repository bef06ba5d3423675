package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// handedAddresses are as many addresses as are handed over at a time; every second one is shared, and its port is handed over. That takes a
// fraction of a second, but while there is no leader: so there are several for each of a port, and more until two leaders were killed.
const handedAddresses = 6

// addressLines are addresses that go from Service to Service.
type addressLines struct {
	*fixture
	namespaces []string
	// rivals are who ask for the addresses, one for each line.
	rivals [handedAddresses]*warned
	// told counts the rivals that were told no, and let those that were told yes without a word.
	told, let atomic.Int64
	killedLeaders
}

// TestHandOverAddressUnderAttack hands addresses over, again and again, by creates and by edits, while rivals ask for them and the leader is
// killed soon after it has taken over. At every version somebody of the line has each address, in the ledger and by its status, and never
// more than two; in the end the last one has it alone.
func TestHandOverAddressUnderAttack(t *testing.T) {
	t.Parallel()
	h := start(t, raceOptions())
	w := newFixture(t, h)
	l := &addressLines{fixture: w}
	for i := range 3 {
		l.namespaces = append(l.namespaces, fmt.Sprintf("addrs-%d", i))
		w.create(namespace(l.namespaces[i]))
	}
	w.create(namespace("addrs-rivals"), addressPool("line-whole", []string{"198.18.90.0/28"}, forAll, onRequest),
		addressPool("line-shared", []string{"198.18.90.128/28"}, forAll, onRequest, sharesPorts))
	for i := range handedAddresses {
		w.admitted(l.heir(i, 0))
		l.isListed(i, 0)
		l.rivals[i] = w.warned()
	}
	history := newHistory(t, h, func() moment {
		return &addressLine{holders: map[string]claim.Holder{}, listed: map[string]map[types.NamespacedName]bool{}}
	}, &v1beta1.EdgeClaimList{}, &corev1.ServiceList{})
	stop := l.killingLeaders(w)
	var group sync.WaitGroup
	for i := range handedAddresses {
		group.Go(func() {
			for n := 1; (n <= *handOvers/handedAddresses || l.kills.Load() < 2) && !t.Failed(); n++ {
				l.handOver(i, n)
				l.done.Add(1)
			}
		})
	}
	group.Wait()
	stop()
	t.Logf("%d leaders were killed, %d rivals told no, %d yes", l.kills.Load(), l.told.Load(), l.let.Load())
	if l.told.Load() == 0 {
		t.Error("no rival ever asked")
	}
	if let, open := int(l.let.Load()), l.failedOpen("service.nginx-stream."); let > open {
		t.Errorf("%d rivals were told yes, and the API server let only %d Services pass as no replica answered", let, open)
	}
	history.mustHold(w)
}

// address is the i-th address, and the name of the claim on what is handed over of it.
func (l *addressLines) address(i int) (ip, point string) {
	if i%2 == 0 {
		return fmt.Sprintf("198.18.90.%d", i), fmt.Sprintf("addr.198-18-90-%d", i)
	}
	return fmt.Sprintf("198.18.90.%d", 128+i), fmt.Sprintf("addr.198-18-90-%d.tcp.80", 128+i)
}

// heir is the n-th in the line of the i-th address.
func (l *addressLines) heir(i, n int) *corev1.Service {
	ip, _ := l.address(i)
	return balancer(fmt.Sprintf("%s/line-%d-heir-%d", l.namespaces[(i+n)%len(l.namespaces)], i, n), wants(ip))
}

// isListed waits until the n-th of a line has the address, and is listed there.
func (l *addressLines) isListed(i, n int) {
	l.t.Helper()
	ip, point := l.address(i)
	svc := l.heir(i, n)
	l.balances(svc, ip+" VIP TCP/80")
	l.pointHeldBy(point, claim.ServiceHolder(svc.Namespace, svc.Name).String())
}

// handOver has the n-th of a line have the address in place of the one before.
func (l *addressLines) handOver(i, n int) {
	giver, heir := l.heir(i, n-1), l.heir(i, n)
	ctx, end := context.WithCancel(l.t.Context())
	var rivals sync.WaitGroup
	rivals.Go(func() { l.rival(ctx, i, n) })
	defer rivals.Wait()
	defer end()
	patch := func(of *corev1.Service, annotation, value string) func() error {
		text := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
		return func() error {
			return l.Client.Patch(l.t.Context(), of.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
		}
	}
	create := func(svc *corev1.Service) func() error {
		return func() error { return ignoreExists(l.Client.Create(l.t.Context(), svc.DeepCopy())) }
	}
	byEdit := n%3 == 0
	if byEdit { // one that waits, as it asks for what there is none of
		other := heir.DeepCopy()
		inPool("line-none")(other)
		delete(other.Annotations, v1beta1.AnnotationAddresses)
		other.Spec.Type, other.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
		l.insist("creating "+other.Name, create(other))
	}
	l.insist("naming "+heir.Name, patch(giver, v1beta1.AnnotationHandOverTo, client.ObjectKeyFromObject(heir).String()))
	if byEdit {
		ip, _ := l.address(i)
		text := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:null}},"spec":{"type":"LoadBalancer","loadBalancerClass":%q}}`,
			v1beta1.AnnotationAddresses, ip, v1beta1.AnnotationAddressPool, v1beta1.LoadBalancerClass)
		l.insist("taking over by "+heir.Name, func() error {
			return l.Client.Patch(l.t.Context(), heir.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
		})
	} else {
		l.insist("taking over by "+heir.Name, create(heir))
	}
	l.isListed(i, n)
	if rand.N(2) == 0 {
		l.balances(giver, "")
	}
	l.insist("the end of "+giver.Name, func() error { return client.IgnoreNotFound(l.Client.Delete(l.t.Context(), giver.DeepCopy())) })
}

// rival asks for an address all the time, and is never to be told yes by a replica: one that could not look lets it pass with a warning, and
// so does the API server without one where no replica answers; then it is not served.
func (l *addressLines) rival(ctx context.Context, i, n int) {
	ip, _ := l.address(i)
	for ctx.Err() == nil {
		svc := balancer(fmt.Sprintf("addrs-rivals/line-%d-%d", i, n), wants(ip))
		err := l.rivals[i].Create(ctx, svc)
		if said := l.rivals[i].said(); err == nil && !strings.Contains(said, "could not check") {
			l.let.Add(1)
		}
		switch {
		case err == nil:
			_ = l.Client.Delete(ctx, svc)
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
func (l *addressLines) insist(what string, try func() error) {
	l.t.Helper()
	(&churn{edge: &edge{fixture: l.fixture}}).insist(what, try)
}

// addressLine is who has each claim on the addresses at a version, by its name, and who is listed there.
type addressLine struct {
	holders map[string]claim.Holder
	listed  map[string]map[types.NamespacedName]bool
}

func (m *addressLine) apply(e happening) []types.NamespacedName {
	switch stored := e.stored.(type) {
	case *v1beta1.EdgeClaim:
		at, err := claim.Of(stored)
		if err != nil || !at.IsAddress() {
			return nil
		}
		if m.holders[stored.Name] = claim.HolderOf(stored); e.gone {
			delete(m.holders, stored.Name)
		}
	case *corev1.Service:
		for _, by := range m.listed {
			delete(by, client.ObjectKeyFromObject(stored))
		}
		if e.gone {
			break
		}
		for _, ip := range listedAddresses(stored) {
			if m.listed[ip.String()] == nil {
				m.listed[ip.String()] = map[types.NamespacedName]bool{}
			}
			m.listed[ip.String()][client.ObjectKeyFromObject(stored)] = true
		}
	}
	return m.everybody()
}

func (m *addressLine) everybody() (all []types.NamespacedName) {
	for i := range handedAddresses {
		ip, _ := (&addressLines{}).address(i)
		all = append(all, types.NamespacedName{Namespace: fmt.Sprint(i), Name: ip})
	}
	return all
}

// check says what is wrong with an address: that nobody of its line has it, that nobody of it is listed, or anybody else is, or too many.
func (m *addressLine) check(key types.NamespacedName) error {
	line := fmt.Sprintf("line-%s-heir-", key.Namespace)
	i, err := strconv.Atoi(key.Namespace)
	if err != nil {
		return err
	}
	_, point := (&addressLines{}).address(i)
	if holder := m.holders[point]; !strings.HasPrefix(holder.Name, line) {
		return fmt.Errorf("%s is held by %q", point, holder)
	}
	for name, holder := range m.holders { // nor has anybody else a claim on a part of it, or on the whole
		at, isOf := strings.CutPrefix(name, "addr."+strings.ReplaceAll(key.Name, ".", "-"))
		if isOf && (at == "" || at[0] == '.') && !strings.HasPrefix(holder.Name, line) {
			return fmt.Errorf("%s is held by %q", name, holder)
		}
	}
	var listed []string
	for by := range m.listed[key.Name] {
		listed = append(listed, by.Name)
	}
	isOther := func(name string) bool { return !strings.HasPrefix(name, line) }
	if len(listed) == 0 || len(listed) > 2 || slices.ContainsFunc(listed, isOther) {
		return fmt.Errorf("%s is in the status of %q", key.Name, listed)
	}
	return nil
}

func (m *addressLine) around(events []happening, i int, key types.NamespacedName) string {
	var lines []string
	for _, e := range events[:i+1] {
		switch stored := e.stored.(type) {
		case *corev1.Service:
			if strings.Contains(stored.Name, "line-"+key.Namespace+"-") && stored.Namespace != "addrs-rivals" {
				lines = append(lines, fmt.Sprintf("%d %s gone=%v %q %q", e.version, stored.Name, e.gone, statusOf(stored), stored.Annotations[v1beta1.AnnotationHandOverTo]))
			}
		case *v1beta1.EdgeClaim:
			if at, err := claim.Of(stored); err == nil && at.IsAddress() && at.Address().String() == key.Name {
				lines = append(lines, fmt.Sprintf("%d %s gone=%v held by %s, heir %v", e.version, stored.Name, e.gone, stored.Spec.HeldBy, claim.HeirOf(stored)))
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-16):], "\n")
}
