package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// judge checks what came of a race, and counts it.
func (l *guardLane) judge(round int, number int32, all []*rival, answers []guardAnswer) {
	l.rounds++
	var won []*rival
	unclear := false
	for i, a := range answers {
		l.busy += a.busy
		switch {
		case a.isYes():
			won = append(won, all[i])
			l.won(all[i])
		case a.isUnclear():
			unclear = true
			l.last = fmt.Errorf("%s: undecided %t, %w", all[i].holder, a.undecided, a.err)
		}
	}
	for i, r := range won {
		for _, other := range won[:i] {
			if r.excludes(other) && !l.passedUnasked(r) && !l.passedUnasked(other) {
				l.t.Errorf("round %d: port %d was given to %s for %s and to %s for %s", round, number,
					other.holder, other.point(l), r.holder, r.point(l))
			}
		}
	}
	switch {
	case unclear: // who was let in unchecked may have been entered where a winner is about to be
		l.unclear++
	case len(won) == 0:
		l.none++
		if !slices.ContainsFunc(all, func(r *rival) bool { return !r.whole() }) {
			l.noneOfWhole++
		}
	default:
		l.mustHold(round, won)
	}
}

// passedUnasked says whether the API server let the very object of a rival pass, as no replica answered in time. Of objects that outlive a
// race it does not tell.
func (l *guardLane) passedUnasked(r *rival) bool {
	writes, err := l.Writes()
	must(l.fixture, err)
	return strings.HasPrefix(r.holder.Name, "round-") && slices.ContainsFunc(writes, func(w controlplane.Write) bool {
		return w.FailedOpen && w.Verb == "create" && w.Namespace == r.holder.Namespace && w.Name == r.holder.Name
	})
}

// mustHold checks that the winners of a race hold what they asked for.
func (l *guardLane) mustHold(round int, won []*rival) {
	for _, r := range won {
		c := &v1beta1.EdgeClaim{}
		err := l.Client.Get(l.t.Context(), client.ObjectKey{Name: r.point(l).Name()}, c)
		if client.IgnoreNotFound(err) != nil {
			l.t.Errorf("round %d: reading a claim: %v", round, err)
		} else if c.Spec.HeldBy != r.holder.String() && !l.passedUnasked(r) {
			l.t.Errorf("round %d: %s was told yes for %s, which is held by %q", round, r.holder, r.point(l), c.Spec.HeldBy)
		}
	}
}

// guardTally counts what came of races.
type guardTally struct {
	// rounds are all, in unclear ones somebody got no verdict, and in none nobody won, in noneOfWhole where all wanted all of the port.
	rounds, unclear, none, noneOfWhole int
	// busy is how often somebody was told to try again.
	busy int
	// wins are those who won, by kind; shared are those who did by a host name.
	wins   map[string]int
	shared int
	last   error
}

func (y *guardTally) won(r *rival) {
	if y.wins == nil {
		y.wins = map[string]int{}
	}
	kind := r.holder.Kind
	if r.holder.Name == "mover" {
		kind += " by an edit"
	}
	y.wins[kind]++
	if !r.whole() {
		y.shared++
	}
}

func (y *guardTally) add(other guardTally) {
	y.rounds, y.unclear, y.busy = y.rounds+other.rounds, y.unclear+other.unclear, y.busy+other.busy
	y.none, y.noneOfWhole, y.shared = y.none+other.none, y.noneOfWhole+other.noneOfWhole, y.shared+other.shared
	if y.wins == nil {
		y.wins = map[string]int{}
	}
	for kind, n := range other.wins {
		y.wins[kind] += n
	}
	if other.last != nil {
		y.last = other.last
	}
}

// report logs the counts, and fails the test where too little was tested. That nobody wins is allowed: of two who meet, both may give way.
func (y *guardTally) report(t *testing.T, lasted time.Duration) {
	t.Helper()
	t.Logf("%d races in %v: nobody won %d (%d of them without host names), %d without a verdict for all, %d times too much at a time; "+
		"winners %v, %d of them by host name; last error: %v", y.rounds, lasted.Round(time.Millisecond), y.none, y.noneOfWhole, y.unclear, y.busy,
		y.wins, y.shared, y.last)
	if decided := y.rounds - y.unclear; decided*2 < y.rounds {
		t.Errorf("only %d of %d races had a verdict for everybody", decided, y.rounds)
	}
	if y.rounds < enoughRaces {
		return
	}
	for _, kind := range []string{"Gateway", "ListenerSet", "ListenerSet by an edit", "StreamIngress"} {
		if y.wins[kind] == 0 {
			t.Errorf("no %s has ever won", kind)
		}
	}
	if y.shared == 0 {
		t.Error("nobody has ever won by a host name")
	}
}

// exactListeners compares the claims on ports of Gateways and of classes with the objects that are stored.
func exactListeners(w *fixture) error {
	own, may, err := standing(w)
	if err != nil {
		return err
	}
	var claims v1beta1.EdgeClaimList
	if err := w.Client.List(w.t.Context(), &claims); err != nil {
		return err
	}
	var wrong []string
	for i := range claims.Items {
		c := &claims.Items[i]
		at, err := claim.Of(c)
		switch {
		case err != nil:
			return err
		case !at.IsListener() && !at.IsStream():
		case own[at] == c.Spec.HeldBy:
			delete(own, at)
		case !slices.Contains(may[at], c.Spec.HeldBy):
			wrong = append(wrong, fmt.Sprintf("%s is held by %s, who does not stand there", at, c.Spec.HeldBy))
		}
	}
	for at, by := range own {
		wrong = append(wrong, fmt.Sprintf("%s is not held by %s, who stands there", at, by))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d differ, as: %s", len(wrong), strings.Join(wrong[:min(len(wrong), 5)], "; "))
	}
	return nil
}

// standing are the points that those who are stored must hold: their own, and of a port that is shared by host name, that it is. They may
// hold them as those of a class, too, whose streams have to know.
func standing(w *fixture) (own map[claim.Coordinate]string, may map[claim.Coordinate][]string, err error) {
	own, may = map[claim.Coordinate]string{}, map[claim.Coordinate][]string{}
	var gateways gatewayv1.GatewayList
	var sets gatewayv1.ListenerSetList
	var streams v1beta1.StreamIngressList
	for _, list := range []client.ObjectList{&gateways, &sets, &streams} {
		if err := w.Client.List(w.t.Context(), list); err != nil {
			return nil, nil, err
		}
	}
	var openers []guard.Opener
	for i := range gateways.Items {
		openers = append(openers, guard.OfGateway(&gateways.Items[i]))
	}
	for i := range sets.Items {
		if set := &sets.Items[i]; set.Labels[v1beta1.LabelClass] == "" {
			openers = append(openers, guard.OfListenerSet(set, kube.GatewayOf(set)))
		}
	}
	for _, o := range openers {
		by := o.String()
		for _, l := range o.Listeners {
			for _, at := range l.Points(o.Of) {
				own[at] = by
				if at.ListenerHost() != "" {
					own[claim.Listener(o.Of, claim.HTTPListener, at.Port())] = claim.GatewayHolder(o.Of.Namespace, o.Of.Name).String()
				}
				class := claim.Stream(o.Of.Name, TCP, at.Port()) // those of the races have the names of their Gateways
				may[class] = append(may[class], by)
			}
		}
	}
	for i := range streams.Items {
		s := &streams.Items[i]
		own[claim.Stream(s.Spec.ClassName, TCP, *s.Spec.Listen)] = claim.StreamHolder(s.Namespace, s.Name).String()
	}
	return own, may, nil
}
