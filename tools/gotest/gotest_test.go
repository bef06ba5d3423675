package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// module writes a Go module of files, each a name and its content.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26\n"
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	passes = "package m\n\nimport \"testing\"\n\nfunc TestQuiet(t *testing.T) { t.Log(\"all is well\") }\n"
	fails  = "package m\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Fatal(\"that is wrong\") }\nfunc TestGood(t *testing.T) { t.Log(\"all is well\") }\n"
	skips  = "package m\n\nimport \"testing\"\n\nfunc TestLater(t *testing.T) { t.Skip(\"not now\") }\n"
	panics = "package m\n\nimport \"testing\"\n\nfunc TestPanic(t *testing.T) { panic(\"out of order\") }\n"
	broken = "package m\n\nfunc f() int { return \"text\" }\n"
)

func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		modules []map[string]string
		flags   []string
		passes  bool
		says    []string
	}{
		"everything passes":        {modules: []map[string]string{{"a/a_test.go": passes}, {"b/b_test.go": passes}}, passes: true, says: []string{"ok  \texample.com/m/a\t", "ok  \texample.com/m/b\t", "\n2 passed, 0 failed, 0 skipped\n"}},
		"a skipped test counts":    {modules: []map[string]string{{"a_test.go": skips}}, passes: true, says: []string{"\n0 passed, 0 failed, 1 skipped\n"}},
		"a failed test speaks":     {modules: []map[string]string{{"a/a_test.go": passes, "b/b_test.go": fails}}, says: []string{"ok  \texample.com/m/a\t", "--- FAIL: TestBad", "that is wrong", "FAIL\texample.com/m/b\t", "\n2 passed, 1 failed, 0 skipped\n"}},
		"one module of two fails":  {modules: []map[string]string{{"a_test.go": fails}, {"b/b_test.go": passes}}, says: []string{"that is wrong", "ok  \texample.com/m/b\t"}},
		"a panic speaks":           {modules: []map[string]string{{"a_test.go": panics}}, says: []string{"panic: out of order", "FAIL\texample.com/m\t"}},
		"what can't be built":      {modules: []map[string]string{{"a.go": broken, "a_test.go": passes}}, says: []string{"cannot use \"text\"", "[build failed]"}},
		"a flag that is none":      {modules: []map[string]string{{"a_test.go": passes}}, flags: []string{"-no-such-flag"}, says: []string{"no-such-flag"}},
		"a flag reaches the tests": {modules: []map[string]string{{"a_test.go": passes}}, flags: []string{"-run=TestLoud"}, passes: true, says: []string{"[no tests to run]"}},
		"no module at all":         {modules: []map[string]string{{"go.mod/x": ""}}, says: []string{"does not contain main module", "[setup failed]"}},
	} {
		t.Run(name, func(t *testing.T) {
			var dirs []string
			for _, files := range test.modules {
				if _, none := files["go.mod/x"]; none {
					dirs = append(dirs, t.TempDir())
					continue
				}
				dirs = append(dirs, module(t, files))
			}
			out := &strings.Builder{}
			if got := run(t.Context(), out, time.Hour, append([]string{"-count=1"}, test.flags...), dirs); got != test.passes {
				t.Errorf("run() = %v, want %v", got, test.passes)
			}
			for _, text := range test.says {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is missing in:\n%s", text, out)
				}
			}
			if strings.Contains(out.String(), "all is well") {
				t.Errorf("a test that passed speaks:\n%s", out)
			}
		})
	}
}

// TestRunIsInterrupted runs a test that ends only when it is told to. What is said every beat tells that it runs.
func TestRunIsInterrupted(t *testing.T) {
	const waits = `package m

import (
	"os"
	"os/signal"
	"testing"
)

func TestWaits(t *testing.T) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt)
	if err := os.WriteFile("listens", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-told
	t.Fatal("was told to end")
}
`
	dir := module(t, map[string]string{"a_test.go": waits})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &watched{seen: func(text string) {
		if _, err := os.Stat(filepath.Join(dir, "listens")); err == nil && strings.HasSuffix(text, "s)\n") {
			interrupt()
		}
	}}
	if run(ctx, out, 50*time.Millisecond, []string{"-count=1"}, []string{dir}) {
		t.Error("a test that was interrupted passes")
	}
	for _, want := range []string{"m: 0 done, running TestWaits", "was told to end"} {
		if !strings.Contains(out.text.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.text.String())
		}
	}
}

// watched is an output that somebody reads while it is written.
type watched struct {
	text strings.Builder
	seen func(text string)
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.text.Write(p)
	w.seen(w.text.String())
	return n, err
}

func TestBeat(t *testing.T) {
	out := &strings.Builder{}
	r := newReport(out)
	at := func(seconds int) time.Time { return r.begin.Add(time.Duration(seconds) * time.Second) }
	r.beat(at(10), 20*time.Second)
	if out.Len() > 0 {
		t.Errorf("it speaks too early: %s", out)
	}
	r.beat(at(18), 20*time.Second)
	for i, action := range []string{"run TestA", "pass TestA", "run TestB", "pause TestB", "run TestC", "run TestD", "run TestE", "run TestF", "cont TestB"} {
		verb, name, _ := strings.Cut(action, " ")
		r.add(event{Time: at(20 + i), Action: verb, Package: "example.com/m", Test: name})
	}
	r.last = r.begin
	r.beat(at(40), 20*time.Second)
	want := []string{
		"... 18s: building tests", "... 40s: m: 1 done, running TestC (16s), TestD (15s), TestE (14s), 2 more", "",
	}
	if got := strings.Split(out.String(), "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSplit(t *testing.T) {
	flags, modules := split([]string{"-count=1", "-run=X", ".", "tools"})
	if !slices.Equal(flags, []string{"-count=1", "-run=X"}) || !slices.Equal(modules, []string{".", "tools"}) {
		t.Errorf("split() = %q, %q", flags, modules)
	}
}
