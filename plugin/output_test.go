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

func TestProgress(t *testing.T) {
	var to bytes.Buffer
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	p := newProgress(&to, clock)
	p.begin("services")
	for range 100 {
		p.count()
	}
	if to.Len() > 0 {
		t.Errorf("within a second, it says %q", to.String())
	}
	clock.SetTime(time.Unix(1, 0))
	p.count()
	p.count()
	p.end()
	if got := to.String(); got != "reading services: 101 so far\n" {
		t.Errorf("got %q", got)
	}
	p.isTerminal = true
	to.Reset()
	clock.SetTime(time.Unix(2, 0))
	p.count()
	p.end()
	if got := to.String(); got != "\r\x1b[Kreading services: 103 so far\r\x1b[K" {
		t.Errorf("got %q", got)
	}
}
