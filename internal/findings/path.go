package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

const canaryAnnotation = "nginx.ingress.kubernetes.io/canary"

// at is a host, or a path on one, of a class.
type at struct{ class, host, path string }

// serving is an Ingress that serves a path.
type serving struct {
	*networkingv1.Ingress
	exact bool
}

// paths are the hosts and paths that several Ingresses of one class serve. Canaries are meant to, and are left out.
func paths(s *snapshot.Snapshot) (found []Finding) {
	c := s.ClassesOf()
	first, several := map[at]serving{}, map[at][]serving{}
	for _, ing := range s.Ingresses {
		class := c.Of(ing)
		if ing.Annotations[canaryAnnotation] == "true" {
			continue
		}
		for host, path := range exposure.Served(ing) {
			key, serves := at{class, host, path.Value}, serving{ing, path.Type == networkingv1.PathTypeExact}
			switch one, known := first[key]; {
			case !known:
				first[key] = serves
			case len(several[key]) == 0:
				several[key] = []serving{one, serves}
			default:
				several[key] = append(several[key], serves)
			}
		}
	}
	for key, all := range several {
		if f, is := pathTwice(c, key, all); is {
			found = append(found, f)
		}
	}
	return found
}

// pathTwice is the finding about a path that is listed several times; is is false where all of them are of one Ingress.
func pathTwice(c snapshot.Classes, key at, all []serving) (f Finding, is bool) {
	slices.SortFunc(all, byAge)
	var objects []Object
	for i := range all {
		if i == 0 || all[i].Ingress != all[i-1].Ingress {
			objects = append(objects, objectOf("Ingress", all[i].Ingress))
		}
	}
	if len(objects) < 2 {
		return f, false
	}
	if !c.IsNginx(key.class) {
		sortObjects(objects) // and those that are as old by name
	}
	f = Finding{
		Rule: PathTwice, Point: cmp.Or(key.host, "*") + key.path, Scope: snapshot.ClassName(key.class), Objects: objects, Wins: Undetermined,
		Text:   names(objects) + " serve the same host and path",
		Advice: "give all but one of them another host or path, or take the rule out",
	}
	if c.IsNginx(key.class) {
		winner := all[0]
		if i := slices.IndexFunc(all, func(s serving) bool { return s.exact }); i >= 0 {
			winner = all[i]
		}
		f.Wins = objectOf("Ingress", winner.Ingress).String()
		f.Text += "; ingress-nginx serves the oldest of them"
		if winner.exact && slices.ContainsFunc(all, func(s serving) bool { return !s.exact }) {
			f.Text += " whose path is exact"
		}
	}
	return f, true
}

// byAge has Ingresses in the order in which ingress-nginx reads them: of those as old, the last by name comes first.
func byAge(a, b serving) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		-strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
}

// hosts are those that Ingresses of one class in several namespaces serve, aliases included. What a HostPolicy lets these namespaces
// share is as it should be.
func hosts(s *snapshot.Snapshot) (found []Finding) {
	c, policies := s.ClassesOf(), hostname.NewBook(s.HostPolicies)
	first, several := map[at]*networkingv1.Ingress{}, map[at][]*networkingv1.Ingress{}
	for _, ing := range s.Ingresses {
		user, _ := hostname.Of(metav1.Object(ing), exposure.Defaults{})
		user.Only(guard.Ingress)
		for _, n := range user.Names {
			key := at{class: c.Of(ing), host: n.Host}
			switch {
			case n.Host == "":
			case first[key] == nil:
				first[key] = ing
			case first[key].Namespace != ing.Namespace || len(several[key]) > 0:
				several[key] = append(several[key], ing)
			case byAge(serving{Ingress: ing}, serving{Ingress: first[key]}) < 0:
				first[key] = ing
			}
		}
	}
	for key, others := range several {
		objects := oneEach(append(others, first[key]))
		if !c.IsNginx(key.class) {
			sortObjects(objects)
		}
		if policy := policies.For(key.host); policy != nil && policy.Shares() && allows(s, policy, objects) {
			continue
		}
		f := Finding{
			Rule: HostInNamespaces, Point: key.host, Scope: snapshot.ClassName(key.class), Objects: objects, Wins: Undetermined,
			Text: fmt.Sprintf("%s serve the host, each its own paths, with what they say of the host as a whole: certificate, redirects",
				names(objects)),
			Advice: "let the host be of one namespace, or say by a HostPolicy that namespaces share it",
		}
		if c.IsNginx(key.class) {
			f.Wins = objects[0].String()
			f.Text += "; for the host as a whole, ingress-nginx takes the oldest one's word"
		}
		found = append(found, f)
	}
	return found
}

// allows says whether a policy lets the namespaces of all objects use its names.
func allows(s *snapshot.Snapshot, policy *hostname.Policy, objects []Object) bool {
	return !slices.ContainsFunc(objects, func(o Object) bool { return !policy.Allows(s.NamespaceLabels(o.Namespace)) })
}

// oneEach is the oldest Ingress of each namespace.
func oneEach(all []*networkingv1.Ingress) (objects []Object) {
	slices.SortFunc(all, func(a, b *networkingv1.Ingress) int { return byAge(serving{Ingress: a}, serving{Ingress: b}) })
	seen := map[string]bool{}
	for _, ing := range all {
		if !seen[ing.Namespace] {
			seen[ing.Namespace] = true
			objects = append(objects, objectOf("Ingress", ing))
		}
	}
	return objects
}
