package reconcilers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

func tcpPorts(numbers ...int32) []stream.PortKey {
	var keys []stream.PortKey
	for _, n := range numbers {
		keys = append(keys, stream.PortKey{Protocol: v1beta1.TCP, Port: n})
	}
	return keys
}

func upTo(last int32) []stream.PortKey {
	var keys []stream.PortKey
	for n := int32(1); n <= last; n++ {
		keys = append(keys, stream.PortKey{Protocol: v1beta1.TCP, Port: n})
	}
	return keys
}

var serviceKind = schema.GroupKind{Kind: "Service"}

func invalid(port stream.PortKey) error {
	return apierrors.NewInvalid(serviceKind, "proxy", field.ErrorList{field.Invalid(field.NewPath("spec", "ports"), port.Port, "is bad")})
}

// server is an API server that refuses bad ports on a Service, and more ports than it has room for.
type server struct {
	bad   map[stream.PortKey]bool
	room  int
	down  error
	calls int
	open  []stream.PortKey
}

func (s *server) apply(ports []stream.PortKey) error {
	s.calls++
	if s.down != nil {
		return s.down
	}
	if !slices.IsSortedFunc(ports, stream.ComparePorts) {
		return fmt.Errorf("not in order: %v", ports)
	}
	for _, p := range ports {
		if s.bad[p] {
			return invalid(p)
		}
	}
	if s.room > 0 && len(ports) > s.room {
		return apierrors.NewInternalError(errors.New("failed to allocate a nodePort: range is full"))
	}
	s.open = slices.Clone(ports)
	return nil
}

func bad(ports ...int32) map[stream.PortKey]bool {
	all := map[stream.PortKey]bool{}
	for _, p := range tcpPorts(ports...) {
		all[p] = true
	}
	return all
}

// TestOpen opens ports on a Service whose API server refuses some.
func TestOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		plan    stream.PortPlan
		force   bool
		server  server
		open    []stream.PortKey
		refused []stream.PortKey
		calls   int
	}{
		"nothing to do": {},
		"nothing to do but a label": {
			plan: stream.PortPlan{Standing: tcpPorts(80)}, force: true, open: tcpPorts(80), calls: 1},
		"all are good": {
			plan: stream.PortPlan{Standing: tcpPorts(80), Missing: tcpPorts(81, 22)}, open: tcpPorts(22, 80, 81), calls: 1},
		"the only one is bad": {
			plan: stream.PortPlan{Missing: tcpPorts(81)}, server: server{bad: bad(81)}, refused: tcpPorts(81), calls: 1},
		"one of two is bad": {
			plan: stream.PortPlan{Standing: tcpPorts(80), Missing: tcpPorts(81, 82)}, server: server{bad: bad(81)},
			open: tcpPorts(80, 82), refused: tcpPorts(81), calls: 3},
		"one of a thousand is bad": {
			plan: stream.PortPlan{Missing: upTo(1000)}, server: server{bad: bad(700)},
			open: slices.DeleteFunc(upTo(1000), func(p stream.PortKey) bool { return p.Port == 700 }), refused: tcpPorts(700), calls: 21},
		"three of a thousand are bad": {
			plan: stream.PortPlan{Missing: upTo(1000)}, server: server{bad: bad(1, 500, 1000)},
			open: slices.DeleteFunc(upTo(1000), func(p stream.PortKey) bool { return bad(1, 500, 1000)[p] }), refused: tcpPorts(1, 500, 1000), calls: 53},
		"there is room for some": {
			plan: stream.PortPlan{Standing: tcpPorts(80), Missing: tcpPorts(81, 82, 83, 84)}, server: server{room: 3},
			open: tcpPorts(80, 81, 82), refused: tcpPorts(83, 84), calls: 5},
		"a port goes although another is bad": {
			plan:  stream.PortPlan{Standing: tcpPorts(80), Missing: tcpPorts(81), Stale: tcpPorts(79)},
			force: true, server: server{bad: bad(81)}, open: tcpPorts(80), refused: tcpPorts(81), calls: 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRefusals(clocktesting.NewFakePassiveClock(noon))
			refused, err := r.open("public", "", tc.plan, tc.force, tc.server.apply)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.open, tc.server.open); diff != "" {
				t.Errorf("open (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.refused, slices.SortedFunc(maps.Keys(refused), stream.ComparePorts)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if tc.server.calls != tc.calls {
				t.Errorf("%d calls, want %d", tc.server.calls, tc.calls)
			}
			for port, message := range refused {
				if tc.server.bad[port] && message != invalid(port).Error() {
					t.Errorf("%s is refused with the words %q", port, message)
				}
			}
		})
	}
}

func TestTheSearchIsBounded(t *testing.T) {
	s := server{bad: map[stream.PortKey]bool{}}
	for _, p := range upTo(5000) {
		s.bad[p] = p.Port%3 == 0
	}
	refused, err := newRefusals(clocktesting.NewFakePassiveClock(noon)).open("public", "", stream.PortPlan{Missing: upTo(5000)}, false, s.apply)
	if err != nil || s.calls > 2*probes || len(refused)+len(s.open) != 5000 {
		t.Errorf("%d calls, %d refused, %d open, %v", s.calls, len(refused), len(s.open), err)
	}
}

func TestAnErrorIsNoRefusal(t *testing.T) {
	for name, down := range map[string]error{
		"the API server is away":  apierrors.NewServiceUnavailable("away"),
		"the Service has changed": apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "proxy", nil),
	} {
		t.Run(name, func(t *testing.T) {
			r, s := newRefusals(clocktesting.NewFakePassiveClock(noon)), server{down: down}
			refused, err := r.open("public", "", stream.PortPlan{Missing: tcpPorts(80, 81)}, true, s.apply)
			if !errors.Is(err, down) || refused != nil || s.calls != 1 {
				t.Errorf("got %v, %v after %d calls", refused, err, s.calls)
			}
			if refused, others := r.recall("public", tcpPorts(80)); len(refused) != 0 || len(others) != 1 {
				t.Errorf("it remembers %v", refused)
			}
		})
	}
}

// TestRefusalsAreRemembered looks again and again at a Service on which one port is bad.
func TestRefusalsAreRemembered(t *testing.T) {
	bothMissing := stream.PortPlan{Standing: tcpPorts(80), Missing: tcpPorts(81, 82)}
	oneMissing := stream.PortPlan{Standing: tcpPorts(80, 82), Missing: tcpPorts(81)}
	for name, tc := range map[string]struct {
		after         time.Duration
		class, around string
		plan          stream.PortPlan
		force         bool
		calls         int
		refused       []stream.PortKey
	}{
		"at once":                {class: "public", plan: oneMissing, refused: tcpPorts(81)},
		"shortly before a retry": {after: refusedRetry - 2*time.Second, class: "public", plan: oneMissing, refused: tcpPorts(81)},
		"at the retry":           {after: refusedRetry, class: "public", plan: oneMissing, calls: 1, refused: tcpPorts(81)},
		"with another port to open": {
			class: "public", plan: stream.PortPlan{Standing: tcpPorts(80, 82), Missing: tcpPorts(81, 83)}, calls: 1, refused: tcpPorts(81)},
		"with something else to apply": {class: "public", plan: oneMissing, force: true, calls: 1, refused: tcpPorts(81)},
		"when a port goes": {
			class: "public", plan: stream.PortPlan{Standing: tcpPorts(80), Missing: tcpPorts(81), Stale: tcpPorts(82)}, force: true,
			calls: 3, refused: tcpPorts(81)},
		"under new circumstances": {class: "public", around: "type: NodePort", plan: oneMissing, calls: 1, refused: tcpPorts(81)},
		"for another class":       {class: "internal", plan: oneMissing, calls: 1, refused: tcpPorts(81)},
		"when it is not wanted":   {class: "public", plan: stream.PortPlan{Standing: tcpPorts(80, 82)}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(noon)
			r, s := newRefusals(clock), server{bad: bad(81)}
			if _, err := r.open("public", "", bothMissing, false, s.apply); err != nil || s.calls != 3 {
				t.Fatalf("%d calls, %v", s.calls, err)
			}
			s.calls = 0
			clock.SetTime(noon.Add(tc.after))
			refused, err := r.open(tc.class, tc.around, tc.plan, tc.force, s.apply)
			if err != nil || s.calls != tc.calls {
				t.Errorf("%d calls, want %d, %v", s.calls, tc.calls, err)
			}
			if diff := cmp.Diff(tc.refused, slices.SortedFunc(maps.Keys(refused), stream.ComparePorts)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIsRefusal(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"invalid":                {invalid(tcpPorts(80)[0]), true},
		"invalid, wrapped":       {fmt.Errorf("applying: %w", invalid(tcpPorts(80)[0])), true},
		"forbidden":              {apierrors.NewForbidden(services, "proxy", errors.New("no")), true},
		"a bad request":          {apierrors.NewBadRequest("no"), true},
		"a namespace is missing": {apierrors.NewNotFound(services, "proxy"), true},
		"too large a request":    {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		"too large for etcd":     {errors.New("etcdserver: request is too large"), true},
		"too large for gRPC":     {errors.New("rpc error: trying to send message larger than max (2233 vs. 2097)"), true},
		"no node ports are left": {apierrors.NewInternalError(errors.New("failed to allocate a nodePort: range is full")), true},
		"another internal error": {apierrors.NewInternalError(errors.New("boom")), false},
		"somebody was faster":    {apierrors.NewConflict(services, "proxy", nil), false},
		"it exists already":      {apierrors.NewAlreadyExists(services, "proxy"), false},
		"too many requests":      {apierrors.NewTooManyRequestsError("wait"), false},
		"a timeout":              {apierrors.NewTimeoutError("late", 1), false},
		"not available":          {apierrors.NewServiceUnavailable("away"), false},
		"no words of the server": {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isRefusal(tc.err); got != tc.want {
				t.Errorf("got %v for %v", got, tc.err)
			}
		})
	}
}
