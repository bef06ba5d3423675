package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// journal keeps Portcullis' log in a file and shows it on the terminal, except while it would bury what the run itself
// says: at the start and at the end.
type journal struct {
	path string

	mu    sync.Mutex
	file  *os.File
	shown io.Writer
}

// newJournal starts a new file at path; nothing is shown yet.
func newJournal(path string) (*journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &journal{path: path, file: file, shown: io.Discard}, nil
}

// Write keeps what Portcullis logs.
func (j *journal) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = j.shown.Write(text) // a closed terminal must not end Portcullis
	return j.file.Write(text)
}

// show writes the log that follows to out, too.
func (j *journal) show(out io.Writer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shown = out
}

// tail returns the last lines of the log.
func (j *journal) tail(lines int) string {
	text, err := os.ReadFile(j.path)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
