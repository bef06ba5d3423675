package plugin

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/internal/findings"
)

// Lint is what lint says with -o json and -o yaml.
type Lint struct {
	metav1.TypeMeta `json:",inline"`
	Findings        []LintFinding `json:"findings"`
	// Objects is how many manifests were judged: those of kinds that decisions depend on.
	Objects int `json:"objects"`
	// Unread is what could not be read of the cluster: there may be more findings.
	Unread []Unread `json:"unread"`
}

// LintFinding is what applying a manifest says.
type LintFinding struct {
	// Level is error if the object is refused for it, and note if applying warns of it.
	Level findings.Level `json:"level"`
	// Rule is the reason that the API server gives, such as FieldValueDuplicate.
	Rule   string `json:"rule"`
	Object string `json:"object"`
	// File is where the object is: a path, - for standard input, or the directory of a kustomization, which has no lines.
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`
}

// DeepCopyObject copies the report, and not what is in it: nobody changes that.
func (l *Lint) DeepCopyObject() runtime.Object {
	c := *l
	return &c
}

// where is the file and the line of a finding.
func (f *LintFinding) where() string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// inWords is what is found, with the field that it is found in.
func (f *LintFinding) inWords() string {
	if f.Field == "" {
		return f.Text
	}
	return f.Field + ": " + f.Text
}

// lintJUnit is a report as JUnit has it: a case for each finding, which has failed unless it is a note.
func lintJUnit(report *Lint) ([]byte, error) {
	suite := junitSuite{Name: "kubectl portcullis lint"}
	for i := range report.Findings {
		f := &report.Findings[i]
		c := junitCase{Class: f.Rule, Name: clean(f.Object + ", " + f.where()), File: f.File, Line: f.Line}
		if f.Level == findings.Note {
			c.Output = clean(f.inWords())
		} else {
			suite.Failures++
			c.Failure = &junitMessage{Message: clean(f.inWords()), Text: clean(f.where() + ": " + f.inWords())}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if len(report.Findings) == 0 {
		suite.Cases = append(suite.Cases, junitCase{Class: "lint", Name: plural(report.Objects, "object")})
	}
	return suite.text()
}

// lintSARIF is a report in SARIF. The locations of results are lines of files, and objects.
func lintSARIF(report *Lint, version string) ([]byte, error) {
	run := sarifRun{Results: []sarifResult{}}
	var rules []sarifRule
	for i := range report.Findings {
		f := &report.Findings[i]
		if !slices.ContainsFunc(rules, func(r sarifRule) bool { return r.ID == f.Rule }) {
			rules = append(rules, sarifRule{f.Rule, sarifText{"Applying the manifest says " + f.Rule + "."}})
		}
		at := sarifLocation{Logical: []sarifObject{{f.Object, "resource"}}}
		if f.File != standardInput {
			at.Physical = &sarifPhysical{Artifact: sarifArtifact{uriOf(f.File)}}
			if f.Line > 0 {
				at.Physical.Region = &sarifRegion{f.Line}
			}
		}
		run.Results = append(run.Results, sarifResult{
			Rule: f.Rule, Level: string(f.Level), Message: sarifText{plain(clean(f.inWords()))}, Locations: []sarifLocation{at},
		})
	}
	return run.text(rules, report.Unread, version)
}

// uriOf is the URI of a file, or of a URL that is one. It is relative if the path is.
func uriOf(file string) string {
	if u, err := url.Parse(file); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return file
	}
	u := url.URL{Path: filepath.ToSlash(file)}
	if filepath.IsAbs(file) {
		u.Scheme = "file"
	}
	return u.String()
}
