package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSite builds the site of the docs as they are: it has a page of each text, no link of it is dead, and what links to files of the
// repository lead to is where it is said to be.
func TestSite(t *testing.T) {
	t.Chdir("..")
	out := t.TempDir()
	if err := run(t.Context(), out, "https://forge.example/blob/main"); err != nil {
		t.Fatal(err)
	}
	texts, err := filepath.Glob(filepath.FromSlash("../docs/*.md"))
	if err != nil || len(texts) < 10 {
		t.Fatalf("the docs are %v, %v", texts, err)
	}
	for _, text := range append(texts, "../CHANGELOG.md", "../CONTRIBUTING.md", "../SECURITY.md") {
		name := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(text, filepath.FromSlash("../")), ".md")) + ".html"
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	for name, wanted := range map[string][]string{
		"index.html": {
			"<title>Portcullis</title>", `<a href="./docs/streams.html">`, `<a href="./index.html" aria-current="page">Overview</a>`, "<code>--dry-run=server</code>",
		},
		"docs/architecture.html": {
			"<title>Architecture - Portcullis</title>", `<a href="https://forge.example/blob/main/internal/claim/acquire.go">`,
			`<a href="../index.html">Overview</a>`,
		},
		"changelog.html": {`<a href="./docs/operations.html#upgrade">`},
	} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range wanted {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s does not have %s", name, part)
			}
		}
	}
}
