package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// errSlow says that this machine was too slow for an attack: a request died of old age before its time had come.
var errSlow = errors.New("the request that was held back has timed out")

// raceInFlight holds requests back between Portcullis's yes and their being stored, and has meanwhile done whatever
// could let the ledger believe that nobody needs the port any more.
func raceInFlight(w *fixture) {
	e, t := w.newEdge("inflight", hostNetwork), w.newBlockingWebhook()
	attacks, slow := []struct {
		name string
		run  func(e *edge, t *blockingWebhook, id string, port int32) error
	}{
		{"a twin is created and deleted", createTwin(create, deleted)},
		{"a twin is created and moves away", createTwin(create, moved)},
		{"a twin is created and deleted, beside an apply", createTwin(apply, deleted)},
		{"a twin is created and moves away, beside an apply", createTwin(apply, moved)},
		{"a change makes a move begin anew", overtakeMove},
		{"an old move comes late", regressMove},
	}, 0
	for i, attack := range attacks {
		err := errSlow
		for try := 0; errors.Is(err, errSlow) && try < 4; try++ {
			id := fmt.Sprintf("inflight-%d-%d", i, try)
			e.create(namespace(id+"-a"), namespace(id+"-b"))
			err = attack.run(e, t, id, int32(5000+10*i+try))
		}
		switch {
		case errors.Is(err, errSlow):
			slow++
			w.t.Logf("%s: %v", attack.name, err)
		case err != nil:
			w.t.Errorf("%s: %v", attack.name, err)
		}
	}
	if slow == len(attacks) {
		w.t.Error("all attacks were too slow, so that nothing was tested")
	}
	e.isExact()
	e.nobodyWasLiedTo()
}

// deleted and moved make a stream give up its port.
func deleted(e *edge, s *v1beta1.StreamIngress) { e.delete(s) }

func moved(e *edge, s *v1beta1.StreamIngress) {
	edit(e.fixture, s, func(s *v1beta1.StreamIngress) { s.Spec.Listen = new(*s.Spec.Listen + 100) })
}

// createTwin holds back the creation of a stream, creates another of the same name, which is stored first, makes that
// one give up the port, and sees whether a rival gets it before the first one is stored.
func createTwin(
	first func(context.Context, client.Client, *v1beta1.StreamIngress) error, giveUp func(*edge, *v1beta1.StreamIngress),
) func(e *edge, t *blockingWebhook, id string, port int32) error {
	return func(e *edge, t *blockingWebhook, id string, port int32) error {
		slow := t.late("validating", id)
		ended := slow.begin(e.fixture, func(c client.Client) error {
			return first(e.t.Context(), c, sti(id+"-a/twin", of("inflight"), tcp(port)))
		})
		e.heldBy("inflight", TCP, port, "StreamIngress "+id+"-a/twin")
		e.Reconnect() // the twin is for the other replica to judge
		twin := sti(id+"-a/twin", of("inflight"), tcp(port))
		if err := e.try(twin); timedOut(err) {
			slow.let()
			return errors.Join(errSlow, <-ended)
		} else if err != nil {
			return fmt.Errorf("the twin was refused: %w", err)
		}
		e.has(twin, v1beta1.ConditionAccepted, "True Accepted")
		giveUp(e, twin)
		rival := e.rival(id, port)
		e.delete(twin) // it would be in the way
		slow.let()
		return oneOf(<-ended, rival)
	}
}

// overtakeMove holds back a move to a port, and changes the stream meanwhile, so that the move has to begin anew.
func overtakeMove(e *edge, t *blockingWebhook, id string, port int32) error {
	e.create(sti(id+"-a/mover", of("inflight"), tcp(port+200)))
	slow := t.late("validating", id)
	ended := slow.begin(e.fixture, func(c client.Client) error { return c.Patch(e.t.Context(), sti(id+"-a/mover"), moveTo(port)) })
	e.heldBy("inflight", TCP, port, "StreamIngress "+id+"-a/mover")
	e.Reconnect()
	edit(e.fixture, sti(id+"-a/mover"), func(s *v1beta1.StreamIngress) { to("web", 81)(s) })
	edit(e.fixture, sti(id+"-a/mover"), func(s *v1beta1.StreamIngress) { to("web", 80)(s) })
	rival := e.rival(id, port)
	slow.let()
	return oneOf(<-ended, rival)
}

// regressMove holds back a move before Portcullis is asked, so that it comes when a later move to the same port has been
// promised already, with a generation that is stored by then.
func regressMove(e *edge, t *blockingWebhook, id string, port int32) error {
	e.create(sti(id+"-a/mover", of("inflight"), tcp(port+200)))
	old, recent := t.late("mutating", id+"-old"), t.late("validating", id+"-recent")
	move := func(c client.Client) error { return c.Patch(e.t.Context(), sti(id+"-a/mover"), moveTo(port)) }
	oldEnded := old.begin(e.fixture, move)
	edit(e.fixture, sti(id+"-a/mover"), func(s *v1beta1.StreamIngress) { to("web", 81)(s) })
	recentEnded := recent.begin(e.fixture, move)
	e.heldBy("inflight", TCP, port, "StreamIngress "+id+"-a/mover")
	e.Reconnect()
	// The old move is asked about now. It can't be stored, and begins anew when it finds out: that is held back, too.
	again := t.late("validating", id+"-old")
	old.let()
	select {
	case <-again.arrived:
	case err := <-oldEnded:
		recent.let()
		if timedOut(err) {
			return errors.Join(errSlow, <-recentEnded)
		}
		return fmt.Errorf("the old move did not begin anew, it ended with: %w", errors.Join(err, <-recentEnded))
	}
	rival := e.rival(id, port)
	recent.let()
	err := oneOf(<-recentEnded, rival)
	again.let()
	e.t.Logf("the old move ended with: %v", <-oldEnded)
	edit(e.fixture, sti(id+"-a/mover"), func(s *v1beta1.StreamIngress) { to("web", 80)(s) })
	return err
}

func moveTo(port int32) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"listen":%d}}`, port))
}

// rival tries for three seconds to get a port: several times longer than a port takes to be free when its holder goes.
func (e *edge) rival(id string, port int32) (err error) {
	e.t.Helper()
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = e.try(sti(id+"-b/rival", of("inflight"), tcp(port))); err == nil || !apierrors.IsInvalid(err) {
			return err
		}
	}
	return err
}

// timedOut says that a request ended without a verdict: of old age, or because its way to Portcullis was cut.
func timedOut(err error) bool {
	return err != nil && !apierrors.IsInvalid(err) && (apierrors.IsTimeout(err) || apierrors.IsInternalError(err) ||
		strings.Contains(err.Error(), "deadline") || strings.Contains(err.Error(), "failed calling webhook"))
}

// oneOf says what is wrong with the answers to two requests for one port.
func oneOf(first, rival error) error {
	switch {
	case timedOut(first) || timedOut(rival):
		return errSlow
	case first == nil && rival == nil:
		return errors.New("both were told yes")
	case first != nil && rival != nil:
		return fmt.Errorf("nobody was told yes: %w", errors.Join(first, rival))
	default:
		return nil
	}
}
