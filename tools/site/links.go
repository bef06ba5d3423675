package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// leads is a link of a page, or a picture in it: the file of the site that it leads to, and the id there.
type leads struct{ file, id string }

// document is what a page offers to links, and what it links to.
type document struct {
	ids   map[string]bool
	links map[string]leads // by what is written
}

// deadLinks are the links of all pages of a site that lead to no file of it, or to no element of a page, and the ids that a page has
// twice, each as a sentence. Links to other sites are not followed.
func deadLinks(site fs.FS) (dead []string, err error) {
	documents := map[string]document{}
	err = fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".html" {
			return err
		}
		text, err := fs.ReadFile(site, name)
		if err != nil {
			return err
		}
		d, problems, err := parse(name, text)
		documents[name], dead = d, append(dead, problems...)
		return err
	})
	if err != nil {
		return nil, err
	}
	for name, d := range documents {
		for written, to := range d.links {
			if info, err := fs.Stat(site, to.file); err != nil || info.IsDir() {
				dead = append(dead, fmt.Sprintf("%s: %s leads to %s, which is no file", name, written, to.file))
			} else if to.id != "" && !documents[to.file].ids[to.id] {
				dead = append(dead, fmt.Sprintf("%s: %s leads to #%s, which %s does not have", name, written, to.id, to.file))
			}
		}
	}
	slices.Sort(dead)
	return dead, nil
}

// parse reads the page of a name.
func parse(name string, text []byte) (d document, problems []string, err error) {
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		return d, nil, fmt.Errorf("%s: %w", name, err)
	}
	d = document{ids: map[string]bool{}, links: map[string]leads{}}
	for node := range root.Descendants() {
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id":
				if d.ids[attribute.Val] {
					problems = append(problems, fmt.Sprintf("%s has #%s twice", name, attribute.Val))
				}
				d.ids[attribute.Val] = true
			case "href", "src":
				to, err := url.Parse(attribute.Val)
				if err != nil {
					problems = append(problems, fmt.Sprintf("%s: %v", name, err))
				} else if to.Scheme == "" && to.Host == "" {
					d.links[attribute.Val] = leads{file: target(name, to.Path), id: to.Fragment}
				}
			}
		}
	}
	return d, problems, nil
}

// target is the file that a path leads to from a page.
func target(page, to string) string {
	switch {
	case to == "":
		return page
	case strings.HasPrefix(to, "/"):
		return strings.TrimPrefix(path.Clean(to), "/")
	default:
		return path.Join(path.Dir(page), to)
	}
}
