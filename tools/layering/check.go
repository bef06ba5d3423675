package main

import (
	"fmt"
	"slices"
	"strings"
)

// check returns one sentence for every violation, sorted.
func check(imports graph) []string {
	var found []string
	for path := range imports {
		layer, ours := layerOf(path)
		if !ours {
			continue
		}
		found = append(found, checkLayer(path, layer, imports[path])...)
		found = append(found, checkFeature(path, imports[path])...)
		if isPure(path) {
			found = append(found, checkReach(path, "pure", modules, imports)...)
		}
		if path == product+"/"+lean {
			found = append(found, checkReach(path, "lean", heavy, imports)...)
		}
	}
	slices.Sort(found)
	return found
}

// checkLayer returns the direct imports of one package that its layer may not have.
func checkLayer(path, layer string, imported []string) []string {
	allowed, known := layers[layer]
	if !known {
		return []string{fmt.Sprintf("%s is in no layer: name its directory in tools/layering", path)}
	}
	var found []string
	for _, other := range imported {
		below, ours := layerOf(other)
		if ours && below != layer && !slices.Contains(allowed, below) {
			found = append(found, fmt.Sprintf("%s imports %s: %s may import %s", path, other, layer, list(allowed)))
		}
	}
	return found
}

// checkFeature returns the features that another feature, or what all features share, imports. Of a layer that has features,
// every package below its root is known for one or the other.
func checkFeature(path string, imported []string) []string {
	feature, shares := rootOf(path, features), rootOf(path, shared)
	if feature == "" && shares == "" {
		layer, _ := layerOf(path)
		if path != product+"/"+layer && slices.ContainsFunc(features, func(f string) bool { return within(f, layer) }) {
			return []string{fmt.Sprintf("%s is neither a feature nor shared by them: name it in tools/layering", path)}
		}
		return nil
	}
	var found []string
	for _, other := range imported {
		if of := rootOf(other, features); of != "" && of != feature {
			found = append(found, fmt.Sprintf("%s imports %s: it may import no other feature", path, other))
		}
	}
	return found
}

// rootOf returns which of some directories a package is in, "" for none.
func rootOf(path string, roots []string) string {
	for _, root := range roots {
		if within(path, product+"/"+root) {
			return root
		}
	}
	return ""
}

// checkReach returns the shortest way from a package that must stay as it is called to each module that it must not reach.
func checkReach(path, called string, forbidden []string, imports graph) []string {
	var found []string
	for _, module := range forbidden {
		if chain := shortest(imports, path, module); chain != nil {
			found = append(found, fmt.Sprintf("%s must stay %s but reaches %s: %s", path, called, module, strings.Join(chain, " -> ")))
		}
	}
	return found
}

func isPure(path string) bool {
	return slices.ContainsFunc(pure, func(root string) bool { return within(path, product+"/"+root) })
}

// shortest returns the imports that lead from one package into a module, both ends included; nil when none do.
func shortest(imports graph, from, module string) []string {
	importer := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		if at := queue[0]; within(at, module) {
			return chain(importer, at)
		}
		for _, next := range imports[queue[0]] {
			if _, seen := importer[next]; !seen {
				importer[next] = queue[0]
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// chain walks back from a package to the first one.
func chain(importer map[string]string, at string) []string {
	var path []string
	for ; at != ""; at = importer[at] {
		path = append(path, at)
	}
	slices.Reverse(path)
	return path
}

// list names layers for a sentence.
func list(names []string) string {
	if len(names) == 0 {
		return "none of the others"
	}
	return strings.Join(names, ", ")
}
