package plugin

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jeffthecoder.xyz/portcullis/internal/findings"
)

func TestJUnit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.xml")
	c := twice()
	c.refuses = func(plural, _ string) error {
		if plural == "services" {
			return forbid(plural)
		}
		return nil
	}
	run(t, c, "kubectl-portcullis", "audit", "--junit", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	report := junitSuites{}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	suite := report.Suites[0]
	if suite.Tests != len(findings.Rules()) || suite.Failures != 1 || len(suite.Cases) != suite.Tests {
		t.Errorf("got %d tests, %d failures", suite.Tests, suite.Failures)
	}
	skipped := 0
	for _, c := range suite.Cases {
		if (c.Failure != nil) != (c.Class == string(findings.PathTwice)) {
			t.Errorf("got %+v", c)
		}
		if c.Skipped != nil {
			skipped++
		}
	}
	if skipped == 0 || skipped != suite.Skipped {
		t.Errorf("%d were skipped, and %d are said to be", skipped, suite.Skipped)
	}
}

// TestJUnitOfANamespace holds that only what needs other namespaces is skipped.
func TestJUnitOfANamespace(t *testing.T) {
	for args, want := range map[string]int{"-n team": 1, "-A": 0, "-n team -A": 0} {
		file := filepath.Join(t.TempDir(), "audit.xml")
		run(t, twice(), append([]string{"kubectl-portcullis", "audit", "--junit", file}, strings.Fields(args)...)...)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		report := junitSuites{}
		if err := xml.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		if got := report.Suites[0].Skipped; got != want {
			t.Errorf("%s: %d are skipped: %s", args, got, text)
		}
	}
}

func TestSARIF(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.sarif")
	run(t, twice(), "kubectl-portcullis", "audit", "--sarif", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	log := sarifLog{}
	if err := json.Unmarshal(text, &log); err != nil {
		t.Fatal(err)
	}
	result := log.Runs[0].Results[0]
	if log.Version != "2.1.0" || result.Rule != "PathTwice" || result.Level != "error" || len(result.Locations) != 2 ||
		result.Locations[0].Logical[0].Name != "Ingress team/a" || len(log.Runs[0].Tool.Driver.Rules) != len(findings.Rules()) {
		t.Errorf("got %s", text)
	}
}

func TestPortRange(t *testing.T) {
	r := portRange{}
	if err := r.Set("1-2"); err != nil || r.String() != "1-2" {
		t.Errorf("got %s, %v", r.String(), err)
	}
	for _, text := range []string{"", "1", "0-1", "2-1", "1-65536", "a-b"} {
		if r.Set(text) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
