package plugin

import (
	"encoding/xml"

	"jeffthecoder.xyz/portcullis/internal/findings"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// The elements of JUnit's reports, as far as all readers know them.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Line    int           `xml:"line,attr,omitempty"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// junit is a report as JUnit has it: a case for each finding, which has failed unless it is a note, and one for each rule that has found
// nothing. It is skipped where the rule could not look everywhere: in the namespace that was asked about, or in all if that is empty.
func junit(report *Audit, s *snapshot.Snapshot, namespace string) ([]byte, error) {
	suite := junitSuite{Name: "kubectl portcullis audit"}
	has := map[findings.Rule]bool{}
	for i := range report.Findings {
		f := &report.Findings[i]
		has[f.Rule] = true
		c := junitCase{Class: string(f.Rule), Name: clean(where(f))}
		if f.Level == findings.Note {
			c.Output = inWords(f)
		} else {
			suite.Failures++
			c.Failure = &junitMessage{Message: clean(f.Text), Text: inWords(f)}
		}
		suite.Cases = append(suite.Cases, c)
	}
	for _, about := range findings.Rules() {
		if has[about.Rule] {
			continue
		}
		c := junitCase{Class: string(about.Rule), Name: about.Text}
		if kind := about.Misses(s, namespace); kind != "" {
			c.Skipped = &junitMessage{Message: "could not read every " + kind}
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, c)
	}
	return suite.text()
}

// text is a report with this suite alone.
func (s junitSuite) text() ([]byte, error) {
	s.Tests = len(s.Cases)
	text, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{s}}, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}

// where is the point of a finding, and its scope.
func where(f *findings.Finding) string {
	if f.Scope == "" {
		return f.Point
	}
	return f.Point + ", " + f.Scope
}

// inWords is a finding with all that is known of it.
func inWords(f *findings.Finding) string {
	text := clean(where(f)+": "+f.Text) + "\n"
	if f.Wins != "" {
		text += clean("who wins today: "+f.Wins) + "\n"
	}
	return text + clean("what to do: "+f.Advice)
}
