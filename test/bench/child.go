package main

import (
	"errors"
	"os"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// spawn starts this program again, as one to compare with. Whoever spawns it stops it.
func (b *bench) spawn(name string, args ...string) (*controlplane.Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(b.dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	program, err := controlplane.StartProgram(self, append([]string{name}, args...), log)
	return program, errors.Join(err, log.Close())
}
