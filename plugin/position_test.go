package plugin

import (
	"slices"
	"testing"
)

func TestStepsOf(t *testing.T) {
	for path, want := range map[string][]string{
		"": nil, "spec.listen": {"spec", "listen"}, "spec.rules[0].host": {"spec", "rules", "0", "host"},
		"metadata.annotations[example.com/a]": {"metadata", "annotations", "example.com/a"}, ".spec": {"spec"}, "a[": {"a", ""},
	} {
		if got := stepsOf(path); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func TestLineOf(t *testing.T) {
	const text = `# a comment
---
kind: A
metadata: &m
  annotations:
    example.com/a: b
spec:
  rules:
  - host: a
  - host: b
    other: *m
---
null
---
{"kind": "B",
 "spec": {"x": 1}}
`
	p := newPositions([]byte(text))
	a, b := p.next(), p.next()
	if p.next() != nil {
		t.Error("there is a third document")
	}
	for path, want := range map[string]int{
		"": 3, "kind": 3, "metadata.annotations[example.com/a]": 6, "spec.rules[1].host": 10, "spec.rules[1].other.annotations": 5,
		"spec.rules[7].host": 8, "spec.missing": 7, "missing": 3,
	} {
		if got := a.lineOf(path); got != want {
			t.Errorf("%q: got %d, want %d", path, got, want)
		}
	}
	if got := b.lineOf("spec.x"); got != 16 {
		t.Errorf("in JSON, got %d", got)
	}
	if p := newPositions([]byte("a: [")); p.next() != nil {
		t.Error("what is not YAML has positions")
	}
}
