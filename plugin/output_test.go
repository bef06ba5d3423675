package plugin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

func TestFormats(t *testing.T) {
	table := run(t, twice(), "kubectl-portcullis", "audit").out
	for _, word := range []string{"LEVEL", "PathTwice", "shop.example.com/", "Ingress team/a, Ingress team/b", "undetermined"} {
		if !strings.Contains(table, word) {
			t.Errorf("%q is missing in:\n%s", word, table)
		}
	}
	if strings.Contains(table, "TO DO") || strings.Contains(table, "\x1b") {
		t.Errorf("it says too much:\n%s", table)
	}
	if wide := run(t, twice(), "kubectl-portcullis", "audit", "-o", "wide").out; !strings.Contains(wide, "TO DO") {
		t.Errorf("it does not say what to do:\n%s", wide)
	}
	for format, read := range map[string]func([]byte, any) error{
		"json": json.Unmarshal, "yaml": func(text []byte, to any) error { return yaml.Unmarshal(text, to) },
	} {
		report := Audit{}
		if err := read([]byte(run(t, twice(), "kubectl-portcullis", "audit", "-o", format).out), &report); err != nil {
			t.Fatal(err)
		}
		if report.Kind != "Audit" || len(report.Findings) != 1 || report.Findings[0].Advice == "" || report.Unread == nil {
			t.Errorf("%s: got %+v", format, report)
		}
	}
	if empty := run(t, &fake{}, "kubectl-portcullis", "audit", "-o", "json").out; !strings.Contains(empty, `"findings": []`) {
		t.Errorf("got %s", empty)
	}
}

func TestColors(t *testing.T) {
	got := colored("LEVEL RULE\nerror A\nwarning B\nother C\n")
	want := "\x1b[1mLEVEL RULE\x1b[0m\n\x1b[31merror\x1b[0m A\n\x1b[33mwarning\x1b[0m B\nother C\n"
	if got != want {
		t.Errorf("got %q", got)
	}
	if hasColors(&bytes.Buffer{}) {
		t.Error("a file has colors")
	}
}

// lines is a writer that tells of what is written.
type lines chan string

func (l lines) Write(text []byte) (int, error) {
	l <- string(text)
	return len(text), nil
}

// TestProgress holds that it is told each second what is read, though nothing arrives, and that a terminal has one line of it.
func TestProgress(t *testing.T) {
	to, clock := make(lines, 1), clocktesting.NewFakeClock(time.Unix(0, 0))
	p := newProgress(to, clock)
	p.begin("services")
	for range 100 {
		p.count()
	}
	clock.Step(quiet - 1)
	select {
	case text := <-to:
		t.Errorf("within a second, it says %q", text)
	default:
	}
	clock.Step(1)
	if got := <-to; got != "reading services: 100 so far\n" {
		t.Errorf("got %q", got)
	}
	clock.Step(quiet)
	if got := <-to; got != "reading services: 100 so far\n" {
		t.Errorf("with nothing new, got %q", got)
	}
	p.end()
	p.end()
	clock.Step(quiet)
	select {
	case text := <-to:
		t.Errorf("when all is read, it says %q", text)
	default:
	}
	p.isTerminal = true
	p.begin("nodes")
	clock.Step(quiet)
	if got := <-to; got != "\r\x1b[Kreading nodes: 0 so far" {
		t.Errorf("got %q", got)
	}
	p.end()
	if got := <-to; got != "\r\x1b[K" {
		t.Errorf("at the end, got %q", got)
	}
}
