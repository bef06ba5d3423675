package main

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestDeadLinks(t *testing.T) {
	t.Parallel()
	page := func(text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("<!DOCTYPE html><body>" + text)}
	}
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"to pages, pictures, elements and other sites": {text: `<a href="b.html">b</a> <a href="b.html#there">b</a> <a href="#here" id="here">a</a>
			<a href="../index.html">up</a> <img src="pictures/p.svg"> <a href="https://example.com/none.html#none">elsewhere</a>`},
		"to no page":           {`<a href="c.html">c</a>`, []string{"docs/a.html: c.html leads to docs/c.html, which is no file"}},
		"to a page elsewhere":  {`<a href="index.html">up</a>`, []string{"docs/a.html: index.html leads to docs/index.html, which is no file"}},
		"to a directory":       {`<a href="pictures">all</a>`, []string{"docs/a.html: pictures leads to docs/pictures, which is no file"}},
		"out of the site":      {`<a href="../../a">out</a>`, []string{"docs/a.html: ../../a leads to ../a, which is no file"}},
		"to the text of pages": {`<a href="b.md">b</a>`, []string{"docs/a.html: b.md leads to docs/b.md, which is no file"}},
		"to no element":        {`<a href="b.html#none">b</a>`, []string{"docs/a.html: b.html#none leads to #none, which docs/b.html does not have"}},
		"to none of its own":   {`<a href="#none">a</a>`, []string{"docs/a.html: #none leads to #none, which docs/a.html does not have"}},
		"no picture":           {`<img src="q.svg">`, []string{"docs/a.html: q.svg leads to docs/q.svg, which is no file"}},
		"two of one id":        {`<p id="x"><p id="x">`, []string{"docs/a.html has #x twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := deadLinks(fstest.MapFS{
				"index.html": page(""), "docs/b.html": page(`<h2 id="there">there</h2>`), "docs/pictures/p.svg": page(""), "docs/a.html": page(tc.text),
			})
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
