package v1beta1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// constants are the string constants of conditions.go with a prefix, by name.
func constants(t *testing.T, prefix string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Errorf("%s is no literal", spec.Names[0].Name)
			return false
		}
		found[spec.Names[0].Name], err = strconv.Unquote(literal.Value)
		if name := spec.Names[0].Name; prefix == "Reason" && !strings.HasPrefix(spec.Doc.Text(), name+": ") {
			t.Errorf("%s does not say what it means", name)
		}
		return err == nil
	})
	return found
}

func TestReasonsAreWhatConditionsTake(t *testing.T) {
	taken := regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	for name, reason := range constants(t, "Reason") {
		if "Reason"+reason != name || !taken.MatchString(reason) {
			t.Errorf("%s is %q", name, reason)
		}
	}
	for name, kind := range constants(t, "Condition") {
		if "Condition"+kind != name {
			t.Errorf("%s is %q", name, kind)
		}
	}
}

// TestEveryReasonIsGiven finds, for each reason, code that gives it.
func TestEveryReasonIsGiven(t *testing.T) {
	used, word := map[string]bool{}, regexp.MustCompile(`\bv1beta1\.(Reason\w+|Condition\w+)`)
	for _, dir := range []string{"internal", "webhooks", "reconcilers"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return names(path, word, used)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"Reason", "Condition"} {
		all := constants(t, prefix)
		if len(all) < 3 {
			t.Errorf("found only %v", all)
		}
		for name := range all {
			if !used[name] {
				t.Errorf("%s is never given", name)
			}
		}
	}
}

// names collects what a file names of this package.
func names(path string, word *regexp.Regexp, into map[string]bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok {
				if found := word.FindStringSubmatch(pkg.Name + "." + s.Sel.Name); found != nil {
					into[found[1]] = true
				}
			}
		}
		return true
	})
	return nil
}
