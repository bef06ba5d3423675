package plugin

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// position is where an object is in a file, with its fields.
type position struct{ node *yaml.Node }

// positions are those of the documents of a file that hold anything, one after the other.
type positions struct{ left []*position }

// newPositions reads the text of a file. One that is not YAML, or JSON, has no positions.
func newPositions(text []byte) *positions {
	p := &positions{}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		document := &yaml.Node{}
		if decoder.Decode(document) != nil {
			return p
		}
		if len(document.Content) == 1 && document.Content[0].Tag != "!!null" {
			p.left = append(p.left, &position{document.Content[0]})
		}
	}
}

// next is the position of the next document, nil where there is none.
func (p *positions) next() *position {
	if len(p.left) == 0 {
		return nil
	}
	at := p.left[0]
	p.left = p.left[1:]
	return at
}

// item is the position of an item of a list, nil if it has none.
func (p *position) item(i int) *position {
	if p == nil {
		return nil
	}
	if _, items := entry(p.node, "items"); items != nil && i < len(items.Content) {
		return &position{items.Content[i]}
	}
	return nil
}

// lineOf is the line of a field, by its path as the API server writes it, or of what is nearest above it.
func (p *position) lineOf(path string) int {
	line, node := p.node.Line, p.node
	for _, step := range stepsOf(path) {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		key, value := entry(node, step)
		if value == nil {
			break
		}
		line, node = key.Line, value
	}
	return line
}

// entry finds a field of an object by its name, or an item of a list by its index. key is where it begins; value is nil for none.
func entry(node *yaml.Node, step string) (key, value *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

// stepsOf are the names, keys and indexes of a path such as spec.rules[0].host or metadata.annotations[example.com/a].
func stepsOf(path string) (steps []string) {
	for path != "" {
		end := strings.IndexAny(path, ".[")
		switch {
		case end < 0:
			return append(steps, path)
		case end > 0:
			steps, path = append(steps, path[:end]), path[end:]
		case path[0] == '.':
			path = path[1:]
		default:
			inside, rest, _ := strings.Cut(path[1:], "]")
			steps, path = append(steps, strings.Trim(inside, `"`)), rest
		}
	}
	return steps
}
