package main

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
)

// object is one object of the chart.
type object struct {
	id string
	// of is the feature whose own it is, nil for what is always there.
	of   *feature
	node *yaml.Node
}

func (o *object) kind() string { return field(o.node, "kind").Value }

func (o *object) file() string {
	switch {
	case o.kind() == "CustomResourceDefinition":
		return "crds"
	case o.of != nil:
		return o.of.file
	default:
		return "portcullis"
	}
}

// merge has the objects of the base, with what features change in them under conditions, and those that features add.
func merge(config string, base resmap.ResMap) ([]*object, error) {
	var all []*object
	known := map[string]*object{}
	for _, r := range base.Resources() {
		o := &object{id: r.CurId().String(), node: nodeOf(r)}
		known[o.id], all = o, append(all, o)
	}
	for i := range features {
		f := &features[i]
		with, err := render(config, []string{f.component})
		if err != nil {
			return nil, err
		}
		for _, r := range with.Resources() {
			id := r.CurId().String()
			before := known[id]
			if before == nil {
				all = append(all, &object{id: id, of: f, node: nodeOf(r)})
				continue
			}
			original, err := base.GetByCurrentId(r.CurId())
			if err != nil {
				return nil, err
			}
			if err := add(before.node, nodeOf(original), nodeOf(r), f.when); err != nil {
				return nil, fmt.Errorf("%s, of %s: %w", f.component, id, err)
			}
		}
	}
	return all, nil
}

func nodeOf(r *resource.Resource) *yaml.Node {
	return copyOf(r.YNode())
}

func copyOf(n *yaml.Node) *yaml.Node {
	next := *n
	next.Content = nil
	next.HeadComment, next.LineComment, next.FootComment = "", "", ""
	for _, c := range n.Content {
		next.Content = append(next.Content, copyOf(c))
	}
	return &next
}

// add adds to a node of the chart what is new from one to another, under a condition.
func add(to, from, with *yaml.Node, when string) error {
	switch {
	case isEqual(from, with):
		return nil
	case from.Kind != with.Kind:
		return fmt.Errorf("line %d becomes something else, for which there is no template", with.Line)
	case with.Kind == yaml.MappingNode:
		return addFields(to, from, with, when)
	case with.Kind == yaml.SequenceNode:
		return addItems(to, from, with, when)
	default:
		return fmt.Errorf("%q becomes %q, for which there is no template", from.Value, with.Value)
	}
}

// addFields adds what a mapping has more. What a chart has under a condition is between two keys that the template makes lines of.
func addFields(to, from, with *yaml.Node, when string) error {
	for i := 0; i < len(from.Content); i += 2 {
		if field(with, from.Content[i].Value) == nil {
			return fmt.Errorf("%s goes, for which there is no template", from.Content[i].Value)
		}
	}
	for i := 0; i < len(with.Content); i += 2 {
		key, value := with.Content[i], with.Content[i+1]
		if before := field(from, key.Value); before != nil {
			if err := add(field(to, key.Value), before, value, when); err != nil {
				return fmt.Errorf("%s: %w", key.Value, err)
			}
			continue
		}
		to.Style &^= yaml.FlowStyle
		to.Content = append(to.Content, mark("if "+when), null(), key, value, mark("end"), null())
	}
	return nil
}

// addItems adds what a sequence has more, which is behind what it had.
func addItems(to, from, with *yaml.Node, when string) error {
	if len(with.Content) < len(from.Content) {
		return errors.New("items go, for which there is no template")
	}
	for i, before := range from.Content {
		if err := add(to.Content[i], before, with.Content[i], when); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	more := with.Content[len(from.Content):]
	if len(more) == 0 {
		return nil
	}
	to.Style &^= yaml.FlowStyle
	to.Content = append(append(append(to.Content, mark("if "+when)), more...), mark("end"))
	return nil
}

func isEqual(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.ShortTag() != b.ShortTag() || a.Value != b.Value || len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		if !isEqual(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

// field is the value of a key of a mapping, nil for none.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}
