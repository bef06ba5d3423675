// Command recording draws docs/pictures: what somebody sees on a terminal, of real commands against a real API server. It is `make
// recordings`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	dir := flag.String("dir", filepath.FromSlash("docs/pictures"), "directory of the pictures")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := draw(ctx, *dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// recording is one picture.
type recording struct {
	// name is that of its file, without a suffix; title says to who can't see it what it shows.
	name, title string
	// columns is how wide the terminal is.
	columns int
	// play makes a cluster, and shows on it.
	play func(ctx context.Context, dir string, show func(s *stage) error) error
	// commands are typed one after the other, each line of one that has several after a prompt of its own.
	commands []command
}

// command is what is typed, and with which exit status it has to end.
type command struct {
	text   string
	status int
}

// draw plays all recordings, and writes their pictures.
func draw(ctx context.Context, dir string) error {
	for _, r := range recordings {
		fmt.Println("Recording", r.name, "...")
		err := inTemporary(func(temporary string) error {
			return r.play(ctx, temporary, func(s *stage) error {
				rows, err := s.record(ctx, r)
				if err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(dir, r.name+".svg"), picture(r.title, r.columns, rows), 0o600)
			})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// inTemporary gives a directory that is gone afterwards.
func inTemporary(do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "portcullis-recording-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}
