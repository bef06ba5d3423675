package plugin

import (
	"encoding/json"

	"jeffthecoder.xyz/portcullis/internal/findings"
)

// The parts of SARIF 2.1.0 that a report needs: https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID          string    `json:"id"`
		Description sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifObject  `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		Line int `json:"startLine"`
	}
	sarifObject struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// sarif is a report in SARIF. The locations of results are objects of the cluster, as there are no files.
func sarif(report *Audit, version string) ([]byte, error) {
	run := sarifRun{Results: []sarifResult{}}
	var rules []sarifRule
	for _, about := range findings.Rules() {
		rules = append(rules, sarifRule{string(about.Rule), sarifText{about.Text}})
	}
	for i := range report.Findings {
		f := &report.Findings[i]
		result := sarifResult{Rule: string(f.Rule), Level: string(f.Level), Message: sarifText{plain(inWords(f))}, Locations: []sarifLocation{}}
		for _, o := range f.Objects {
			result.Locations = append(result.Locations, sarifLocation{Logical: []sarifObject{{o.String(), "resource"}}})
		}
		run.Results = append(run.Results, result)
	}
	return run.text(rules, report.Unread, version)
}

// text is a log of one run, by these rules, with what could not be read.
func (run sarifRun) text(rules []sarifRule, unread []Unread, version string) ([]byte, error) {
	if rules == nil {
		rules = []sarifRule{}
	}
	run.Tool = sarifTool{sarifDriver{Name: "kubectl-portcullis", Version: version, Rules: rules}}
	looked := sarifInvocation{Successful: true}
	for _, u := range unread {
		looked.Notifications = append(looked.Notifications, sarifNotification{"warning", sarifText{plain(clean(u.String()))}})
	}
	run.Invocations = []sarifInvocation{looked}
	text, err := json.MarshalIndent(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	}, "", "  ")
	return append(text, '\n'), err
}
