package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
)

// makeNotes says what is new: what the changelog says of it, and the commits since the last tag.
func (r *release) makeNotes(ctx context.Context) error {
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	since, of := "HEAD", "the beginning"
	if tag, err := output(ctx, nil, "git", "describe", "--tags", "--abbrev=0", "--exclude="+r.version); err == nil {
		since, of = tag+"..HEAD", tag
	}
	commits, err := output(ctx, nil, "git", "log", "--no-merges", "--format=- %s (%h)", "--abbrev=12", since)
	if err != nil {
		return err
	}
	return r.write("release-notes.md", notes(r.version, string(changelog), of, commits))
}

// notes are those of a version. The commits of a first release are many, so that a forge shows them when they are asked for.
func notes(version, changelog, of, commits string) string {
	text := "# Portcullis " + version + "\n\n"
	for _, heading := range []string{version, strings.TrimPrefix(version, "v"), "Unreleased"} {
		if said := section(changelog, heading); said != "" {
			text += said + "\n\n"
			break
		}
	}
	n := strings.Count(commits, "\n") + 1
	return text + fmt.Sprintf("<details>\n<summary>Commits since %s: %d</summary>\n\n%s\n\n</details>\n", of, n, commits)
}

// section is what a text says below a heading, behind which there may be the day.
func section(text, heading string) string {
	for part := range strings.SplitSeq(text, "\n## ") {
		title, said, _ := strings.Cut(part, "\n")
		if words := strings.Fields(title); len(words) > 0 && words[0] == heading {
			return strings.TrimSpace(said)
		}
	}
	return ""
}

// makeChecksums writes the checksums of all files, as sha256sum -c reads them.
func (r *release) makeChecksums() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		content, err := os.ReadFile(r.file(e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), e.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return r.write("checksums.txt", strings.Join(lines, ""))
}
