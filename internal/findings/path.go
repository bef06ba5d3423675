package findings

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

const canaryAnnotation = "nginx.ingress.kubernetes.io/canary"

// at is a host, or a path on one, of a class. One that is exact and one that is not are served beside each other.
type at struct {
	class, host, path string
	exact             bool
}

// paths are the hosts and paths that several Ingresses of one class serve. Canaries are meant to, and are left out: of which controllers
// ingress-nginx's annotation is read, nobody can tell by the class.
func paths(s *snapshot.Snapshot) (found []Finding) {
	places := placesOf(s)
	c := places.classes
	first, several := map[at]*networkingv1.Ingress{}, map[at][]*networkingv1.Ingress{}
	for _, ing := range s.Ingresses {
		class := c.Of(ing)
		if isCanary, err := strconv.ParseBool(ing.Annotations[canaryAnnotation]); err == nil && isCanary || places.isNowhere(ing) {
			continue
		}
		for host, path := range exposure.Served(ing) {
			key := at{class, host, path.Value, path.Type == networkingv1.PathTypeExact}
			switch one := first[key]; {
			case one == nil:
				first[key] = ing
			case len(several[key]) == 0:
				several[key] = []*networkingv1.Ingress{one, ing}
			default:
				several[key] = append(several[key], ing)
			}
		}
	}
	for key, all := range several {
		for _, group := range meeting(all) {
			if f, is := pathTwice(s, c, key, group); is {
				found = append(found, f)
			}
		}
	}
	return found
}

// pathTwice is the finding about a path that is listed several times; is is false where all of them are of one Ingress.
func pathTwice(s *snapshot.Snapshot, c snapshot.Classes, key at, all []*networkingv1.Ingress) (f Finding, is bool) {
	slices.SortFunc(all, byAge)
	var objects []Object
	for _, ing := range slices.Compact(all) {
		objects = append(objects, objectOf("Ingress", ing))
	}
	if len(objects) < 2 {
		return f, false
	}
	f = Finding{
		Rule: PathTwice, Point: cmp.Or(key.host, "*") + key.path,
		Advice: "give all but one of them another host or path, or take the rule out",
	}
	f.about(s, c, key.class, objects, " serve the same host and path", "; ingress-nginx serves the oldest of them")
	return f, true
}

// about says which Ingresses of a class a finding is about, those first that ingress-nginx reads first: if that serves the class, the first
// of them wins, as nginx says, and else nobody knows who does.
func (f *Finding) about(s *snapshot.Snapshot, c snapshot.Classes, class string, objects []Object, text, nginx string) {
	f.Scope, f.Objects, f.Wins = snapshot.ClassName(class), objects, Undetermined
	if c.IsNginx(class) {
		f.Wins, text = winner(s, "Ingress", objects[0].String()), text+nginx
	} else {
		sortObjects(objects) // and those that are as old by name
	}
	f.Text = names(objects) + text
}

// byAge has Ingresses in the order in which ingress-nginx reads them: of those as old, the last by name comes first.
func byAge(a, b *networkingv1.Ingress) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		-strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
}

// hosts are those that Ingresses of one class in several namespaces serve, aliases included. What a HostPolicy lets these namespaces
// share is as it should be; so nothing is found where the policies are not known.
func hosts(s *snapshot.Snapshot) (found []Finding) {
	if !s.Knows("HostPolicy", "") {
		return nil
	}
	places, all := placesOf(s), map[at][]*networkingv1.Ingress{}
	for _, ing := range s.Ingresses {
		if places.isNowhere(ing) {
			continue
		}
		user, _ := hostname.Of(metav1.Object(ing), exposure.Defaults{})
		user.Only(guard.Ingress)
		for _, n := range user.Names {
			key := at{class: places.classes.Of(ing), host: n.Host}
			if has := all[key]; n.Host != "" && (len(has) == 0 || has[len(has)-1] != ing) {
				all[key] = append(has, ing)
			}
		}
	}
	policies := hostname.NewBook(s.HostPolicies)
	for key, having := range all {
		policy := policies.For(key.host)
		for _, group := range meeting(having) {
			objects := oneEach(group)
			if len(objects) > 1 && !(policy != nil && policy.Shares() && allows(s, policy, objects)) {
				found = append(found, hostInNamespaces(s, places.classes, key, objects))
			}
		}
	}
	return found
}

// hostInNamespaces is the finding about a host that Ingresses of several namespaces have.
func hostInNamespaces(s *snapshot.Snapshot, c snapshot.Classes, key at, objects []Object) Finding {
	f := Finding{
		Rule: HostInNamespaces, Point: key.host, Advice: "let the host be of one namespace, or say by a HostPolicy that namespaces share it",
	}
	f.about(s, c, key.class, objects,
		" serve the host, each its own paths, with what they say of the host as a whole: certificate, redirects",
		"; for the host as a whole, ingress-nginx takes the oldest one's word")
	return f
}

// allows says whether a policy lets the namespaces of all objects use its names, or may, as their labels are not known.
func allows(s *snapshot.Snapshot, policy *hostname.Policy, objects []Object) bool {
	isRefused := func(o Object) bool { return !policy.Allows(s.NamespaceLabels(o.Namespace)) }
	return !s.Knows("Namespace", "") || !slices.ContainsFunc(objects, isRefused)
}

// oneEach is the oldest Ingress of each namespace.
func oneEach(all []*networkingv1.Ingress) (objects []Object) {
	slices.SortFunc(all, byAge)
	seen := map[string]bool{}
	for _, ing := range all {
		if !seen[ing.Namespace] {
			seen[ing.Namespace] = true
			objects = append(objects, objectOf("Ingress", ing))
		}
	}
	return objects
}
