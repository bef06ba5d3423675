// Package docs holds the documentation to what it is about: every reason, refusal, flag, permission and alert is in its
// table, and every row of a table is about something that exists.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// pages are the texts that people write.
var pages = []string{
	"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/addresses.md", "docs/glossary.md", "docs/guard.md", "docs/hosts.md", "docs/ingress-http.md", "docs/ingress-nginx.md",
	"docs/ledger.md", "docs/limits.md", "docs/metrics.md", "docs/operations.md", "docs/plugin.md", "docs/pods.md", "docs/recipes.md",
	"docs/security.md", "docs/streams.md", "docs/troubleshooting.md",
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// read reads a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// source is the product's code in one text, with the parts of split strings put together.
func source(t *testing.T, dirs ...string) string {
	t.Helper()
	return splitString.ReplaceAllString(code(t, false, dirs...), "")
}

// code is the text of all files of tests, or of all others.
func code(t *testing.T, ofTests bool, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root(t), dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") != ofTests {
				return err
			}
			content, err := os.ReadFile(path)
			all.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

var (
	splitString = regexp.MustCompile(`" \+\n\t*"`)
	codeSpan    = regexp.MustCompile("`([^`]+)`")
)

// section is the text from a line up to the next one that begins the same way as that one: with as many #, or with <!--.
func section(t *testing.T, text, begin string) string {
	t.Helper()
	_, rest, found := strings.Cut("\n"+text, "\n"+begin+"\n")
	if !found {
		t.Fatalf("there is no %q", begin)
	}
	mark, _, _ := strings.Cut(begin, " ")
	if before, _, more := strings.Cut(rest, "\n"+mark+" "); more {
		return before
	}
	return rest
}

// table is the rows of the first table in a text, without its head.
func table(t *testing.T, text string) (rows [][]string) {
	t.Helper()
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "|"):
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			rows = append(rows, cells)
		case len(rows) > 0:
			return rows[2:]
		}
	}
	if len(rows) < 3 {
		t.Fatal("there is no table")
	}
	return rows[2:]
}

// tables is the rows of all tables in a text.
func tables(t *testing.T, text string) (rows [][]string) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(strings.TrimSpace(part), "|") {
			rows = append(rows, table(t, part)...)
		}
	}
	return rows
}

// spans are the code spans of a cell.
func spans(cell string) (texts []string) {
	for _, found := range codeSpan.FindAllStringSubmatch(cell, -1) {
		texts = append(texts, found[1])
	}
	return texts
}

// compare tells what is in one set and not in the other.
func compare(t *testing.T, what string, documented, there map[string]bool) {
	t.Helper()
	for name := range there {
		if !documented[name] {
			t.Errorf("%s has no row for %s", what, name)
		}
	}
	for name := range documented {
		if !there[name] {
			t.Errorf("%s has a row for %s, which does not exist", what, name)
		}
	}
}
