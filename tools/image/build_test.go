package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// standIn compiles a program that takes Portcullis' place. The tests share the directory that it compiles to, so that it
// is linked once for each platform.
var standIn compiler

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "stand-ins-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	standIn = compileTo(dir)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// compileTo returns a compiler of the stand-in that writes to dir.
func compileTo(dir string) compiler {
	return func(ctx context.Context, version string, p v1.Platform) (string, error) {
		path := filepath.Join(dir, p.Architecture)
		return path, compile(ctx, "./testdata/standin", version, p, path)
	}
}

func TestCompileMakesStaticPrograms(t *testing.T) {
	for _, p := range both {
		path, err := standIn(t.Context(), "v1.2.3", p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readStatic(path, p); err != nil {
			t.Error(err)
		}
		if p.OS != runtime.GOOS || p.Architecture != runtime.GOARCH {
			continue
		}
		if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "standin v1.2.3\n" {
			t.Errorf("the program says %q, %v", out, err)
		}
	}
}

func TestCompileFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := compile(t.Context(), "./testdata/there-is-none", "v1", both[0], path); err == nil {
		t.Error("compile() of nothing made something")
	}
}

// program returns the headers of a program for amd64 with one segment.
func program(t *testing.T, segment elf.ProgType) []byte {
	t.Helper()
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	copy(header.Ident[:], elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}))
	var out bytes.Buffer
	for _, part := range []any{header, elf.Prog64{Type: uint32(segment)}} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestReadStatic(t *testing.T) {
	for what, c := range map[string]struct {
		content  []byte
		platform v1.Platform
		want     string
	}{
		"static":               {program(t, elf.PT_LOAD), both[0], ""},
		"for another machine":  {program(t, elf.PT_LOAD), both[1], "is a program for EM_X86_64, not for linux/arm64"},
		"with an interpreter":  {program(t, elf.PT_INTERP), both[0], "it is linked dynamically"},
		"with libraries":       {program(t, elf.PT_DYNAMIC), both[0], "it is linked dynamically"},
		"for another system":   {[]byte("MZ, a program for Windows"), both[0], "is no program for Linux"},
		"empty, as disks fill": {nil, both[0], "is no program for Linux"},
	} {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, c.content, 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := readStatic(path, c.platform)
		switch {
		case c.want == "" && (err != nil || !bytes.Equal(content, c.content)):
			t.Errorf("%s: %v", what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v, want %q", what, err, c.want)
		}
	}
}

// clone makes a repository with a commit of 2026-11-22 and returns the git in it.
func clone(t *testing.T) (dir string, git func(args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	git = func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-22T12:00:00+02:00", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("committed"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "file")
	git("commit", "-qm", "First")
	git("tag", "v1.0.0")
	return dir, git
}

func TestReadOrigin(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir, git := clone(t)
	want := origin{version: "v1.0.0", revision: git("rev-parse", "HEAD"), created: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	if got := readOrigin(t.Context(), dir, "v1.0.0"); got != want {
		t.Errorf("of a commit: %+v, want %+v", got, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	want.revision += "-dirty"
	if got := readOrigin(t.Context(), dir, "v1.0.0"); got != want {
		t.Errorf("of changed files: %+v, want %+v", got, want)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	want.created = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)
	if got := readOrigin(t.Context(), dir, "v1.0.0"); got != want {
		t.Errorf("with a given time: %+v, want %+v", got, want)
	}
}

func TestReadOriginOutsideAClone(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir := t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
	want := origin{version: "v1", created: time.Unix(0, 0).UTC()}
	if got := readOrigin(t.Context(), dir, "v1"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
