package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// profileAddress is where the manager tells what it is busy with, when profiles are asked for.
const profileAddress = "127.0.0.1:6060"

// profileFlags are the flags of a manager that is profiled.
func (b *bench) profileFlags() []string {
	if b.profiles == "" {
		return nil
	}
	return []string{"--pprof-bind-address=" + profileAddress}
}

// profile writes what the manager is busy with while something goes on, until the function that it returns is called.
// It does nothing unless profiles are asked for.
func (b *bench) profile(name string) (end func()) {
	if b.profiles == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			const seconds = 20
			b.fetchProfile(ctx, fmt.Sprintf("profile?seconds=%d", seconds), fmt.Sprintf("%s-cpu-%d.prof", name, i))
		}
	}()
	return func() {
		cancel()
		<-done
		b.fetchProfile(b.ctx, "heap?gc=1", name+"-heap.prof")
	}
}

// fetchProfile writes one profile. A profile is no figure: that it can't be had is only said.
func (b *bench) fetchProfile(ctx context.Context, what, file string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	content, err := controlplane.Get(ctx, http.DefaultClient, "http://"+profileAddress+"/debug/pprof/"+what)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.profiles, file), content, 0o600)
	}
	if err != nil {
		b.say("no profile %s: %s", file, err)
	}
}
