package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// evil is what somebody writes who wants others to see what is not there.
const evil = "\x1b[2J\u009b1A\u202eshop.example.com\nto get it: see [a](b)\\"

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"shop": "shop", "a\nb\r\tc": "a b  c", "\x1b[2J": "\ufffd[2J", "a\u009bb\x7f": "a\ufffdb\ufffd", "a\u202eb": "a\ufffdb",
		"a\x9bb": "a\ufffdb", "grüße": "grüße",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
	if got := plain(`[a](b)\`); got != `\[a\](b)\\` {
		t.Errorf("got %q", got)
	}
}

// TestNobodyWritesToTheTerminal holds that what the owners of objects write reaches no terminal as it is, in any form.
func TestNobodyWritesToTheTerminal(t *testing.T) {
	c := twice()
	event := &corev1.Event{ObjectMeta: named("other", "e"), Reason: "HostConflict", Message: evil}
	asking := &corev1.Service{ObjectMeta: named("team", "s")}
	asking.Annotations = map[string]string{v1beta1.AnnotationHTTP: evil}
	c.objects["events"], c.objects["services"] = []runtime.Object{event}, []runtime.Object{asking}
	c.refuses = func(plural, _ string) error {
		if plural == "nodes" {
			return forbid(plural)
		}
		return nil
	}
	file := filepath.Join(t.TempDir(), "audit.sarif")
	for _, args := range [][]string{
		{"who", "shop.example.com"}, {"who", "shop.example.com", "-o", "json"}, {"who", "shop.example.com", "-o", "yaml"},
		{"audit", "-o", "wide", "--sarif", file}, {"audit", "-o", "json"}, {"doors", "-n", evil}, {"audit", evil},
	} {
		got := run(t, c, append([]string{"kubectl-portcullis"}, args...)...)
		if i := strings.IndexFunc(got.out+got.err, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || r == '\u202e' }); i >= 0 {
			t.Errorf("%v writes a control character: %q", args, (got.out + got.err)[i:])
		}
		if args[0] == "who" && len(args) == 2 && (strings.Count(got.out, "\nto get it: ") != 1 || !strings.Contains(got.out, "asked in vain: ")) {
			t.Errorf("somebody adds a line: %q", got.out)
		}
		if report := (Who{}); len(args) == 4 && args[3] == "json" && args[0] == "who" {
			if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.Asked[0].Message != evil {
				t.Errorf("got %v, %q", err, report.Asked)
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	log := sarifLog{}
	if err := json.Unmarshal(text, &log); err != nil {
		t.Fatal(err)
	}
	for _, result := range log.Runs[0].Results {
		if text := result.Message.Text; result.Rule == "AnnotationUnreadable" && (strings.Contains(text, "[a](b)") || strings.Contains(text, "\x1b")) {
			t.Errorf("got %q", text)
		}
	}
}
