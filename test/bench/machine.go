package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// describe notes what the figures depend on.
func (b *bench) describe(root string) error {
	assets, err := controlplane.Assets(b.ctx)
	if err != nil {
		return err
	}
	b.report.Date, b.report.Quick = time.Now().UTC().Format(time.DateOnly), b.quick
	b.report.Machine = []fact{
		{"CPU", fmt.Sprintf("%s, %d cores", cpuModel(), runtime.NumCPU())},
		{"memory", memory()},
		{"system", runtime.GOOS + "/" + runtime.GOARCH},
		{"load when the run began", loadAverage()},
	}
	b.report.Versions = []fact{
		{"Portcullis", b.firstLine(root, "git", "describe", "--tags", "--always", "--dirty")},
		{"kube-apiserver", b.firstLine(root, filepath.Join(assets, "kube-apiserver"), "--version")},
		{"etcd", b.firstLine(root, filepath.Join(assets, "etcd"), "--version")},
		{"Go", runtime.Version()},
	}
	for _, f := range append(b.report.Machine, b.report.Versions...) {
		b.say("%s: %s", f.Name, f.Value)
	}
	return nil
}

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

// cpuModel, memory and loadAverage are "unknown" where the kernel does not tell.
func cpuModel() string { return field("/proc/cpuinfo", "model name") }

func memory() string {
	kib, err := strconv.ParseFloat(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 64)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.0f GiB", kib/(1<<20))
}

func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(content), " ")
	return load
}

// field is the value of the first line "name: value" in a file.
func field(path, name string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(content)) {
		key, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// mebibytes is the memory that a process keeps resident, and cpuSeconds what it has computed so far; 0 where the kernel
// does not tell.
func mebibytes(pid int) float64 {
	kib, err := strconv.ParseFloat(strings.TrimSuffix(field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS"), " kB"), 64)
	if err != nil {
		return 0
	}
	return kib / 1024
}

func cpuSeconds(pid int) float64 {
	const ticks = 100 // per second, on every Linux
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is the name in parentheses; user and system time are the 14th and 15th.
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticks
}
