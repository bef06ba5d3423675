// Command dist makes what a release consists of, in one directory: manifests and a Helm chart that name the image by its digest, the image
// as an OCI archive, the plugin for each platform with its manifest for krew, what all of it is made of, and checksums. The same commit and
// version make the same bytes. It is run in the root of the repository, by `make dist`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

func main() {
	r := release{}
	var images, plugins string
	flag.StringVar(&r.dir, "dir", "dist", "directory to write to; what is there goes")
	flag.StringVar(&r.version, "version", "", "version, like v1.2.3")
	flag.StringVar(&r.image, "image", "", "name of the image, without a tag")
	flag.StringVar(&r.url, "url", "", "where the files of the release will be, for krew")
	flag.StringVar(&images, "image-platforms", "linux/amd64,linux/arm64", "platforms of the image, separated by commas")
	flag.StringVar(&plugins, "plugin-platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64",
		"platforms of the plugin, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := start(ctx, r, images, plugins)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// release is one to be made.
type release struct {
	dir, version, image, url string
	// images are the platforms of the image, and plugins those of the plugin.
	images, plugins []platform
	// created is the time of the commit, and of every file in an archive.
	created time.Time
}

// platform is one that Go compiles for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// environment has Go look at, and compile for, the platform: its oldest processors, whatever the caller's own programs are compiled for.
func (p platform) environment() []string {
	return []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0"}
}

// aVersion is a semantic version, as Helm and krew want it, with a v before it.
var aVersion = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func start(ctx context.Context, r release, images, plugins string) (err error) {
	if !aVersion.MatchString(r.version) {
		return fmt.Errorf("VERSION=%s is no version like v1.2.3", r.version)
	}
	if _, err := name.NewRepository(r.image); err != nil {
		return fmt.Errorf("IMG=%s is no name of an image without a tag, like registry.example.com/portcullis: %w", r.image, err)
	}
	if u, err := url.Parse(r.url); err != nil || u.Host == "" {
		return fmt.Errorf("URL=%s is no place where files can be, like https://example.com/portcullis/v1.2.3", r.url)
	}
	if r.images, err = platforms(images); err != nil {
		return err
	}
	if r.plugins, err = platforms(plugins); err != nil {
		return err
	}
	seconds, err := output(ctx, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.created = time.Unix(n, 0).UTC()
	return r.make(ctx)
}

// platforms reads a list such as "linux/amd64,darwin/arm64".
func platforms(list string) (all []platform, err error) {
	for item := range strings.SplitSeq(list, ",") {
		system, arch, found := strings.Cut(item, "/")
		if !found {
			return nil, fmt.Errorf("%q is no platform like linux/amd64", item)
		}
		all = append(all, platform{system, arch})
	}
	return all, nil
}

// make makes all of it.
func (r *release) make(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(r.dir), os.MkdirAll(r.dir, 0o755)); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	var digest string
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"the image", func() (err error) { digest, err = r.makeImage(ctx); return err }},
		{"the manifests", func() error { return r.makeManifests(ctx, digest) }},
		{"the chart", func() error { return r.makeChart(ctx, digest) }},
		{"the plugin", func() error { return r.makePlugin(ctx) }},
		{"the bills of materials", func() error { return r.makeBills(ctx) }},
		{"the licenses", func() error { return r.makeLicenses(ctx) }},
		{"the release notes", func() error { return r.makeNotes(ctx) }},
		{"the checksums", r.makeChecksums},
	} {
		fmt.Fprintln(os.Stderr, "Making", step.what, "...")
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// file is the path of a file of the release.
func (r *release) file(name string) string { return filepath.Join(r.dir, name) }

// write writes a file of the release.
func (r *release) write(name, text string) error {
	return os.WriteFile(r.file(name), []byte(text), 0o644) //nolint:gosec // for everybody to read
}

// settings are those of every build, as in the Makefile, so that nothing of the caller's gets into a release.
var settings = []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off", "GOOS=", "GOARCH="}

// output runs a program, with more in its environment, and returns what it says without the line break at its end.
func output(ctx context.Context, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = slices.Concat(os.Environ(), settings, env)
	var said, told strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &told
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, told.String())
	}
	return strings.TrimSuffix(said.String(), "\n"), nil
}

// tool runs a tool that one of the modules in tools pins.
func tool(ctx context.Context, env []string, module string, args ...string) (string, error) {
	return output(ctx, env, "go", append([]string{"tool", "-modfile=" + filepath.Join("tools", module, "go.mod")}, args...)...)
}

// compiled compiles a program that tools/release pins, for this machine. What is run with the environment of another platform has to be: go
// tool would compile it for that one.
func compiled(ctx context.Context, dir, pkg string) (program string, err error) {
	program = filepath.Join(dir, "tool.exe") // only Windows cares about the name
	_, err = output(ctx, nil, "go", "build", "-modfile="+filepath.Join("tools", "release", "go.mod"), "-o", program, pkg)
	return program, err
}
