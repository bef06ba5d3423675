// Command image makes the container image of Portcullis without a container engine: one static program, CA certificates
// and a user that is not root, for each platform. It writes an archive that container engines load, or pushes to a
// registry. It is run in the root of the repository.
//
// What was built goes to standard output, progress to standard error, so that a script can read the pushed reference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	if err := start(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", oneLine(err))
		os.Exit(1)
	}
}

// start makes the image that the arguments ask for. An interrupt ends it.
func start(args []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	err = run(ctx, o, compilePortcullis, out)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// options are what the caller wants.
type options struct {
	// given is the image's name as it was given, and tag what it means.
	given     string
	tag       name.Tag
	platforms []v1.Platform
	version   string
	// archive is the file to write, unless push is set.
	archive string
	// byDigest names the image in the archive by its digest, too.
	byDigest bool
	push     bool
}

// parseOptions reads the arguments. Its errors are about one argument each.
func parseOptions(args []string) (options, error) {
	var o options
	var platforms string
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it in a line
	flags.StringVar(&o.given, "image", "", "name and tag of the image")
	flags.StringVar(&o.version, "version", "unknown", "version of Portcullis")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	flags.StringVar(&o.archive, "archive", filepath.Join("bin", "portcullis-image.tar"), "file to write")
	flags.BoolVar(&o.byDigest, "by-digest", false, "name the image in the file by its digest, too")
	flags.BoolVar(&o.push, "push", false, "push to the registry instead of writing a file")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.given == "" {
		return options{}, errors.New("say which image: make image IMG=registry.example.com/portcullis:v1")
	}
	var err error
	if o.tag, err = name.NewTag(o.given); err != nil {
		return options{}, fmt.Errorf("IMG=%s is no name of an image, like registry.example.com/portcullis:v1: %w", o.given, err)
	}
	o.platforms, err = parsePlatforms(platforms)
	return o, err
}

// parsePlatforms reads a list such as "linux/amd64,linux/arm64".
func parsePlatforms(list string) ([]v1.Platform, error) {
	var platforms []v1.Platform
	for item := range strings.SplitSeq(list, ",") {
		os, arch, _ := strings.Cut(strings.TrimSpace(item), "/")
		p := v1.Platform{OS: os, Architecture: arch}
		switch {
		case os != "linux" || machines[arch] == 0:
			return nil, fmt.Errorf("PLATFORMS=%s: there is no %q, only linux/amd64 and linux/arm64", list, item)
		case slices.ContainsFunc(platforms, p.Equals):
			return nil, fmt.Errorf("PLATFORMS=%s has %s twice", list, p)
		}
		platforms = append(platforms, p)
	}
	return platforms, nil
}

// compiler makes the program for a platform and returns the file.
type compiler func(ctx context.Context, version string, platform v1.Platform) (string, error)

// run makes the image and writes or pushes it; what came of it is written to out.
func run(ctx context.Context, o options, compile compiler, out io.Writer) error {
	if o.push {
		// Asked before, as compiling takes minutes.
		if err := checkPush(ctx, o.tag); err != nil {
			return err
		}
	}
	origin := readOrigin(ctx, ".", o.version)
	binaries := map[string][]byte{}
	for _, p := range o.platforms {
		path, err := compile(ctx, o.version, p)
		if err != nil {
			return err
		}
		if binaries[p.Architecture], err = readStatic(path, p); err != nil {
			return err
		}
	}
	index, err := newIndex(origin, o.platforms, binaries)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if o.push {
		if err := push(ctx, o.tag, index); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s@%s\n", o.given, digest)
		return err
	}
	if err := writeArchive(o.archive, o.tag, o.byDigest, index); err != nil {
		return fmt.Errorf("write %s: %w", o.archive, err)
	}
	_, err = fmt.Fprintf(out, "%s holds %s for %s, %s\n", o.archive, o.given, join(o.platforms), digest)
	return err
}

// join lists platforms for people.
func join(platforms []v1.Platform) string {
	names := make([]string, 0, len(platforms))
	for _, p := range platforms {
		names = append(names, p.String())
	}
	return strings.Join(names, " and ")
}

// oneLine returns what err says without line breaks, which errors of registries may have.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
