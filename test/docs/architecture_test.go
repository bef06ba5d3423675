package docs

import (
	"path"
	"regexp"
	"testing"
)

// TestTheWalkLeadsSomewhere holds that each answer in the walk through the code is a file that has the function, and that there are
// tests of the names that it gives.
func TestTheWalkLeadsSomewhere(t *testing.T) {
	const document = "docs/architecture.md"
	tests := set(testName.FindAllStringSubmatch(code(t, true, "cmd", "internal", "plugin", "reconcilers", "test", "webhooks"), -1))
	rows := tables(t, read(t, document))
	if len(rows) == 0 {
		t.Errorf("%s has no walk", document)
	}
	for _, row := range rows {
		where, by, tested := link.FindStringSubmatch(row[1]), spans(row[2]), spans(row[3])
		if where == nil || len(by) == 0 || len(tested) == 0 {
			t.Errorf("%q has no answer", row[0])
			continue
		}
		file := read(t, path.Join(path.Dir(document), where[1]))
		for _, name := range by {
			if !regexp.MustCompile(`(?m)^func (\([^)]+\) )?` + regexp.QuoteMeta(name) + `\(`).MatchString(file) {
				t.Errorf("%s has no %s", where[1], name)
			}
		}
		for _, name := range tested {
			if !tests[name] {
				t.Errorf("there is no %s", name)
			}
		}
	}
}
