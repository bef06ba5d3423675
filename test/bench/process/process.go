// Package process tells what a process uses, and on which machine, from what the kernel shows in /proc. Where it shows
// nothing, figures are 0 and facts "unknown".
package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Memory is the memory that a process keeps resident, and Peak the most that it ever did, in MiB.
func Memory(pid int) float64 { return status(pid, "VmRSS") }

// Peak is the most memory that a process ever kept resident, in MiB.
func Peak(pid int) float64 { return status(pid, "VmHWM") }

func status(pid int, name string) float64 {
	return kibibytes(fmt.Sprintf("/proc/%d/status", pid), name) / 1024
}

// CPUSeconds is what the threads that a process has have computed so far. The sum over all that it ever had is shown in
// hundredths of a second only, and a Go program that is at rest needs little more in a while; its threads don't end.
// (https://docs.kernel.org/scheduler/sched-stats.html)
func CPUSeconds(pid int) float64 {
	var sum time.Duration
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/schedstat", pid))
	for _, thread := range threads {
		content, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended meanwhile
		}
		nanoseconds, _, _ := strings.Cut(string(content), " ")
		computed, _ := strconv.ParseInt(nanoseconds, 10, 64)
		sum += time.Duration(computed)
	}
	return sum.Seconds()
}

// Spent is what this process and the programs that it has started and seen end have computed, in seconds.
func Spent() float64 {
	sum := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if syscall.Getrusage(who, &usage) == nil {
			sum += time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
		}
	}
	return sum
}

// Children are the processes that a process has started, by the name of their program.
func Children(parent int) map[string]int {
	children := map[string]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "4711 (name) state parent ..."
		id, rest, _ := strings.Cut(string(content), " (")
		name, rest, _ := strings.Cut(rest, ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			children[name], _ = strconv.Atoi(id)
		}
	}
	return children
}

// CPUModel is the name of the processor.
func CPUModel() string { return field("/proc/cpuinfo", "model name") }

// TotalMemory is the memory of the machine.
func TotalMemory() string {
	kib := kibibytes("/proc/meminfo", "MemTotal")
	if kib == 0 {
		return unknown
	}
	return fmt.Sprintf("%.0f GiB", kib/(1<<20))
}

// Load is the load average of the last minute.
func Load() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return unknown
	}
	load, _, _ := strings.Cut(string(content), " ")
	return load
}

const unknown = "unknown"

func kibibytes(file, name string) float64 {
	kib, err := strconv.ParseFloat(strings.TrimSuffix(field(file, name), " kB"), 64)
	if err != nil {
		return 0
	}
	return kib
}

// field is the value of the first line "name: value" in a file.
func field(path, name string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(content)) {
		key, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}
