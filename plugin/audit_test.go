package plugin

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
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
