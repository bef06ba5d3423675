package exposure

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// MaxLength is how long a value may be, in bytes. It is more than the largest value that says something needs.
	MaxLength = 16 << 10
	// MaxHosts and maxPaths bound how many hosts and paths there may be: each pair of them is a claim, and admission has to be
	// quick.
	MaxHosts, maxPaths = 16, 16

	// maxFlaws bounds how many wrong fields are told: each is told with the whole value.
	maxFlaws = 8

	// space is what may stand around fields and names.
	space = " \t\r\n"
)

// example is a correct value.
const example = "class=nginx, host=shop.example.com, path=/api, port=http"

// part is one field of a value, with the positions of its name and its value: the first byte has position 1.
type part struct {
	name, value     string
	nameAt, valueAt int
}

// Parse reads the value of the annotation. Each error names the field, what is wrong with it, and where, and shows what
// would be right.
func Parse(value string) (Exposure, field.ErrorList) {
	if len(value) > MaxLength {
		return Exposure{}, field.ErrorList{field.Invalid(AnnotationPath(), value[:32]+"...",
			fmt.Sprintf("is longer than %d bytes, which is the most; a correct value is %q", MaxLength, example))}
	}
	e := Exposure{}
	var found []string
	trimmed := strings.Trim(value, space)
	switch {
	case trimmed == "":
	case !strings.ContainsAny(trimmed, ",="):
		if f := e.setClass(trimmed); f != nil {
			found = append(found, f.in("class", trimmed, strings.Index(value, trimmed)+1,
				"nginx, or "+example))
		}
	default:
		found = e.read(value)
	}
	errs := make(field.ErrorList, 0, len(found))
	for _, detail := range found {
		errs = append(errs, field.Invalid(AnnotationPath(), value, detail))
	}
	if len(errs) > 0 {
		return Exposure{}, errs
	}
	return e, nil
}

// read reads fields. It returns what is wrong, in the order of the value.
func (e *Exposure) read(value string) (found []string) {
	seen := map[string]bool{}
	at := 1
	for _, text := range strings.Split(value, ",") {
		p, wrong := split(text, at)
		at += len(text) + 1
		if wrong == "" {
			wrong = e.set(p, seen)
		}
		if wrong != "" {
			found = append(found, wrong)
		}
	}
	if more := len(found) - maxFlaws; more > 0 {
		found = append(found[:maxFlaws], fmt.Sprintf("%d fields more are wrong", more))
	}
	return found
}

// split reads the name and the value of one field whose text begins at a position.
func split(text string, at int) (p part, wrong string) {
	begin := at + len(text) - len(strings.TrimLeft(text, space))
	trimmed := strings.Trim(text, space)
	if trimmed == "" {
		return p, fmt.Sprintf("nothing stands at position %d, where a field is expected; a correct value is %q", at, example)
	}
	name, value, found := strings.Cut(trimmed, "=")
	if !found {
		return p, fmt.Sprintf("%q at position %d is not a field, as a field is name=value; a correct value is %q", trimmed, begin, example)
	}
	p = part{name: strings.TrimRight(name, space), value: strings.TrimLeft(value, space), nameAt: begin}
	p.valueAt = begin + len(trimmed) - len(p.value)
	return p, ""
}

// set reads one field. It returns what is wrong with it.
func (e *Exposure) set(p part, seen map[string]bool) (wrong string) {
	g, known := grammar[p.name]
	switch {
	case !known:
		return unknown(p)
	case seen[p.name] && !g.repeats:
		return fmt.Sprintf("%s at position %d is given for the second time, and may be given once; for example %s", p.name, p.nameAt, g.example)
	case p.value == "":
		return fmt.Sprintf("%s at position %d is empty: leave it out, or write for example %s", p.name, p.nameAt, g.example)
	}
	seen[p.name] = true
	if f := g.set(e, p.value); f != nil {
		return f.in(p.name, p.value, p.valueAt, g.example)
	}
	return ""
}

// unknown says which field may have been meant.
func unknown(p part) string {
	hint := ""
	if meant := guess(p.name); meant != "" {
		hint = fmt.Sprintf("did you mean %s? ", meant)
	}
	return fmt.Sprintf("%q at position %d is not a field: %sthe fields are %s; a correct value is %q",
		p.name, p.nameAt, hint, strings.Join(names, ", "), example)
}

// guess finds the field that a wrong name stands for, empty for none.
func guess(name string) string {
	name = strings.ToLower(name)
	for _, known := range names {
		if name == known || name == known+"s" || slices.Contains(grammar[known].mistaken, name) {
			return known
		}
	}
	return ""
}

// flaw is what is wrong with the value of a field, and where in it.
type flaw struct {
	text   string
	offset int
}

// in is the flaw in one sentence, for a field whose value begins at a position.
func (f *flaw) in(name, value string, at int, example string) string {
	if len(value) > 64 {
		value = value[:61] + "..."
	}
	return fmt.Sprintf("%s %q: %s (position %d); for example %s", name, value, f.text, at+f.offset, example)
}
