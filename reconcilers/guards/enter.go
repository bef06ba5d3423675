package guards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
)

const (
	// entriesAtOnce is how many points are entered in one look, and sideBySide how many of them beside each other. The rest waits for the
	// next look, and so do others for no longer than this.
	entriesAtOnce = 512
	sideBySide    = 8
)

// enterAll has points claimed for those who have them, and then those that others hand over to them. It returns when to look again, 0 for
// never: soon for what somebody else was faster at and for what is left, and later for what is not handed over yet, after all: an object
// may be on its way that has the point, too.
func enterAll(ctx context.Context, a access.Access, entries []claim.Entry) (again time.Duration, err error) {
	var free, handed []claim.Entry
	for _, e := range entries {
		held, err := a.View.Claim(ctx, e.At.Name())
		switch {
		case err != nil:
			return 0, err
		case held == nil:
			free = append(free, e)
		default:
			handed = append(handed, e)
		}
	}
	one := claiming(ctx, a.Ledger)
	more := len(free) > entriesAtOnce || len(handed) > entriesAtOnce
	held, err := enter(free[:min(len(free), entriesAtOnce)], one)
	waits, errHanded := enter(handed[:min(len(handed), entriesAtOnce)], one)
	switch err = errors.Join(err, errHanded); {
	case waits && !held && len(free) <= entriesAtOnce:
		return confirmEvery, err
	case held || more || len(handed) > 0 && !waits: // of what is another's by now nobody has been told
		return gather, err
	default:
		return 0, err
	}
}

// claiming claims a point for whoever has it.
func claiming(ctx context.Context, ledger *claim.Ledger) func(claim.Entry) error {
	return func(e claim.Entry) error {
		_, err := ledger.Claim(ctx, e.By, nil, e.At)
		return err
	}
}

// enter has points claimed for those who have them. held says that somebody else was faster: by the next look that is somebody's loss.
func enter(entries []claim.Entry, one func(claim.Entry) error) (held bool, err error) {
	errs := make([]error, len(entries))
	group := errgroup.Group{}
	group.SetLimit(sideBySide)
	for i, e := range entries {
		group.Go(func() error {
			errs[i] = one(e)
			return nil
		})
	}
	_ = group.Wait() // each has its own
	for i, err := range errs {
		switch {
		case claim.IsHeld(err):
			held, errs[i] = true, nil
		case err != nil:
			errs[i] = fmt.Errorf("entering %s for %s: %w", entries[i].At, entries[i].By.Holder, err)
		}
	}
	return held, errors.Join(errs...)
}
