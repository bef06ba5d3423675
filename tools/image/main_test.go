package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var both = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"--image=registry.example.com/team/portcullis:v1", "--version=v1.2.3", "--push=1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := canonical(o.tag); got != "registry.example.com/team/portcullis:v1" || !o.push || o.version != "v1.2.3" {
		t.Errorf("got %s and %+v", got, o)
	}
	if got := join(o.platforms); got != "linux/amd64 and linux/arm64" {
		t.Errorf("by default the image is for %s", got)
	}
	if o, err = parseOptions([]string{"--image=localhost:5000/portcullis", "--platforms=linux/arm64"}); err != nil {
		t.Fatal(err)
	}
	if got := canonical(o.tag) + " " + join(o.platforms); got != "localhost:5000/portcullis:latest linux/arm64" || o.push {
		t.Errorf("got %s and %+v", got, o)
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	const good = "--image=registry.example.com/portcullis:v1"
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"no image":           {[]string{"--image="}, "say which image: make image IMG="},
		"a space":            {[]string{"--image=port cullis:v1"}, "IMG=port cullis:v1 is no name of an image"},
		"upper case":         {[]string{"--image=example.com/Portcullis:v1"}, "is no name of an image"},
		"a digest":           {[]string{"--image=a.example/b@sha256:" + strings.Repeat("0", 64)}, "is no name of an image"},
		"another platform":   {[]string{good, "--platforms=linux/amd64,linux/mips"}, `there is no "linux/mips"`},
		"another system":     {[]string{good, "--platforms=windows/amd64"}, `there is no "windows/amd64"`},
		"no platform":        {[]string{good, "--platforms="}, `there is no ""`},
		"a platform twice":   {[]string{good, "--platforms=linux/arm64,linux/arm64"}, "has linux/arm64 twice"},
		"neither yes nor no": {[]string{good, "--push=perhaps"}, `invalid boolean value "perhaps"`},
		"a second name":      {[]string{good, "portcullis:v2"}, `unexpected argument "portcullis:v2"`},
	} {
		err := start(c.args, &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v, want %q in one line", what, err, c.want)
		}
	}
}

func TestRunEndsWhereNothingWasCompiled(t *testing.T) {
	t.Chdir(t.TempDir())
	fails := func(context.Context, string, v1.Platform) (string, error) { return "", errors.New("no compiler") }
	var out strings.Builder
	err := run(t.Context(), asked(t, "example.com/portcullis:v1"), fails, &out)
	if err == nil || err.Error() != "no compiler" || out.Len() > 0 {
		t.Errorf("run() = %v, and says %q", err, out.String())
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine(fmt.Errorf("push: %w", errors.New("denied:\n  <html>"))); got != "push: denied: <html>" {
		t.Errorf("got %q", got)
	}
}
