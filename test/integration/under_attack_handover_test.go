package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
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
	"jeffthecoder.xyz/portcullis/test/harness"
)

// handOvers are those of the ports of a class, and as many of addresses, while leaders are killed.
var handOvers = flag.Int("hand-overs", 60, "how often ports, and addresses, are handed over while leaders are killed")

// handedPorts are as many ports as are handed over at a time.
const handedPorts = 12

// handing are ports that go from stream to stream.
type handing struct {
	*edge
	namespaces []string
	// told counts the rivals that were told no.
	told atomic.Int64
	killedLeaders
}

// TestHandOverUnderAttack hands ports over, again and again, by creates and by edits, while rivals ask for them, those who gave go at once or
// later, and the leader is killed soon after it has taken over. At every version somebody of the line has each port, in the ledger and in the
// ConfigMap; in the end the last one has it.
func TestHandOverUnderAttack(t *testing.T) {
	t.Parallel()
	h := start(t, raceOptions())
	w := newFixture(t, h)
	p := &handing{edge: w.newEdge("line", autoAssign(30000, 30999))}
	for i := range 3 {
		p.namespaces = append(p.namespaces, fmt.Sprintf("line-%d", i))
		w.create(namespace(p.namespaces[i]))
	}
	w.create(namespace("line-rivals"))
	for i := range handedPorts {
		w.create(p.heir(i, 0))
	}
	for i := range handedPorts {
		w.programmed(p.heir(i, 0))
	}
	history := newHistory(t, h, func() moment { return &lineMoment{p: p, holders: map[int32]claim.Holder{}} },
		&v1beta1.EdgeClaimList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{})
	stop := p.killingLeaders(w)
	var group sync.WaitGroup
	for i := range handedPorts {
		group.Go(func() {
			for n := 1; (n <= *handOvers/handedPorts || p.kills.Load() == 0) && !t.Failed(); n++ {
				p.handOver(i, n)
				p.done.Add(1)
			}
		})
	}
	group.Wait()
	stop()
	t.Logf("%d leaders were killed, %d rivals told no", p.kills.Load(), p.told.Load())
	if p.told.Load() == 0 {
		t.Error("no rival ever asked")
	}
	history.mustHold(w)
	p.nobodyWasLiedTo()
}

// port is the i-th port.
func (p *handing) port(i int) int32 { return int32(20000 + i) }

// heir is the n-th in the line of the i-th port.
func (p *handing) heir(i, n int) *v1beta1.StreamIngress {
	return sti(fmt.Sprintf("%s/port-%d-heir-%d", p.namespaces[(i+n)%len(p.namespaces)], i, n), of("line"), tcp(p.port(i)), to(fmt.Sprintf("db-%d", n), 5432))
}

// handOver has the n-th of a line have the port in place of the one before.
func (p *handing) handOver(i, n int) {
	giver, heir := p.heir(i, n-1), p.heir(i, n)
	ctx, end := context.WithCancel(p.t.Context())
	var rivals sync.WaitGroup
	rivals.Go(func() { p.rival(ctx, i, n) })
	defer rivals.Wait()
	defer end()
	byEdit := n%3 == 0
	if byEdit {
		other := heir.DeepCopy()
		tcp(p.port(i) + 1000)(other)
		if n%2 == 0 {
			auto(TCP)(other)
		}
		p.insist("creating "+other.Name, func() error { return ignoreExists(p.Client.Create(p.t.Context(), other.DeepCopy())) })
	}
	named := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s/%s"}}}`, v1beta1.AnnotationHandOverTo, heir.Namespace, heir.Name)
	p.insist("naming "+heir.Name, func() error {
		return p.Client.Patch(p.t.Context(), giver.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(named)))
	})
	p.insist("taking over by "+heir.Name, func() error {
		if byEdit {
			return p.Client.Patch(p.t.Context(), heir.DeepCopy(), moveTo(p.port(i)))
		}
		return ignoreExists(p.Client.Create(p.t.Context(), heir.DeepCopy()))
	})
	leaves := func() {
		p.insist("the end of "+giver.Name, func() error { return client.IgnoreNotFound(p.Client.Delete(p.t.Context(), giver.DeepCopy())) })
	}
	atOnce := rand.N(2) == 0
	if atOnce {
		leaves()
	}
	p.programmed(heir)
	p.heldBy("line", TCP, p.port(i), claim.StreamHolder(heir.Namespace, heir.Name).String())
	p.leads(TCP, p.port(i), fmt.Sprintf("%s/db-%d:5432", heir.Namespace, n))
	if !atOnce {
		leaves()
	}
}

// rival asks for a port all the time, and is never to be told yes.
func (p *handing) rival(ctx context.Context, i, n int) {
	for ctx.Err() == nil {
		err := p.Client.Create(ctx, sti(fmt.Sprintf("line-rivals/port-%d-%d", i, n), of("line"), tcp(p.port(i))))
		switch {
		case err == nil:
			p.t.Errorf("a rival was told yes for %d at the %d. hand-over", p.port(i), n)
			return
		case apierrors.IsInvalid(err):
			p.told.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20*time.Millisecond + rand.N(200*time.Millisecond)):
		}
	}
}

// insist tries until it works: what is in the way is that replicas are killed.
func (p *handing) insist(what string, try func() error) {
	(&churn{edge: p.edge}).insist(what, try)
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier try got through, and its answer was lost
	}
	return err
}

// killedLeaders counts what was done, and the leaders that were killed meanwhile.
type killedLeaders struct{ done, kills atomic.Int64 }

// killingLeaders kills each leader one to five seconds after it has taken over, half of them not before something was done under it, until
// the function it returns is called. One that has ended by itself is replaced.
func (k *killedLeaders) killingLeaders(w *fixture) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		alive := w.Replicas
		defer close(ended)
		for ctx.Err() == nil {
			alive = w.replaced(alive...)
			next := leader(w, alive...)
			reached := k.done.Load() + rand.N[int64](2)
			for k.done.Load() < reached && !hasEnded(next) {
				if harness.Pause(ctx, 20*time.Millisecond) != nil {
					return
				}
			}
			if harness.Pause(ctx, time.Second+rand.N(4*time.Second)) != nil {
				return
			}
			if hasEnded(next) { // by itself
				continue
			}
			if err := next.Kill(); err != nil {
				w.t.Errorf("killing a leader: %v", err)
				return
			}
			k.kills.Add(1)
			started, err := w.StartReplica(w.t.Context())
			if err != nil {
				w.t.Errorf("starting another replica: %v", err)
				return
			}
			alive = append(others(alive, next), started)
		}
	}()
	return func() { cancel(); <-ended }
}

// lineMoment is who has each of the ports at a version, and what stands at the proxy.
type lineMoment struct {
	p       *handing
	holders map[int32]claim.Holder
	entries map[string]string
	open    map[int32]bool
}

func (m *lineMoment) apply(e happening) []types.NamespacedName {
	key := client.ObjectKeyFromObject(e.stored)
	switch stored := e.stored.(type) {
	case *v1beta1.EdgeClaim:
		at, err := claim.Of(stored)
		if err != nil || !at.IsStream() || at.Port() < m.p.port(0) || at.Port() >= m.p.port(handedPorts) {
			return nil
		}
		if m.holders[at.Port()] = claim.HolderOf(stored); e.gone {
			delete(m.holders, at.Port())
		}
		return []types.NamespacedName{{Name: fmt.Sprint(at.Port())}}
	case *corev1.ConfigMap:
		if ref := m.p.class.ConfigMap(TCP); key == (types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}) {
			m.entries = stored.Data
			return m.everybody()
		}
	case *corev1.Service:
		if ref := m.p.class.Spec.Service; key == (types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}) {
			m.open = map[int32]bool{}
			for _, port := range stored.Spec.Ports {
				m.open[port.Port] = true
			}
			return m.everybody()
		}
	}
	return nil
}

func (m *lineMoment) everybody() (ports []types.NamespacedName) {
	for i := range handedPorts {
		ports = append(ports, types.NamespacedName{Name: fmt.Sprint(m.p.port(i))})
	}
	return ports
}

// check says what is wrong with a port: that nobody of its line has it, or that it is not open.
func (m *lineMoment) check(key types.NamespacedName) error {
	var number int32
	if _, err := fmt.Sscan(key.Name, &number); err != nil {
		return err
	}
	holder, entry := m.holders[number], m.entries[key.Name]
	if line := fmt.Sprintf("port-%d-heir-", number-m.p.port(0)); !strings.HasPrefix(holder.Name, line) {
		return fmt.Errorf("%s is held by %q", key.Name, holder)
	}
	var of, leads int
	_, err := fmt.Sscanf(holder.Name[strings.LastIndex(holder.Name, "-"):], "-%d", &of)
	_, errEntry := fmt.Sscanf(entry[strings.Index(entry, "/")+1:], "db-%d:5432", &leads)
	if err != nil || errEntry != nil || leads > of+1 || leads < of-1 || !m.open[number] {
		return fmt.Errorf("%s leads to %q, is held by %s, and is open: %v", key.Name, entry, holder, m.open[number])
	}
	return nil
}

func (m *lineMoment) around([]happening, int, types.NamespacedName) string { return "" }
