package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/takeover"
)

// importHeader comes before what is imported, and importPoolsHeader if there are pools.
const (
	importHeader = `Written by kubectl portcullis import, for a cluster with Portcullis. Read what is marked TODO, then: %s
Applied again, it changes nothing. What is commented out waits for a decision: decide, and take the signs of the comment away.`
	importPoolsHeader = `There are AddressPools below: DO NOT APPLY THEM BEFORE STEPS 1 AND 2. Until then, Portcullis would give others the
addresses that Services have. What else there is to import, write alone, and apply before: import --only streams.
Then, so that no address moves:
1. Stop the controller that gives them today, and nothing else of it: of MetalLB the Deployment "controller". Its speakers go on
   announcing, and need its IPAddressPools.
2. Have Portcullis serve Services without a loadBalancerClass: --default-load-balancer.
3. Import again, and apply the AddressPools. Each Service keeps what it lists in its status.`
)

// writeDocuments writes manifests and what there is to say of them as a stream of YAML documents.
func writeDocuments(to io.Writer, docs []takeover.Document, unread []Unread) error {
	var text bytes.Buffer
	hasPools, then := false, "kubectl apply -f FILE"
	for i := range docs {
		_, isPool := docs[i].Object.(*v1beta1.AddressPool)
		hasPools = hasPools || isPool
	}
	if hasPools {
		then = "steps 1 to 3"
	}
	comment(&text, "", fmt.Sprintf(importHeader, then))
	if hasPools {
		comment(&text, "", "")
		comment(&text, "", importPoolsHeader)
	}
	for _, u := range unread {
		comment(&text, todo, inOneLine(u.String()+": there may be more"))
	}
	for i := range docs {
		if err := writeDocument(&text, &docs[i]); err != nil {
			return err
		}
	}
	_, err := text.WriteTo(to)
	return err
}

// todo marks what a person has to decide.
const todo = "TODO: "

// writeDocument writes one. Nothing of what others have written is in a line that is no comment but as a value of YAML.
func writeDocument(to *bytes.Buffer, d *takeover.Document) error {
	if d.Object == nil && len(d.Notes)+len(d.Decisions) == 0 {
		return nil
	}
	to.WriteByte('\n')
	if d.Object != nil && !d.Held {
		to.WriteString("---\n")
	}
	for _, note := range d.Notes {
		comment(to, "", inOneLine(note))
	}
	for _, decision := range d.Decisions {
		comment(to, todo, inOneLine(decision))
	}
	if d.Object == nil {
		return nil
	}
	content, err := contentOf(d.Object)
	if err != nil {
		return err
	}
	text, err := inYAML(content)
	if err != nil {
		return err
	}
	if !d.Held {
		to.Write(text)
		return nil
	}
	comment(to, "", "---\n"+strings.TrimSuffix(string(text), "\n"))
	return nil
}

// inYAML is a manifest as it is written. The library reads it as YAML in between, which takes fewer characters than JSON does.
func inYAML(content map[string]any) ([]byte, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	var escaped bytes.Buffer
	for _, r := range string(text) {
		switch {
		case unicode.IsPrint(r):
			escaped.WriteRune(r)
		case r > math.MaxUint16:
			fmt.Fprintf(&escaped, `\U%08x`, r)
		default:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
	}
	return yaml.JSONToYAML(escaped.Bytes())
}

// longest is how long what others have written can make a line.
const longest = 2000

// inOneLine is a text that others have written a part of, in one line.
func inOneLine(text string) string {
	if text = clean(text); len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + " ..."
	}
	return text
}

// comment writes lines, each as a comment. What YAML does not take there, or takes for the end of a line, is replaced.
func comment(to *bytes.Buffer, mark, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return unicode.ReplacementChar
		}, line)
		fmt.Fprintln(to, strings.TrimRight("# "+mark+line, " "))
	}
}

// count is how many manifests are to be applied, and how many decisions there are.
func count(docs []takeover.Document) (objects, decisions int) {
	for i := range docs {
		if docs[i].Object != nil && !docs[i].Held {
			objects++
		}
		decisions += len(docs[i].Decisions)
	}
	return objects, decisions
}
