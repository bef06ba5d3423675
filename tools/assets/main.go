// Command assets prints a directory that holds etcd, kube-apiserver, kubectl and kube-controller-manager.
//
// It takes the first of these that there is: the directory that KUBEBUILDER_ASSETS names, the cache of an earlier run,
// the archive that setup-envtest downloads, and at last the sources that ../kubernetes/go.mod pins. setup-envtest has no
// kube-controller-manager, so that neither the archive nor a directory of its making has it: this one is compiled then.
//
// With -kubernetes=v1.35 they are of that minor version, which a module in a directory of ../kubernetes pins. When
// KUBEBUILDER_ASSETS has another minor version then, it ends with an error: neither of two wishes is passed over silently.
//
// Progress goes to standard error, so that a script can read the directory from standard output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

func main() {
	asked := flag.String("kubernetes", "", "minor version of Kubernetes, v1.35 for example (default what ../kubernetes/go.mod pins)")
	flag.Parse()
	if err := run(os.Stdout, *asked); err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
}

// run writes the directory of the asked minor version to out. An interrupt ends it.
func run(out io.Writer, asked string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := find(ctx, asked)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, dir)
	return err
}

// controllerManager is the one program that setup-envtest's archive does not have.
const controllerManager = "kube-controller-manager"

// archived are the programs that setup-envtest's archive has.
func archived() []string {
	return []string{"etcd", "kube-apiserver", "kubectl"}
}

// programs are the file names that the directory must have.
func programs() []string {
	return append(archived(), controllerManager)
}

// find returns the directory with the programs of the asked minor version, of the default for ""; it fetches or compiles
// them when this is the first run.
func find(ctx context.Context, asked string) (string, error) {
	given := os.Getenv("KUBEBUILDER_ASSETS")
	if given != "" && asked == "" && len(lacking(given, programs())) == 0 {
		return filepath.Abs(given)
	}
	pins, err := choosePins(ctx, asked)
	if err != nil {
		return "", err
	}
	cache, err := cacheDir(pins)
	if err != nil {
		return "", err
	}
	if given != "" {
		missing := lacking(given, archived())
		if len(missing) == 0 {
			return useGiven(ctx, given, asked, cache, pins)
		}
		say("KUBEBUILDER_ASSETS=%s has no %v: it is passed over", given, missing)
	}
	return cache, fill(ctx, cache, pins, programs())
}

// useGiven returns the given directory, or one like it that has the controller manager as well. When a minor version was
// asked for, it must be the one that is given.
func useGiven(ctx context.Context, given, asked, cache string, pins pins) (string, error) {
	if asked != "" {
		if err := checkVersion(ctx, given, pins); err != nil {
			return "", err
		}
	}
	if len(lacking(given, programs())) == 0 {
		return filepath.Abs(given)
	}
	return complete(ctx, given, cache, pins)
}

// fill puts those of the wanted programs into dir that it lacks. It holds dir's lock, so that two runs at once do the
// work once.
func fill(ctx context.Context, dir string, pins pins, wanted []string) error {
	if len(lacking(dir, wanted)) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Join(dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	missing := lacking(dir, wanted)
	if len(missing) == 0 {
		return nil
	}
	if err := removeLeftovers(dir); err != nil {
		return err
	}
	if !slices.Equal(missing, []string{controllerManager}) {
		err := download(ctx, dir, pins)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			say("no prebuilt etcd and kube-apiserver to download (%v), so they are compiled from source", err)
		}
	}
	return compile(ctx, dir, pins, lacking(dir, wanted))
}

// lacking returns those of the wanted programs that dir does not have.
func lacking(dir string, wanted []string) []string {
	var missing []string
	for _, name := range wanted {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// cacheDir returns where the programs of these versions are kept for all clones of the repository of one user.
func cacheDir(pins pins) (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the cache, set HOME or XDG_CACHE_HOME: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	version := fmt.Sprintf("kubernetes-%s-etcd-%s-%s-%s", pins.kubernetes, pins.etcd, runtime.GOOS, runtime.GOARCH)
	return filepath.Abs(filepath.Join(base, "portcullis", version))
}

// removeLeftovers clears what an interrupted run left in dir. The caller holds the lock.
func removeLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != tmpExt {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// tmpExt marks files that are not finished; a rename finishes them.
const tmpExt = ".tmp"

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
