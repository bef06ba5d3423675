package exposure

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxName  = 253
	maxLabel = 63
	// maxPath is how long a path may be, in bytes.
	maxPath = 512

	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// nameFlaw finds what is wrong with the name of an object of a kind, nil for nothing.
func nameFlaw(value, kind string) *flaw {
	if at := firstOutside(value, letters+digits+"-."); at >= 0 {
		return &flaw{offset: at, text: fmt.Sprintf(
			"the name of %s may have lower-case letters, digits, hyphens and dots, and not %s", kind, character(value, at))}
	}
	return labelsFlaw(value, "the name of "+kind, maxName)
}

// hostFlaw finds what is wrong with a host, nil for nothing. A wildcard is the whole first label.
func hostFlaw(value string) *flaw {
	if at := strings.Index(value, "://"); at >= 0 {
		return &flaw{offset: at, text: "a host, and not a URL: leave out what is before and after it"}
	}
	if at := strings.IndexByte(value, '/'); at >= 0 {
		return &flaw{offset: at, text: "a host has no path: give it as path=" + strings.SplitAfterN(value[at:], ",", 2)[0]}
	}
	if at := strings.IndexByte(value, ':'); at >= 0 {
		return &flaw{offset: at, text: "a host has no port, and is no IPv6 address: an Ingress serves names on 80 and 443"}
	}
	name, wildcard := strings.CutPrefix(value, "*.")
	from := 0
	if wildcard {
		from = 2
	}
	if at := strings.IndexByte(name, '*'); at >= 0 {
		return &flaw{offset: from + at, text: "a * stands for the whole first label, as in *.example.com, and nowhere else"}
	}
	if at := strings.IndexAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"); at >= 0 {
		return &flaw{offset: from + at, text: "a host is written in lower case: " + strings.ToLower(value)}
	}
	if at := firstOutside(name, letters+digits+"-."); at >= 0 {
		return &flaw{offset: from + at, text: "a host may have letters, digits, hyphens and dots, and not " + character(name, at)}
	}
	if name != "" && strings.Trim(name, digits+".") == "" {
		return &flaw{text: "a host is a name, and not an IP address"}
	}
	f := labelsFlaw(name, "a host", maxName-from)
	if f != nil {
		f.offset += from
	}
	return f
}

// labelsFlaw finds what is wrong with the labels of a DNS name whose characters are right.
func labelsFlaw(value, what string, longest int) *flaw {
	if len(value) > longest {
		return &flaw{offset: longest, text: fmt.Sprintf("%s may have %d characters at most, and this one %d", what, longest, len(value))}
	}
	at := 0
	for _, label := range strings.Split(value, ".") {
		switch {
		case label == "":
			return &flaw{offset: at, text: what + " must not begin or end with a dot, nor have two in a row"}
		case label[0] == '-':
			return &flaw{offset: at, text: what + " must not have a hyphen at the start of a part between dots"}
		case label[len(label)-1] == '-':
			return &flaw{offset: at + len(label) - 1, text: what + " must not have a hyphen at the end of a part between dots"}
		case len(label) > maxLabel:
			return &flaw{offset: at + maxLabel, text: fmt.Sprintf("%s may have %d characters at most between two dots", what, maxLabel)}
		}
		at += len(label) + 1
	}
	return nil
}

// pathFlaw finds what is wrong with a path, nil for nothing. What passes is a path by the rules of Ingress objects and
// by the strict validation of ingress-nginx, and means nothing else in the configuration of a proxy.
func pathFlaw(value string) *flaw {
	if value[0] != '/' {
		return &flaw{text: "a path begins with a slash"}
	}
	allowed := letters + strings.ToUpper(letters) + digits + "-._~/"
	if at := firstOutside(value, allowed); at >= 0 {
		return &flaw{offset: at, text: "a path may have letters, digits and - . _ ~ /, and not " + character(value, at)}
	}
	if len(value) > maxPath {
		return &flaw{offset: maxPath, text: fmt.Sprintf("a path may have %d characters at most, and this one %d", maxPath, len(value))}
	}
	if at := strings.Index(value, "//"); at >= 0 {
		return &flaw{offset: at, text: "a path must not have two slashes in a row"}
	}
	for _, dots := range []string{"/./", "/../"} {
		if at := strings.Index(value+"/", dots); at >= 0 {
			return &flaw{offset: at, text: fmt.Sprintf(
				"a path must not have the part %q: it would not be the path that clients ask for", strings.Trim(dots, "/"))}
		}
	}
	return nil
}

// firstOutside is the index of the first byte that is not among the allowed ones, -1 for none.
func firstOutside(value, allowed string) int {
	return strings.IndexFunc(value, func(r rune) bool { return r >= utf8.RuneSelf || !strings.ContainsRune(allowed, r) })
}

// character is the character at an index in words.
func character(value string, at int) string {
	r, _ := utf8.DecodeRuneInString(value[at:])
	if r == ' ' {
		return "a space"
	}
	return fmt.Sprintf("%q", r)
}
