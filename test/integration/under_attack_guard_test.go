package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// guardLanes are the Gateways on which there are races beside each other.
	guardLanes = 4
	// guardMovers are those of the rivals that have a ListenerSet already, and edit it.
	guardMovers = 4
	// stay is of how many of the last races the winners stay, so that what they hold is looked at again at the end.
	stay = 20
	// enoughRaces are so many that each kind must have won one.
	enoughRaces = 100
	// ahead is how much earlier than the others somebody may begin in every other race, so that each kind wins some.
	ahead = 200 * time.Millisecond
	// awayFrom is the first port of the movers' homes, and raceFrom the first that is raced for.
	awayFrom, raceFrom = 2000, 10000
	// busyTries is how often somebody tries who is told to try again.
	busyTries = 5
)

// guardRaces are the races for a port of a Gateway. Each has a port of its own.
var guardRaces = flag.Int("guard-races", 200, "how often listeners and streams race for a port of a Gateway, at most 50000 times")

// raceNames are what listeners of the races call themselves. With no name they are for all that no other listener has.
var raceNames = []string{"", "a.example.com", "b.example.com", "*.example.com"}

// TestNoDoubleListener has listeners of all kinds, and streams, race for the ports of Gateways: what no implementation serves beside each
// other is never given to two, whichever replica answers.
func TestNoDoubleListener(t *testing.T) {
	w := guarded(t, harness.Options{
		Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}, ControlPlane: controlplane.Options{Audit: true},
	})
	lanes := make([]*guardLane, guardLanes)
	for i := range lanes {
		lanes[i] = w.newGuardLane(fmt.Sprintf("lane-%d", i), fmt.Sprintf("192.0.2.%d", 10+i))
	}
	began := time.Now()
	var running sync.WaitGroup
	for i, l := range lanes {
		running.Go(func() {
			for round := i; round < *guardRaces && t.Context().Err() == nil; round += guardLanes {
				l.race(round)
			}
		})
	}
	running.Wait()
	var y guardTally
	for _, l := range lanes {
		y.add(l.guardTally)
	}
	y.report(t, time.Since(began))
	for i, r := range w.Replicas {
		for _, kind := range []string{"Gateway", "ListenerSet", "StreamIngress"} {
			if decisions(w, r, kind) == 0 {
				t.Errorf("replica %d never decided on a %s, so that this was no race between replicas", i, kind)
			}
		}
	}
	w.eventually("the ledger to say what stands, and no more", func() error { return exactListeners(w) })
}

// guardLane is a Gateway, the class of its streams, and those who race for its ports.
type guardLane struct {
	*fixture
	guardTally
	name    string
	class   *v1beta1.StreamIngressClass
	gateway *gatewayv1.Gateway
	users   []*creator
}

func (w *fixture) newGuardLane(name, address string) *guardLane {
	w.t.Helper()
	l := &guardLane{fixture: w, name: name, class: gatewayClass(name), users: w.creators(name, rivals)}
	w.create(l.class)
	for _, c := range l.users {
		w.create(service(c.namespace+"/web", port("http", 80)))
	}
	l.gateway = w.newGateway(l.class, address).gateway
	edit(w, l.gateway, func(g *gatewayv1.Gateway) {
		g.Spec.AllowedListeners.Namespaces.From = ptr.To(gatewayv1.NamespacesFromAll)
	})
	w.classHas(l.class, v1beta1.ConditionProgrammed, "True Programmed")
	for i := range guardMovers {
		w.create(listenerSet(l.users[i].namespace+"/mover", l.gateway, l.home(i)))
	}
	return l
}

// home is the listener of a mover between the races.
func (l *guardLane) home(i int) gatewayv1.ListenerEntry { return listen("TCP", int32(awayFrom+i), "") }

// rival is one of those who race for a port.
type rival struct {
	holder claim.Holder
	// kind is what wins are counted by, that of the holder where it is empty.
	kind  string
	entry gatewayv1.ListenerEntry
	try   func(context.Context) error
	undo  func()
}

// whole says whether a rival wants all of the port.
func (r *rival) whole() bool { return r.entry.Protocol == gatewayv1.TCPProtocolType }

// excludes says whether two can't be served at one port.
func (r *rival) excludes(other *rival) bool {
	if r.whole() || other.whole() {
		return true
	}
	plain := func(r *rival) bool { return r.entry.Protocol == gatewayv1.HTTPProtocolType }
	return plain(r) == plain(other) && ptr.Deref(r.entry.Hostname, "") == ptr.Deref(other.entry.Hostname, "")
}

// point is what a winner holds.
func (r *rival) point(l *guardLane) claim.Coordinate {
	on, host := client.ObjectKeyFromObject(l.gateway), string(ptr.Deref(r.entry.Hostname, claim.AllHosts))
	switch {
	case r.holder.IsStream():
		return claim.Stream(l.class.Name, TCP, r.entry.Port)
	case r.whole():
		return claim.Listener(on, TCP, r.entry.Port)
	case r.entry.Protocol == gatewayv1.HTTPProtocolType:
		return claim.HostListener(on, claim.HTTPListener, r.entry.Port, host)
	default:
		return claim.HostListener(on, claim.TLSListener, r.entry.Port, host)
	}
}

// race lets everybody want one port at the same moment: in every third round by host name, beside some who want all of it.
func (l *guardLane) race(round int) {
	number := int32(raceFrom + round)
	all := make([]*rival, rivals)
	for i := range all {
		all[i] = l.rival(i, round, l.wish(i, number, round%3 == 2))
	}
	answers := tryAll(l.t.Context(), all, favorite(round/guardLanes))
	l.judge(round, number, all, answers)
	for i, r := range all {
		if answers[i].isYes() && round < *guardRaces-stay || answers[i].isUnclear() {
			r.undo()
		}
	}
	for i := range guardMovers { // who won moves back to where it came from
		l.eventually("a mover to be at home", func() error {
			return tryEdit(l.fixture, listenerSet(l.users[i].namespace+"/mover", l.gateway), func(set *gatewayv1.ListenerSet) {
				set.Spec.Listeners = []gatewayv1.ListenerEntry{l.home(i)}
			})
		})
	}
}

// withdraw deletes what a rival has made.
func (l *guardLane) withdraw(obj client.Object) {
	l.eventually("an object to be deleted", func() error { return client.IgnoreNotFound(l.Client.Delete(l.t.Context(), obj)) })
}

// wish is the listener that a rival wants.
func (l *guardLane) wish(i int, number int32, byName bool) gatewayv1.ListenerEntry {
	if !byName || rand.N(6) == 0 {
		return listen(gatewayv1.TCPProtocolType, number, "")
	}
	protocols := []gatewayv1.ProtocolType{
		gatewayv1.HTTPProtocolType, gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType,
	}
	name := raceNames[rand.N(len(raceNames))]
	if i == 0 {
		name = "gateway.example.com" // some have names that nobody else wants
	}
	return listen(protocols[rand.N(len(protocols))], number, name)
}

// rival is one who wants a listener: the Gateway itself, one of those that have a ListenerSet, one that makes one, or one that makes a
// stream.
func (l *guardLane) rival(i, round int, entry gatewayv1.ListenerEntry) *rival {
	c, name := l.users[i], fmt.Sprintf("round-%d", round)
	switch {
	case i == 0:
		return l.asGateway(entry)
	case i <= guardMovers:
		return l.asMover(c.Client, l.users[i-1].namespace, entry)
	case i%3 == 0:
		s := sti(c.namespace+"/"+name, of(l.class.Name), tcp(entry.Port))
		return &rival{
			holder: claim.StreamHolder(c.namespace, name), entry: listen(gatewayv1.TCPProtocolType, entry.Port, ""),
			try:  func(ctx context.Context) error { return c.Create(ctx, s.DeepCopy()) },
			undo: func() { l.withdraw(s) },
		}
	default:
		set := listenerSet(c.namespace+"/"+name, l.gateway, entry)
		return &rival{
			holder: claim.ListenerSetHolder(c.namespace, name), entry: entry,
			try:  func(ctx context.Context) error { return c.Create(ctx, set.DeepCopy()) },
			undo: func() { l.withdraw(set) },
		}
	}
}

// asGateway adds the listener to those of the Gateway.
func (l *guardLane) asGateway(entry gatewayv1.ListenerEntry) *rival {
	own := gatewayv1.Listener{Name: entry.Name, Port: entry.Port, Protocol: entry.Protocol, Hostname: entry.Hostname, TLS: entry.TLS}
	c := l.users[0].Client
	return &rival{
		holder: claim.GatewayHolder(l.gateway.Namespace, l.gateway.Name), entry: entry,
		try: func(ctx context.Context) error {
			return editBy(ctx, c, l.gateway.DeepCopy(), func(g *gatewayv1.Gateway) { g.Spec.Listeners = append(g.Spec.Listeners, own) })
		},
		undo: func() {
			l.eventually("the Gateway to be as it was", func() error {
				return tryEdit(l.fixture, l.gateway.DeepCopy(), func(g *gatewayv1.Gateway) { g.Spec.Listeners = g.Spec.Listeners[:1] })
			})
		},
	}
}

// asMover has a ListenerSet listen there instead of where it does.
func (l *guardLane) asMover(c client.Client, namespace string, entry gatewayv1.ListenerEntry) *rival {
	return &rival{
		holder: claim.ListenerSetHolder(namespace, "mover"), entry: entry,
		try: func(ctx context.Context) error {
			return editBy(ctx, c, listenerSet(namespace+"/mover", l.gateway), func(set *gatewayv1.ListenerSet) {
				set.Spec.Listeners = []gatewayv1.ListenerEntry{entry}
			})
		},
		undo: func() {},
	}
}

// guardAnswer is what a rival was told.
type guardAnswer struct {
	err error
	// undecided says that it was let in unchecked, and told so.
	undecided bool
	// busy is how often it was told to try again.
	busy int
}

func (a guardAnswer) isYes() bool { return a.err == nil && !a.undecided }
func (a guardAnswer) isNo() bool {
	return apierrors.IsInvalid(a.err) || apierrors.IsTooManyRequests(a.err)
}
func (a guardAnswer) isUnclear() bool { return !a.isYes() && !a.isNo() }

// favorite is who begins ahead of the others: nobody in every other race, and else one of each kind in turn.
func favorite(race int) int {
	if race%2 == 0 {
		return -1
	}
	return []int{0, 1, 5, 6}[race/2%4]
}

// tryAll lets all rivals try at the same moment, but for one that begins ahead of them.
func tryAll(ctx context.Context, all []*rival, first int) []guardAnswer {
	answers := make([]guardAnswer, len(all))
	begin := make(chan struct{})
	var group sync.WaitGroup
	for i, r := range all {
		group.Go(func() {
			if i != first {
				<-begin
			}
			answers[i] = r.ask(ctx)
		})
	}
	if first >= 0 {
		time.Sleep(rand.N(ahead))
	}
	close(begin)
	group.Wait()
	return answers
}

// ask tries, again when there is too much at a time.
func (r *rival) ask(ctx context.Context) (a guardAnswer) {
	ctx, heard := hearing(ctx)
	for ; a.busy < busyTries; a.busy++ {
		if a.err = r.try(ctx); !apierrors.IsTooManyRequests(a.err) {
			break
		}
		time.Sleep(rand.N(100 * time.Millisecond))
	}
	a.undecided = strings.Contains(heard.said(), "could not check now")
	return a
}

// TestWhoPassedUnasked has the API server let a listener pass while no replica answers, and none while one does: by that races tell a yes of
// Portcullis from one of the API server alone.
func TestWhoPassedUnasked(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, ControlPlane: controlplane.Options{Audit: true}})
	l := w.newGuardLane("unasked", "192.0.2.60")
	pass := func(round int) *rival {
		r := l.rival(7, round, listen(gatewayv1.TCPProtocolType, int32(raceFrom+round), ""))
		must(w, r.try(t.Context()))
		return r
	}
	if asked := pass(0); l.passedUnasked(asked) {
		t.Errorf("%s passed as Portcullis said yes", asked.holder)
	}
	must(w, w.Replicas[0].Kill())
	unasked := pass(1)
	w.eventually("the audit log to tell of it", func() error { return is(l.passedUnasked(unasked), true) })
}
