package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A template is the YAML of an object in which some scalars are marked: an action of the language of templates in the place of a value, or
// one that is a line of its own. The encoder has written them in quotes, which go.

// namespace is that of the kustomize tree. The chart has that of the release.
const namespace = "portcullis-system"

const marked = "@@"

// mark is an action that is a line of its own.
func mark(action string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: marked + action, Style: yaml.SingleQuotedStyle}
}

// action is one in the place of a value.
func action(text string) yaml.Node {
	return *mark("=" + text)
}

func null() *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"} }

var (
	markedLine  = regexp.MustCompile(`(?m)^( *)(?:- )?'` + marked + `([^=].*?)'(?:: null)?$`)
	markedValue = regexp.MustCompile(`'` + marked + `=(.*?)'(\n|$)`)
)

// template is the text of an object.
func (o *object) template() ([]byte, error) {
	escape(o.node)
	if err := o.set(); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(o.node); err != nil {
		return nil, err
	}
	lines := markedLine.ReplaceAllStringFunc(text.String(), func(line string) string {
		found := markedLine.FindStringSubmatch(line)
		indent, action := found[1], unquoted(found[2])
		if list, isRange := strings.CutPrefix(action, "range "); isRange {
			return fmt.Sprintf("%[1]s{{- range %[2]s }}\n%[1]s- {{ . | quote }}\n%[1]s{{- end }}", indent, list)
		}
		return indent + "{{- " + action + " }}"
	})
	lines = markedValue.ReplaceAllStringFunc(lines, func(value string) string {
		found := markedValue.FindStringSubmatch(value)
		return unquoted(found[1]) + found[2]
	})
	lines = strings.ReplaceAll(lines, namespace, "{{ .Release.Namespace }}")
	switch {
	case o.of != nil:
		lines = "{{- if " + o.of.when + " }}\n" + lines + "{{- end }}\n"
	case o.kind() == "CustomResourceDefinition":
		lines = "{{- if .Values.crds.enabled }}\n" + lines + "{{- end }}\n"
	}
	return []byte(lines), nil
}

// unquoted is what a text in single quotes means.
func unquoted(text string) string { return strings.ReplaceAll(text, "''", "'") }

// escape has the braces of others, such as those of alerts, mean themselves.
func escape(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && !strings.HasPrefix(n.Value, marked) {
		n.Value = strings.ReplaceAll(n.Value, "{{", "{{`{{`}}")
	}
	for _, c := range n.Content {
		escape(c)
	}
}

// set puts the values of the chart into an object.
func (o *object) set() error {
	name := field(field(o.node, "metadata"), "name").Value
	for _, s := range settings {
		if s.kind != o.kind() || s.name != name {
			continue
		}
		at, err := lookup(o.node, s.path)
		if err != nil {
			return err
		}
		*at = action(s.to)
	}
	switch o.kind() {
	case "Deployment":
		args, err := lookup(o.node, container("args"))
		if err != nil {
			return err
		}
		for _, arg := range args.Content {
			if arg.Value == guardMode {
				arg.Value = guardValue
			}
		}
		args.Content = append(args.Content, mark("range .Values.args"))
	case "CustomResourceDefinition":
		annotations := field(field(o.node, "metadata"), "annotations")
		annotations.Content = append(annotations.Content,
			mark("if .Values.crds.keep"), null(),
			&yaml.Node{Kind: yaml.ScalarNode, Value: "helm.sh/resource-policy"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "keep"},
			mark("end"), null())
	}
	return nil
}

// lookup is what a path leads to.
func lookup(n *yaml.Node, path []string) (*yaml.Node, error) {
	for _, step := range path {
		var next *yaml.Node
		if i, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
			next = n.Content[i]
		} else if n.Kind == yaml.MappingNode {
			next = field(n, step)
		}
		if next == nil {
			return nil, fmt.Errorf("nothing is at %s of %s", step, strings.Join(path, "."))
		}
		n = next
	}
	return n, nil
}
