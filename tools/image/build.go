package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// machines are the architectures that there are images for, with what their programs' headers say.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// compilePortcullis compiles Portcullis in the root of its repository.
func compilePortcullis(ctx context.Context, version string, platform v1.Platform) (string, error) {
	path := filepath.Join("bin", platform.OS+"-"+platform.Architecture, "portcullis")
	what := fmt.Sprintf("building portcullis %s for %s", version, platform)
	return path, during(what, " (a few minutes the first time)", func() error {
		return compile(ctx, "./cmd/portcullis", version, platform, path)
	})
}

// compile compiles the Go package pkg to path, for any platform on any platform. The same sources and the same Go give the
// same bytes.
func compile(ctx context.Context, pkg, version string, platform v1.Platform, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+version, "-o", path, pkg)
	// The oldest processors, whatever the caller's own programs are compiled for.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0",
		"GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s for %s: %w", pkg, platform, err)
	}
	return nil
}

// readStatic reads the program at path. It is an error if that does not run on the platform with nothing beside it.
func readStatic(path string, platform v1.Platform) ([]byte, error) {
	program, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s is no program for Linux: %w", path, err)
	}
	defer program.Close()
	if program.Machine != machines[platform.Architecture] {
		return nil, fmt.Errorf("%s is a program for %s, not for %s", path, program.Machine, platform)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			return nil, fmt.Errorf("%s needs libraries, and the image has none: it is linked dynamically", path)
		}
	}
	return os.ReadFile(path)
}

// origin says what an image was made from.
type origin struct {
	version string
	// revision is the commit, with "-dirty" behind it where files were changed since. It is empty outside a clone.
	revision string
	// created is the time of the commit, so that the same commit gives the same image whenever it is built.
	created time.Time
}

// readOrigin asks git about the repository in dir. SOURCE_DATE_EPOCH, where it is set, is the time.
func readOrigin(ctx context.Context, dir, version string) origin {
	o := origin{version: version, created: time.Unix(0, 0).UTC()}
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	revision, err := git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
	if err != nil {
		say("git knows no commit here: the image will not name its revision")
	}
	o.revision = revision
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" && revision != "" {
		seconds, _ = git("log", "-1", "--format=%ct")
	}
	if parsed, err := time.ParseDuration(seconds + "s"); err == nil {
		o.created = o.created.Add(parsed)
	}
	return o
}
