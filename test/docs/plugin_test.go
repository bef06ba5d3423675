package docs

import (
	"strings"
	"testing"

	"jeffthecoder.xyz/portcullis/internal/findings"
	"jeffthecoder.xyz/portcullis/plugin"
)

// TestEveryFindingIsDescribed holds that the table has each rule of audit, with its level.
func TestEveryFindingIsDescribed(t *testing.T) {
	described, there := map[string]bool{}, map[string]bool{}
	for _, row := range table(t, section(t, read(t, "docs/plugin.md"), "## What `audit` finds")) {
		described[spans(row[0])[0]+" "+row[1]] = true
	}
	for _, about := range findings.Rules() {
		there[string(about.Rule)+" "+string(about.Level)] = true
	}
	compare(t, "docs/plugin.md, What audit finds,", described, there)
}

// TestEveryCommandOfThePluginIsDescribed holds that the table has each command that the help has examples of.
func TestEveryCommandOfThePluginIsDescribed(t *testing.T) {
	described, there := map[string]bool{}, map[string]bool{}
	for _, row := range table(t, section(t, read(t, "docs/plugin.md"), "## Install")) {
		name, _, _ := strings.Cut(spans(row[0])[0], " ")
		described[name] = true
	}
	for _, line := range plugin.Examples() {
		there[strings.Fields(line)[2]] = true
	}
	compare(t, "docs/plugin.md, Install,", described, there)
}
