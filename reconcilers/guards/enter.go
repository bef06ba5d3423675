package guards

import (
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

const (
	// entriesAtOnce is how many points are entered in one look, and sideBySide how many of them beside each other. The rest waits for the
	// next look, and so do others for no longer than this.
	entriesAtOnce = 512
	sideBySide    = 8
)

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
