package hostname

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// naming is a user that hands over to another one, "" for nobody.
func naming(u User, heir string) User {
	u.Heir = types.NamespacedName{}
	if namespace, name, found := strings.Cut(heir, "/"); found {
		u.Heir = types.NamespacedName{Namespace: namespace, Name: name}
	}
	return u
}

// promisedTo is a claim that was promised to an object of a namespace.
func promisedTo(c *v1beta1.EdgeClaim, namespace string, uid types.UID) *v1beta1.EdgeClaim {
	c.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: claim.NamespaceHolder(namespace).Spec(uid)}
	return c
}

// TestHandOver has namespaces hand over a name, and a path, to shop/web: by what all of their objects say that have it, at admission and
// afterwards.
func TestHandOver(t *testing.T) {
	const way = "; or have it handed over: all objects of namespace blog that "
	made := naming(User{Holder: claim.IngressHolder("blog", "svc"), IsMade: true, UID: "made"}, "")
	svc := User{Holder: claim.ServiceHolder("blog", "svc"), UID: "svc"}
	one, two := User{Holder: claim.IngressHolder("blog", "one"), UID: "one"}, User{Holder: claim.IngressHolder("blog", "two"), UID: "two"}
	many := slices.Repeat([]User{naming(one, "shop/web")}, MostGivers+1)
	for name, tc := range map[string]struct {
		users  []User
		heir   string    // the namespace that was promised it, empty for none
		to     types.UID // the object for which that was
		gives  string    // whom the one who asks names itself
		leaves bool      // who asks is being deleted
		made   bool      // who asks is an Ingress that was made for a Service
		handed bool
		says   string
	}{
		"nobody says so":                     {users: []User{one}, says: way},
		"its one object says so":             {users: []User{naming(one, "shop/web")}, handed: true},
		"all of them":                        {users: []User{naming(one, "shop/web"), naming(two, "shop/web")}, handed: true},
		"too many to be asked":               {users: many, says: "it can't be handed over while more than 16 objects of namespace blog"},
		"not all of them":                    {users: []User{naming(one, "shop/web"), two}, says: way},
		"to different ones":                  {users: []User{naming(one, "shop/web"), naming(two, "shop/other")}, says: way},
		"to another one":                     {users: []User{naming(one, "shop/other")}, says: way},
		"a Service, and what was made of it": {users: []User{naming(svc, "shop/web"), made}, handed: true},
		"a Service that does not":            {users: []User{svc, naming(made, "shop/web")}, says: way},
		"an Ingress that seems to be made":   {users: []User{naming(one, "shop/web"), made}, says: way},
		"who hands over itself":              {users: []User{naming(one, "shop/web")}, gives: "data/web", says: "can't take anything over while it has the annotation"},
		"who has handed it over":             {users: []User{naming(one, "shop/web")}, gives: "blog/one", says: "that it hands it over"},
		"who is being deleted":               {users: []User{naming(one, "shop/web")}, leaves: true, says: "is being deleted"},
		"promised, and still said":           {users: []User{naming(one, "shop/web")}, heir: "shop", to: "earlier", handed: true},
		"promised, and withdrawn":            {users: []User{one}, heir: "shop", to: "earlier", says: way},
		"promised this very object":          {users: []User{one}, heir: "shop", to: "asks", handed: true},
		"what was made of a Service":         {users: []User{naming(one, "shop/web")}, made: true, says: "held by Namespace blog"},
		"promised, and gone":                 {heir: "shop", to: "earlier", handed: true},
		"gone":                               {says: "it is free again in at most 1m0s, try again then"},
		"promised another":                   {users: []User{naming(one, "shop/web")}, heir: "data", to: "asks", says: "which is handing it over to Namespace data"},
	} {
		t.Run(name, func(t *testing.T) {
			c, asks := held("a.own.test", "blog"), naming(using("shop", 2, "a.own.test"), tc.gives)
			p, routes := heldPath("a.test/login", "blog"), []PathUser{serves("shop", 2, "a.test/login")}
			if tc.heir != "" {
				c, p = promisedTo(c, tc.heir, tc.to), promisedTo(p, tc.heir, tc.to)
			}
			asks.UID, asks.Deleting, asks.IsMade = "asks", tc.leaves, tc.made
			routes[0].User = naming(routes[0].User, tc.gives)
			routes[0].UID, routes[0].Deleting, routes[0].IsMade = "asks", tc.leaves, tc.made
			f := &pathFacts{fakeFacts: fakeFacts{
				book: NewBook([]*v1beta1.HostPolicy{policy("own", 1, []string{"*.own.test"}, owns)}), claims: []*v1beta1.EdgeClaim{c, p},
			}}
			for _, u := range tc.users {
				o := using(u.Namespace, 1, "a.own.test")
				u.Names, u.Created = o.Names, o.Created
				f.users = append(f.users, u)
				routes = append(routes, PathUser{User: u, Points: routes[0].Points})
			}
			f.routes = routes[1:] // as long as it is asked
			v, w := Judge(f, &Request{User: asks}, noGrace), JudgePaths(f, &PathRequest{User: routes[0].User, Serves: asksFor(routes[0])}, noGrace)
			for what, v := range map[string]Verdict{"name": v, "path": w} {
				said := ""
				if len(v.Problems) > 0 {
					said = v.Problems[0].Err.Error()
				}
				if (len(v.Problems) == 0) != tc.handed || !strings.Contains(said, tc.says) || len(v.Points) == 0 && !tc.leaves {
					t.Errorf("%s: %d points, %q", what, len(v.Points), said)
				}
			}
			f.users, f.routes = append(f.users, asks), routes
			s := Settle(f, "a.own.test")
			if (s.Enter != nil) != tc.handed || tc.handed && (s.Enter.By.Name != "shop" || s.Enter.By.UID != "asks") {
				t.Errorf("the name is entered: %+v", s.Enter)
			}
			// A path of which nothing is left is the ledger's to hand over.
			enter, _ := SettlePaths(f, "a.test")
			if (len(enter) == 1) != tc.handed || tc.handed && (enter[0].By.Name != "shop" || enter[0].By.UID != "asks") {
				t.Errorf("the path is entered: %+v", enter)
			}
		})
	}
}

// TestHandedOverIsTold has objects go on to use what they have handed over, or have not.
func TestHandedOverIsTold(t *testing.T) {
	f := &pathFacts{fakeFacts: fakeFacts{
		book:   NewBook([]*v1beta1.HostPolicy{policy("own", 1, []string{"*.own.test"}, owns)}),
		claims: []*v1beta1.EdgeClaim{held("a.own.test", "shop"), heldPath("a.test/login", "shop")},
		users: []User{
			using("shop", 3, "a.own.test"), naming(using("blog", 1, "a.own.test"), "shop/web"), naming(using("data", 2, "a.own.test"), "blog/web"),
		},
	}}
	f.routes = []PathUser{serves("shop", 3, "a.test/login"), serves("blog", 1, "a.test/login"), serves("data", 2, "a.test/login")}
	f.routes[1].Heir, f.routes[2].Heir = f.users[1].Heir, f.users[2].Heir
	told := map[string]bool{}
	for _, l := range Settle(f, "a.own.test").Lost {
		told["name "+l.User.Namespace+" "+l.Key()] = l.Given
	}
	_, lost := SettlePaths(f, "a.test")
	for _, l := range lost {
		told["path "+l.User.Namespace+" "+l.Key()] = l.Given
	}
	const name, path = " a.own.test a.own.test Namespace shop", " http/gateway/infra/edge a.test/login Namespace shop"
	want := map[string]bool{"name blog" + name + ", given": true, "name data" + name: false, "path blog" + path + ", given": true, "path data" + path: false}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

// TestPromisesCountAsNames has a namespace that may have one name ask for another, while one is handed over to it.
func TestPromisesCountAsNames(t *testing.T) {
	book := NewBook([]*v1beta1.HostPolicy{policy("own", 1, []string{"*.own.test"}, owns, atMost(1))})
	for _, heir := range []string{"shop", "data"} {
		f := &fakeFacts{book: book, claims: []*v1beta1.EdgeClaim{promisedTo(held("a.own.test", "blog"), heir, "earlier")}}
		v := Judge(f, &Request{User: using("shop", 2, "b.own.test")}, noGrace)
		if refused := len(v.Problems) > 0 && v.Problems[0].Reason == v1beta1.ReasonNamespaceLimitReached; refused != (heir == "shop") {
			t.Errorf("promised to %s: %v", heir, v.Problems)
		}
	}
}

// TestGiven has an object hand over what it has: to a namespace that has its name by now, to one that has not, and within its own.
func TestGiven(t *testing.T) {
	f := &fakeFacts{
		book:   NewBook([]*v1beta1.HostPolicy{policy("own", 1, []string{"*.own.test"}, owns)}),
		claims: []*v1beta1.EdgeClaim{held("a.own.test", "shop"), held("b.own.test", "blog")},
	}
	for heir, want := range map[string][]string{"shop/web": {"a.own.test"}, "data/web": nil, "blog/web": nil, "": nil} {
		u := naming(using("blog", 1, "a.own.test", "b.own.test", "c.own.test", "d.test"), heir)
		if got := Given(f, &u); !slices.Equal(got, want) {
			t.Errorf("handed over to %q: %v, want %v", heir, got, want)
		}
	}
}
