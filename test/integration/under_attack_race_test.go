package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// rounds of users for one free port. Where requests are disturbed, or ports drawn too, a round takes longer.
	rounds, longRounds = 300, 120
	// rivals for one port.
	rivals = 16
	// requestTimeout is how long an API request lives in races. raceGrace is longer by more than this machine stands still.
	requestTimeout = 20 * time.Second
	raceGrace      = 30 * time.Second
)

// raceOptions are two replicas that may be killed, and an API server whose requests are so short-lived that a test can wait
// for the end of a grace.
func raceOptions() harness.Options {
	return harness.Options{
		Replicas:     2,
		Flags:        slices.Concat(shortLease, []string{"--claim-grace=" + raceGrace.String()}),
		ControlPlane: controlplane.Options{APIServerFlags: []string{"--request-timeout=" + requestTimeout.String()}},
	}
}

// TestNoDoubleYes is the promise that Portcullis is made for: of many requests for one free port, exactly one is told
// yes, whichever replica answers and however the requests end.
func TestNoDoubleYes(t *testing.T) {
	t.Parallel()
	o := raceOptions()
	o.Flags = append(o.Flags, longLease...)
	h := start(t, o)
	c := streamHistory(t, h)
	for _, race := range []struct {
		name string
		run  func(*fixture)
	}{
		{"creates", raceCreates},
		{"updates", raceUpdates},
		{"draws", raceDraws},
		{"aborted", raceAborted},
		{"recreated", raceRecreated},
		{"in flight", raceInFlight},
	} {
		t.Run(race.name, func(t *testing.T) {
			w := newFixture(t, h)
			before := make([]float64, len(h.Replicas))
			for i, r := range h.Replicas {
				before[i] = decisions(w, r, "StreamIngress")
			}
			began := time.Now()
			race.run(w)
			for i, r := range h.Replicas {
				decided := decisions(w, r, "StreamIngress") - before[i]
				t.Logf("replica %d decided %v times in %v", i, decided, time.Since(began).Round(time.Millisecond))
				if decided == 0 {
					t.Errorf("replica %d was never asked, so that this was no race between replicas", i)
				}
			}
			c.mustHold(w)
		})
	}
}

// raceCreates lets all users create a stream for the same free port.
func raceCreates(w *fixture) {
	e, users := w.newEdge("creates", hostNetwork), w.creators("creates", rivals)
	var y tally
	for round := range rounds {
		name, port := fmt.Sprintf("round-%d", round), int32(10000+round)
		y.mustBeOne(w, round, all(users, func(i int, c *creator) error {
			s := sti(c.namespace+"/"+name, of("creates"), tcp(port))
			if i%2 == 0 {
				return apply(w.t.Context(), c, s)
			}
			return create(w.t.Context(), c, s)
		}))
	}
	y.report(w, false)
	e.isExact()
	e.nobodyWasLiedTo()
}

// raceUpdates lets all users move the streams that they have to the same free port.
func raceUpdates(w *fixture) {
	e, users := w.newEdge("updates", hostNetwork), w.creators("updates", rivals)
	for i, c := range users {
		w.create(sti(c.namespace+"/mover", of("updates"), tcp(int32(100+i))))
	}
	var y tally
	for round := range rounds {
		move := moveTo(int32(10000 + round))
		y.mustBeOne(w, round, all(users, func(_ int, c *creator) error {
			return c.Patch(w.t.Context(), sti(c.namespace+"/mover"), move)
		}))
	}
	y.report(w, false)
	e.isExact()
	e.nobodyWasLiedTo()
}

// raceDraws lets two of the users leave the port out, and the others ask for the one that the first of them is about to
// be given.
func raceDraws(w *fixture) {
	e, users := w.newEdge("draws", hostNetwork, autoAssign(20000, 20000+4*longRounds)), w.creators("draws", rivals)
	var y tally
	for round := range longRounds {
		name := fmt.Sprintf("round-%d", round)
		port := stream.PickPort(e.free(TCP), users[0].namespace, name)
		got := all(users, func(i int, c *creator) error {
			if i < 2 {
				return c.Create(w.t.Context(), sti(c.namespace+"/"+name, of("draws"), auto(TCP)))
			}
			return c.Create(w.t.Context(), sti(c.namespace+"/"+name, of("draws"), tcp(port)))
		})
		y.add(got)
		named := 0
		for _, i := range got.yes {
			if i >= 2 {
				named++
			}
		}
		switch holder := w.holder("draws", TCP, port); {
		case named > 1:
			w.t.Errorf("round %d: %d users were told yes for port %d", round, named, port)
		case len(got.unclear) > 0:
		case holder == "":
			w.t.Errorf("round %d: port %d was free, and nobody has it: %+v", round, port, got)
		case len(got.yes)-named != 2:
			w.t.Errorf("round %d: there were hundreds of ports to draw from, and %d of 2 users were given one", round, len(got.yes)-named)
		}
	}
	y.report(w, false)
	e.isExact()
	e.nobodyWasLiedTo()
}

// raceAborted lets half of the users for a port hang up or crash at random moments, while answers of the webhook are
// late, or get lost.
func raceAborted(w *fixture) {
	e, users := w.newEdge("aborted", hostNetwork), w.creators("aborted", rivals)
	for i, c := range users {
		w.create(sti(c.namespace+"/mover", of("aborted"), tcp(int32(100+i))))
	}
	w.DisturbAnswers(func() harness.Fate {
		return harness.Fate{Delay: rand.N(10 * time.Millisecond), Cut: rand.N(40) == 0}
	})
	var y tally
	told := map[string]bool{}
	for round := range longRounds {
		name, port := fmt.Sprintf("round-%d", round), int32(10000+round)
		got := all(users, func(i int, c *creator) error {
			ctx, cancel := context.WithCancel(w.t.Context())
			defer cancel()
			switch rand.N(4) {
			case 0:
				defer time.AfterFunc(rand.N(40*time.Millisecond), cancel).Stop()
			case 1:
				defer time.AfterFunc(rand.N(40*time.Millisecond), c.cut).Stop()
			}
			if i%3 == 0 {
				return c.Patch(ctx, sti(c.namespace+"/mover"), moveTo(port))
			}
			return create(ctx, c, sti(c.namespace+"/"+name, of("aborted"), tcp(port)))
		})
		y.add(got)
		if len(got.yes) > 1 {
			w.t.Errorf("round %d: %d users were told yes for one port", round, len(got.yes))
		}
		for _, i := range got.yes {
			if i%3 != 0 { // a mover moves on
				told[users[i].namespace+"/"+name] = true
			}
		}
	}
	w.DisturbAnswers(nil)
	y.report(w, true)
	stored := e.streams()
	for key := range told {
		if stored[key] == nil {
			w.t.Errorf("%s: its user was told yes, and it is not stored", key)
		}
	}
	w.t.Logf("%d users were told yes, %d streams are stored, %d claims before the grace has passed", len(told), len(stored), e.claims())
	e.isExact() // no claim of a request that was aborted is left
	e.nobodyWasLiedTo()
}

// raceRecreated lets one user delete and create the same stream as fast as it can, beside rivals for its port.
func raceRecreated(w *fixture) {
	e, users := w.newEdge("recreated", hostNetwork), w.creators("recreated", 4)
	deadline := time.Now().Add(10 * time.Second)
	var y tally
	for round := 0; time.Now().Before(deadline); round++ {
		if round%4 == 0 {
			w.Reconnect()
		}
		// The same few ports again and again, so that all users meet what others have left.
		port := int32(7000 + round%3)
		got := all(users, func(i int, c *creator) error {
			s := sti(fmt.Sprintf("%s/again-%d", c.namespace, port), of("recreated"), tcp(port))
			err := c.Create(w.t.Context(), s)
			if err == nil && i > 0 {
				err = c.Delete(w.t.Context(), s.DeepCopy())
			}
			if i > 0 || err != nil {
				return err
			}
			// The incumbent: gone and back, with nothing in between.
			if err := c.Delete(w.t.Context(), s.DeepCopy()); err != nil {
				return err
			}
			s.ResourceVersion, s.UID = "", ""
			if err = c.Create(w.t.Context(), s); err == nil {
				err = c.Delete(w.t.Context(), s)
			}
			return err
		})
		y.add(got)
	}
	y.report(w, true)
	if y.yes == 0 {
		w.t.Error("nobody ever got a port")
	}
	e.isExact()
	if left := e.claims(); left != 0 {
		w.t.Errorf("%d claims are left", left)
	}
}

// streams are the stored streams of the class, by namespace/name.
func (e *edge) streams() map[string]*v1beta1.StreamIngress {
	e.t.Helper()
	list := &v1beta1.StreamIngressList{}
	if err := e.Client.List(e.t.Context(), list); err != nil {
		e.t.Fatal(err)
	}
	stored := map[string]*v1beta1.StreamIngress{}
	for i := range list.Items {
		if s := &list.Items[i]; s.Spec.ClassName == e.class.Name {
			stored[s.Namespace+"/"+s.Name] = s
		}
	}
	return stored
}

// claims is how many ports of the class streams hold.
func (e *edge) claims() (n int) {
	e.t.Helper()
	list := &v1beta1.EdgeClaimList{}
	if err := e.Client.List(e.t.Context(), list); err != nil {
		e.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.Scope == claim.StreamScope(e.class.Name) && claim.HolderOf(&list.Items[i]).IsStream() {
			n++
		}
	}
	return n
}

// free are the ports of the autoAssign range that have no claim now.
func (e *edge) free(protocol v1beta1.Protocol) *stream.PortSet {
	e.t.Helper()
	ports := stream.Automatic(e.class, protocol, nil)
	list := &v1beta1.EdgeClaimList{}
	if err := e.Client.List(e.t.Context(), list); err != nil {
		e.t.Fatal(err)
	}
	for i := range list.Items {
		if at, err := claim.Parse(list.Items[i].Name); err == nil && at.Class() == e.class.Name && at.Protocol() == protocol {
			ports.Remove(at.Port())
		}
	}
	return ports
}

// nobodyWasLiedTo fails the test for streams that were admitted and then refused.
func (e *edge) nobodyWasLiedTo() {
	e.t.Helper()
	lied := 0
	for key, s := range e.streams() {
		if got := condition(s.Status.Conditions, v1beta1.ConditionAccepted); got != "True Accepted" {
			lied++
			if lied <= 5 {
				e.t.Errorf("%s was admitted, and then: %s", key, got)
			}
		}
	}
	if lied > 5 {
		e.t.Errorf("... and %d more", lied-5)
	}
}
