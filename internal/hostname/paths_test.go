package hostname

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
)

// pathFacts are routes and claims on paths in memory.
type pathFacts struct {
	fakeFacts
	routes []PathUser
	// asked is how often all routes were asked for, had how often a namespace's with some paths were, and served with one.
	asked, had, served int
}

func (f *pathFacts) IsPathServed(namespace string, at claim.Coordinate) bool {
	f.served++
	return slices.ContainsFunc(f.routes, func(u PathUser) bool {
		return u.Namespace == namespace && slices.ContainsFunc(u.Points, func(p guard.PathPoint) bool { return p.At == at })
	})
}

func (f *pathFacts) Having(namespace string, at claim.Coordinate) []User {
	if !at.IsRoutePath() {
		return f.fakeFacts.Having(namespace, at)
	}
	return servedBy(f.routes).Having(namespace, at)
}

func (f *pathFacts) HavingPaths(namespace string, points []claim.Coordinate) map[claim.Coordinate][]User {
	having := map[claim.Coordinate][]User{}
	f.had++
	for _, at := range points {
		having[at] = f.Having(namespace, at)
	}
	return having
}

func (f *pathFacts) Serving(points []claim.Coordinate) (users []PathUser) {
	f.asked++
	return slices.DeleteFunc(slices.Clone(f.routes), func(u PathUser) bool {
		return !slices.ContainsFunc(u.Points, func(p guard.PathPoint) bool { return slices.Contains(points, p.At) })
	})
}

func (f *pathFacts) PathUsers(host string) (users []PathUser) {
	for _, u := range f.routes {
		on := PathUser{User: u.User}
		for _, p := range u.Points {
			if p.At.Host() == host {
				on.Points = append(on.Points, p)
			}
		}
		if len(on.Points) > 0 {
			users = append(users, on)
		}
	}
	return users
}

var edge = types.NamespacedName{Namespace: "infra", Name: "edge"}

// pathPoint is a path of the Gateway, a.test/login for instance.
func pathPoint(point string) claim.Coordinate {
	slash := strings.IndexByte(point, '/')
	return claim.HTTP(point[:slash], point[slash:]).OnGateway(edge)
}

// serves is a route of a namespace that serves paths.
func serves(namespace string, hour int, points ...string) PathUser {
	u := PathUser{User: User{
		Holder: claim.RouteHolder("HTTPRoute", namespace, "web"), UID: types.UID(namespace), Version: "7", Created: start.Add(time.Duration(hour) * time.Hour),
	}}
	for _, point := range points {
		u.Points = append(u.Points, guard.PathPoint{At: pathPoint(point)})
	}
	return u
}

// asksFor is what a route serves that serves each of some paths on each host of them, in their order.
func asksFor(u PathUser) (s guard.Served) {
	for _, p := range u.Points {
		if !slices.ContainsFunc(s.Hosts, func(h guard.ServedHost) bool { return h.Host == p.At.Host() }) {
			s.Hosts = append(s.Hosts, guard.ServedHost{On: edge, Host: p.At.Host()})
		}
		if !slices.ContainsFunc(s.Paths, func(o guard.RoutePath) bool { return o.Path == p.At.Path() }) {
			s.Paths = append(s.Paths, guard.RoutePath{Path: p.At.Path()})
		}
	}
	return s
}

// heldPath is the claim of a namespace on a path.
func heldPath(point, namespace string) *v1beta1.EdgeClaim {
	c := claim.New(pathPoint(point), claim.Claimant{Holder: claim.NamespaceHolder(namespace)})
	c.CreationTimestamp = metav1.NewTime(start)
	return c
}

type heldPaths []*v1beta1.EdgeClaim

// TestJudgePaths asks for paths beside those that others have.
func TestJudgePaths(t *testing.T) {
	var many []string
	for i := range exposure.MostEntries + 1 {
		many = append(many, fmt.Sprintf("a.test/%d", i))
	}
	owned := make([]string, 0, len(many))
	for i := range exposure.MostEntries / 4 {
		for _, host := range []string{"a", "b", "c", "d"} {
			owned = append(owned, fmt.Sprintf("%s.own.test/%d", host, i))
		}
	}
	owned = append(owned, "a.test/0")
	const tooMany = "spec.rules: Too many: 1025: a route may have at most 1024 hosts and paths on all Gateways together, and host names of " +
		"listeners count: spread them over several"
	const at, rest = "spec.rules[0].matches[0][]: Duplicate value: ", "; choose another host or path"
	const way = "; or have it handed over: all objects of namespace blog that serve it need the annotation " +
		"nginx-stream.jeffthecoder.xyz/hand-over-to: shop/web for that"
	for name, tc := range map[string]struct {
		claims heldPaths
		routes []PathUser
		asks   PathUser
		before []string
		want   string
		points int
	}{
		"a free path":       {asks: serves("shop", 2, "a.test/login", "a.test/"), points: 2},
		"its namespace's":   {claims: heldPaths{heldPath("a.test/login", "shop")}, routes: []PathUser{serves("shop", 1, "a.test/login")}, asks: serves("shop", 2, "a.test/login"), points: 1},
		"another path":      {claims: heldPaths{heldPath("a.test/login", "blog")}, routes: []PathUser{serves("blog", 1, "a.test/login")}, asks: serves("shop", 2, "a.test/login/help", "b.test/login/help"), points: 2},
		"another's":         {claims: heldPaths{heldPath("a.test/login", "blog")}, routes: []PathUser{serves("blog", 1, "a.test/login")}, asks: serves("shop", 2, "a.test/", "a.test/login"), points: 2, want: at + `"a.test/login": path /login on host a.test of Gateway infra/edge is held by Namespace blog since 2026-11-01T12:00:00Z` + rest + way},
		"another's promise": {claims: heldPaths{heldPath("a.test/login", "blog")}, asks: serves("shop", 2, "a.test/login"), points: 1, want: at + `"a.test/login": path /login on host a.test of Gateway infra/edge is held for Namespace blog, which is not stored or no longer asks for it; it is free again in at most 1m0s, try again then` + rest},
		"another's without a claim": {routes: []PathUser{serves("blog", 1, "a.test/login")}, asks: serves("shop", 2, "a.test/login"), points: 1,
			want: at + `"a.test/login": path /login on host a.test of Gateway infra/edge is held by Namespace blog since 2026-11-01T13:00:00Z` + rest + way},
		"its namespace's without a claim, which is older": {routes: []PathUser{serves("blog", 3, "a.test/login"), serves("shop", 1, "a.test/login")}, asks: serves("shop", 4, "a.test/login"), points: 1},
		"what stands":                             {claims: heldPaths{heldPath("a.test/login", "blog")}, asks: serves("shop", 2, "a.test/login", "a.test/more"), before: []string{"a.test/login"}, points: 1},
		"a host of one namespace":                 {claims: heldPaths{heldPath("x.own.test/login", "blog")}, asks: serves("shop", 2, "x.own.test/login")},
		"so many, of which the first are claimed": {asks: serves("shop", 2, many[:exposure.MostEntries]...), points: 256},
		"the last of so many": {claims: heldPaths{heldPath("a.test/1023", "blog")}, routes: []PathUser{serves("blog", 1, "a.test/1023")}, asks: serves("shop", 2, many[:exposure.MostEntries]...), points: 256,
			want: at + `"a.test/1023": path /1023 on host a.test of Gateway infra/edge is held by Namespace blog since 2026-11-01T12:00:00Z` + rest + way},
		"too many":                  {asks: serves("shop", 2, many...), want: tooMany},
		"too many with what it has": {asks: serves("shop", 2, many...), before: many[:exposure.MostEntries], want: tooMany},
		"too many, which it has":    {asks: serves("shop", 2, many...), before: many},
		"some of too many":          {claims: heldPaths{heldPath("a.test/1024", "blog")}, asks: serves("shop", 2, many[1:]...), before: many},
		"one more beside those of hosts that are one's": {asks: serves("shop", 2, owned...), before: owned[:exposure.MostEntries], want: tooMany},
	} {
		t.Run(name, func(t *testing.T) {
			f := &pathFacts{fakeFacts: fakeFacts{book: NewBook([]*v1beta1.HostPolicy{policy("own", 0, []string{"*.own.test"}, owns)}), claims: tc.claims}, routes: tc.routes}
			r := &PathRequest{User: tc.asks.User, Serves: asksFor(tc.asks), Before: asksFor(serves("shop", 2, tc.before...))}
			v := JudgePaths(f, r, noGrace)
			var got string
			if len(v.Problems) > 0 {
				got = v.Problems[0].Err.Error()
			}
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, "1025", fmt.Sprint(r.Serves.Total())), got); diff != "" || len(v.Points) != tc.points || len(v.Problems) > 1 {
				t.Errorf("%d points, %d problems: %s", len(v.Points), len(v.Problems), diff)
			}
			r.Deleting = true
			if v := JudgePaths(f, r, noGrace); (len(v.Problems) > 0) != (tc.points > 0 || tc.want != "") {
				t.Errorf("as it is being deleted it is told %v", v.Problems)
			}
		})
	}
}

// TestJudgePathsAsksLittle has others make any number of routes on hosts of which a route asks for many: who has a claim is known without a
// look at them, and of what nobody has, one look is all.
func TestJudgePathsAsksLittle(t *testing.T) {
	f := &pathFacts{fakeFacts: fakeFacts{book: NewBook(nil)}}
	var points, held []string
	for i := range 20 {
		for _, path := range []string{"/a", "/b", "/c"} {
			points = append(points, fmt.Sprintf("%d.test%s", i, path))
		}
		held = append(held, fmt.Sprintf("%d.test/b", i))
	}
	f.routes = []PathUser{serves("blog", 1, held...)}
	asks := func(u PathUser) *PathRequest { return &PathRequest{User: u.User, Serves: asksFor(u)} }
	r := asks(serves("shop", 2, points...))
	if v := JudgePaths(f, r, noGrace); len(v.Problems) != mostProblems || f.asked != 1 || f.served != 0 {
		t.Errorf("without claims: %d problems, asked for %d times, and %d times for one namespace's", len(v.Problems), f.asked, f.served)
	}
	f.asked = 0
	if v := JudgePaths(f, asks(serves("blog", 2, points...)), noGrace); len(v.Problems) > 0 || f.asked != 1 {
		t.Errorf("who has them itself is told %v, and asked for is %d times", v.Problems, f.asked)
	}
	f.asked = 0
	for _, point := range held {
		f.claims = append(f.claims, heldPath(point, "blog"))
	}
	if v := JudgePaths(f, r, noGrace); len(v.Problems) != mostProblems || f.asked > 0 || f.served != mostProblems || f.had != 1 {
		t.Errorf("with claims: %d problems, asked for %d times, and %d and %d times for one namespace's", len(v.Problems), f.asked, f.had, f.served)
	}
}

// BenchmarkSettlePaths looks at a host of which many routes of one namespace serve many paths that this has: what it costs for each path
// must not grow with their number.
func BenchmarkSettlePaths(b *testing.B) {
	for _, routes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("routes=%d", routes), func(b *testing.B) {
			f := manyPaths{&pathFacts{fakeFacts: fakeFacts{book: NewBook(nil)}}, map[string]*v1beta1.EdgeClaim{}}
			for i := range routes {
				u := serves("shop", i)
				for j := range 20 {
					at := pathPoint(fmt.Sprintf("a.test/%d/%d", i, j))
					u.Points = append(u.Points, guard.PathPoint{At: at})
					f.byName[at.Name()] = claim.New(at, claim.Claimant{Holder: claim.NamespaceHolder("shop")})
				}
				f.routes = append(f.routes, u)
			}
			for b.Loop() {
				if enter, lost := SettlePaths(f, "a.test"); len(enter)+len(lost) > 0 {
					b.Fatalf("%d entered and %d lost", len(enter), len(lost))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*routes*20), "ns/path")
		})
	}
}

// manyPaths are facts with very many claims.
type manyPaths struct {
	*pathFacts
	byName map[string]*v1beta1.EdgeClaim
}

func (f manyPaths) Claim(name string) *v1beta1.EdgeClaim { return f.byName[name] }

// TestSettlePaths has routes stand beside each other.
func TestSettlePaths(t *testing.T) {
	for name, tc := range map[string]struct {
		claims heldPaths
		routes []PathUser
		enter  string
		lost   string
	}{
		"nobody":               {},
		"one":                  {routes: []PathUser{serves("shop", 1, "a.test/", "a.test/login", "b.test/")}, enter: "a.test/ shop, a.test/login shop"},
		"the oldest":           {routes: []PathUser{serves("shop", 2, "a.test/"), serves("blog", 1, "a.test/")}, enter: "a.test/ blog", lost: "shop: path / on host a.test of Gateway infra/edge is held by Namespace blog"},
		"of one age, by name":  {routes: []PathUser{serves("shop", 1, "a.test/"), serves("blog", 1, "a.test/")}, enter: "a.test/ blog", lost: "shop: path / on host a.test of Gateway infra/edge is held by Namespace blog"},
		"who has a claim":      {claims: heldPaths{heldPath("a.test/", "shop")}, routes: []PathUser{serves("shop", 2, "a.test/"), serves("blog", 1, "a.test/", "a.test/b")}, enter: "a.test/b blog", lost: "blog: path / on host a.test of Gateway infra/edge is held by Namespace shop since 2026-11-01T12:00:00Z"},
		"who is about to go":   {claims: heldPaths{heldPath("a.test/", "shop")}, routes: []PathUser{serves("blog", 1, "a.test/")}},
		"beside each other":    {routes: []PathUser{serves("shop", 2, "a.test/1"), serves("blog", 1, "a.test/2")}, enter: "a.test/2 blog, a.test/1 shop"},
		"one's own twice":      {routes: []PathUser{serves("shop", 2, "a.test/"), serves("shop", 1, "a.test/")}, enter: "a.test/ shop"},
		"a host of one of all": {routes: []PathUser{serves("shop", 2, "a.own.test/")}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &pathFacts{fakeFacts: fakeFacts{book: NewBook([]*v1beta1.HostPolicy{policy("own", 0, []string{"*.own.test"}, owns)}), claims: tc.claims}, routes: tc.routes}
			host := "a.test"
			if strings.Contains(name, "a host of one") {
				host = "a.own.test"
			}
			enter, lost := SettlePaths(f, host)
			var entered, told []string
			for _, e := range enter {
				entered = append(entered, e.At.Point()+" "+e.By.Name)
				if e.By.Generation != 7 || e.By.For.Namespace != e.By.Name || !e.By.IsNamespace() {
					t.Errorf("it is entered for %+v", e.By)
				}
			}
			for _, l := range lost {
				told = append(told, l.User.Namespace+": "+l.String())
			}
			if diff := cmp.Diff([]string{tc.enter, tc.lost}, []string{strings.Join(entered, ", "), strings.Join(told, ", ")}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
