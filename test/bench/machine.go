package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// describe notes what the figures depend on.
func (b *bench) describe(root string) error {
	assets, err := controlplane.Assets(b.ctx)
	if err != nil {
		return err
	}
	b.report.Date, b.report.Quick = time.Now().UTC().Format(time.DateOnly), b.quick
	b.report.Machine = []report.Fact{
		{Name: "CPU", Value: fmt.Sprintf("%s, %d cores", process.CPUModel(), runtime.NumCPU())},
		{Name: "memory", Value: process.TotalMemory()},
		{Name: "system", Value: runtime.GOOS + "/" + runtime.GOARCH},
		{Name: "load when the run began", Value: process.Load()},
	}
	b.report.Versions = []report.Fact{
		{Name: "Portcullis", Value: b.firstLine(root, "git", "describe", "--tags", "--always", "--dirty")},
		{Name: "kube-apiserver", Value: lastWord(b.firstLine(root, filepath.Join(assets, "kube-apiserver"), "--version"))},
		{Name: "etcd", Value: lastWord(b.firstLine(root, filepath.Join(assets, "etcd"), "--version"))},
		{Name: "Go", Value: runtime.Version()},
	}
	for _, f := range append(append([]report.Fact{}, b.report.Machine...), b.report.Versions...) {
		b.say("%s: %s", f.Name, f.Value)
	}
	return nil
}

// lastWord is the version in what a program says about it.
func lastWord(line string) string { return line[strings.LastIndexByte(line, ' ')+1:] }

// firstLine is the first line that a program prints.
func (b *bench) firstLine(dir, program string, args ...string) string {
	cmd := exec.CommandContext(b.ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line)
}
