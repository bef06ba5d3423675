package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// moving is one run of the command move.
type moving struct {
	*moveCommand
	cluster mover
	// moved is how many were moved; those that are underWay are not open yet.
	moved    int
	underWay []*v1beta1.StreamIngress
	// refusedThere are those that the new class has stored, and gives no port.
	refusedThere []*v1beta1.StreamIngress
	// lost is how many are left as they are, as somebody else has changed them.
	lost int
}

const (
	// looksEvery is how often streams are looked at that are under way, and tellsEvery how often it is told of whom is waited for.
	looksEvery = 500 * time.Millisecond
	tellsEvery = 10 * time.Second
	// answersWithin is how long the API server may take. Whoever interrupts the command does not interrupt a change.
	answersWithin = 30 * time.Second
	// attempts is how often a stream is read anew that somebody else has changed meanwhile.
	attempts = 5
)

// stopError says why no more streams are moved.
type stopError struct{ text string }

func (e *stopError) Error() string { return e.text }

func stopped(format string, args ...any) error { return &stopError{fmt.Sprintf(format, args...)} }

// errInterrupted says that the user has ended the command.
var errInterrupted = stopped("interrupted")

// run waits for those that are under way, and moves the others, some at a time.
func (m *moving) run(ctx context.Context, plan movePlan) error {
	for _, s := range plan.underWay {
		line(m.ErrOut, "%s names class %s already: waiting for it to be open there", nameOf(s), m.to)
	}
	if err := m.await(ctx, plan.underWay); err != nil {
		return err
	}
	for batch := range slices.Chunk(plan.left, m.batch) {
		if err := m.moveBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// moveBatch moves streams, and waits for all that could be: also where one of them is refused.
func (m *moving) moveBatch(ctx context.Context, batch []*v1beta1.StreamIngress) (err error) {
	var waiting []*v1beta1.StreamIngress
	for _, s := range batch {
		if ctx.Err() != nil {
			err = errInterrupted
			break
		}
		var next *v1beta1.StreamIngress
		if next, err = m.move(ctx, s, false); err != nil {
			break
		}
		switch {
		case next == nil:
		case wasOpen(next):
			waiting = append(waiting, next)
		default:
			m.moved++
			line(m.Out, "%s moved, and was not open before", nameOf(s))
		}
	}
	if ended := m.await(ctx, waiting); err == nil {
		err = ended
	}
	return err
}

// move has a stream name the new class; nil for one that is not of the old class any longer.
func (m *moving) move(ctx context.Context, s *v1beta1.StreamIngress, dryRun bool) (*v1beta1.StreamIngress, error) {
	for range attempts {
		next, warnings, err := m.ask(ctx, s, dryRun)
		for _, text := range warnings {
			line(m.ErrOut, "Warning: %s: %s", nameOf(s), text)
		}
		switch {
		case err == nil && dryRun && slices.ContainsFunc(warnings, stream.IsWarning):
			return nil, stopped("%s would have no port in class %s, which only warns of that", nameOf(s), m.to)
		case err == nil:
			return next, nil
		case apierrors.IsNotFound(err):
			line(m.ErrOut, "%s is gone", nameOf(s))
			return nil, nil
		case !apierrors.IsConflict(err):
			return nil, m.refused(s, err, dryRun)
		}
		now, err := m.stored(ctx, s)
		switch {
		case apierrors.IsNotFound(err):
			line(m.ErrOut, "%s is gone", nameOf(s))
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", nameOf(s), err)
		case now.UID == s.UID && now.DeletionTimestamp != nil:
			line(m.ErrOut, "%s is being deleted, and is left as it is", nameOf(s))
			return nil, nil
		case now.UID != s.UID || classOf(now) != m.from:
			m.loses(s)
			return nil, nil
		}
		s = now
	}
	return nil, stopped("%s changes too fast", nameOf(s))
}

// ask asks the API server to move a stream, again and again for as long as it can't decide. Whoever interrupts that does not interrupt a
// change.
func (m *moving) ask(ctx context.Context, s *v1beta1.StreamIngress, dryRun bool) (*v1beta1.StreamIngress, []string, error) {
	for until := time.Now().Add(m.timeout); ; {
		next, warnings, err := func() (*v1beta1.StreamIngress, []string, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answersWithin)
			defer cancel()
			return m.cluster.Move(ctx, s, m.to, dryRun)
		}()
		if !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) || time.Now().After(until) {
			return next, warnings, err
		}
		select {
		case <-ctx.Done():
			return next, warnings, errInterrupted
		case <-time.After(m.looksEvery):
		}
	}
}

// stored reads a stream anew.
func (m *moving) stored(ctx context.Context, s *v1beta1.StreamIngress) (*v1beta1.StreamIngress, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answersWithin)
	defer cancel()
	return m.cluster.Stream(ctx, snapshot.Key(s))
}

// loses leaves a stream to somebody else.
func (m *moving) loses(s *v1beta1.StreamIngress) {
	m.lost++
	line(m.ErrOut, "%s was changed by somebody else meanwhile, and is left as it is", nameOf(s))
}

// refused is what became of a stream that could not be moved: a verdict, or that nothing could be said of it, as by a dry run of who may
// not change it.
func (m *moving) refused(s *v1beta1.StreamIngress, err error, dryRun bool) error {
	if errors.Is(err, errInterrupted) {
		return err
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) && !dryRun {
		return stopped("%s was not moved: %s", nameOf(s), err)
	}
	return fmt.Errorf("moving %s: %w", nameOf(s), err)
}

// await waits until streams are open behind the new class. They are under way until then.
func (m *moving) await(ctx context.Context, streams []*v1beta1.StreamIngress) error {
	m.underWay = slices.Clone(streams)
	defer func() { m.underWay = append(m.refusedThere, m.underWay...) }()
	if len(streams) == 0 {
		return nil
	}
	told, failed := time.Now(), error(nil)
	err := wait.PollUntilContextTimeout(ctx, m.looksEvery, m.timeout, true, func(context.Context) (bool, error) {
		failed = m.look(ctx) // which is not cut short by the timeout: its error would be about that
		if apierrors.IsForbidden(failed) || apierrors.IsUnauthorized(failed) {
			return false, failed
		}
		if len(m.underWay) > 0 && time.Since(told) >= tellsEvery {
			told = time.Now()
			s := m.underWay[0]
			line(m.ErrOut, "waiting for %d to be open in class %s, such as %s: %s", len(m.underWay), m.to, nameOf(s), whyNot(s))
		}
		return len(m.underWay) == 0, nil
	})
	switch {
	case err == nil && len(m.refusedThere) > 0:
		s := m.refusedThere[0]
		return stopped("%s is not open in class %s: %s", nameOf(s), m.to, whyNot(s))
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errInterrupted
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case failed != nil:
		return fmt.Errorf("looking at %s: %w", nameOf(m.underWay[0]), failed)
	}
	s := m.underWay[0]
	return stopped("%s is not open in class %s after %s: %s", nameOf(s), m.to, m.timeout, whyNot(s))
}

// look reads those that are under way, and tells of those that have arrived.
func (m *moving) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	var first error
	yet := m.underWay[:0:0]
	for _, s := range m.underWay {
		now, err := m.cluster.Stream(ctx, snapshot.Key(s))
		switch {
		case apierrors.IsNotFound(err):
			line(m.ErrOut, "%s is gone", nameOf(s))
		case err != nil:
			if first == nil {
				first = err
			}
			yet = append(yet, s)
		case now.UID != s.UID || classOf(now) != m.to:
			m.loses(s)
		case now.DeletionTimestamp != nil:
			line(m.ErrOut, "%s is being deleted, and is left as it is", nameOf(s))
		case hasArrived(now, m.to):
			m.moved++
			line(m.Out, "%s moved, %s", nameOf(now), doorOf(now))
		case isRefused(now):
			m.refusedThere = append(m.refusedThere, now)
		default:
			yet = append(yet, now)
		}
	}
	m.underWay = yet
	return first
}

// tryAll finds out of each stream whether it could be moved, and says how many could not.
func (m *moving) tryAll(ctx context.Context, plan movePlan) error {
	refused, err := m.try(ctx, plan)
	switch {
	case errors.Is(err, errInterrupted):
		line(m.ErrOut, "error: %s", err)
		return errFindings
	case err == nil && refused > 0:
		line(m.ErrOut, "%d of %d would be refused", refused, len(plan.left))
		return errFindings
	}
	return cmp.Or(err, plan.incomplete())
}

// try finds out of each stream whether it could be moved.
func (m *moving) try(ctx context.Context, plan movePlan) (refused int, err error) {
	for _, s := range plan.left {
		if ctx.Err() != nil {
			return refused, errInterrupted
		}
		next, err := m.move(ctx, s, true)
		var verdict *stopError
		switch {
		case errors.Is(err, errInterrupted):
			return refused, err
		case errors.As(err, &verdict):
			refused++
			line(m.ErrOut, "error: %s", err)
		case err != nil:
			return refused, err
		case next != nil:
			line(m.Out, "%s moved (server dry run)", nameOf(s))
		}
	}
	return refused, nil
}

// nameOf is how a stream is told of.
func nameOf(s *v1beta1.StreamIngress) string {
	return fmt.Sprintf("streamingress.%s %s/%s", v1beta1.GroupName, s.Namespace, s.Name)
}
