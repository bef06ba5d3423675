package streams

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

func sorted(ports map[stream.PortKey]string) []stream.PortKey {
	return slices.SortedFunc(maps.Keys(ports), stream.ComparePorts)
}

// TestSearch opens ports on a Service whose API server refuses some.
func TestSearch(t *testing.T) {
	for name, tc := range map[string]struct {
		plan    stream.PortPlan
		force   bool
		room    int // 0 is unlimited
		server  server
		open    []stream.PortKey
		refused []stream.PortKey
		calls   int
	}{
		"nothing to do": {},
		"nothing to do but a label": {
			plan: stream.PortPlan{Current: tcpPorts(80)}, force: true, open: tcpPorts(80), calls: 1},
		"all are good": {
			plan: stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81, 22)}, open: tcpPorts(22, 80, 81), calls: 1},
		"the only one is bad": {
			plan: stream.PortPlan{Missing: tcpPorts(81)}, server: server{bad: bad(81)}, refused: tcpPorts(81), calls: 1},
		"one of two is bad": {
			plan: stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81, 82)}, server: server{bad: bad(81)},
			open: tcpPorts(80, 82), refused: tcpPorts(81), calls: 3},
		"one of a thousand is bad": {
			plan: stream.PortPlan{Missing: upTo(1000)}, server: server{bad: bad(700)},
			open: slices.DeleteFunc(upTo(1000), func(p stream.PortKey) bool { return p.Port == 700 }), refused: tcpPorts(700), calls: 21},
		"three of a thousand are bad": {
			plan: stream.PortPlan{Missing: upTo(1000)}, server: server{bad: bad(1, 500, 1000)},
			open: slices.DeleteFunc(upTo(1000), func(p stream.PortKey) bool { return bad(1, 500, 1000)[p] }), refused: tcpPorts(1, 500, 1000), calls: 53},
		"a port goes although another is bad": {
			plan:  stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81), Stale: tcpPorts(79)},
			force: true, server: server{bad: bad(81)}, open: tcpPorts(80), refused: tcpPorts(81), calls: 3},
		"a port comes in the write in which another goes": {
			plan:  stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81), Stale: tcpPorts(79)},
			force: true, open: tcpPorts(80, 81), calls: 1},

		"there is room for some": {
			plan: stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81, 82, 83, 84)}, server: server{room: 3},
			open: tcpPorts(80, 81, 82), refused: tcpPorts(83, 84), calls: 3},
		"there is as much room as it seems": {
			plan: stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81, 82, 83, 84)}, room: 2, server: server{room: 3},
			open: tcpPorts(80, 81, 82), refused: tcpPorts(83, 84), calls: 2},
		"there is less room than it seems": {
			plan: stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81, 82, 83, 84)}, room: 3, server: server{room: 2},
			open: tcpPorts(80, 81), refused: tcpPorts(82, 83, 84), calls: 3},
		"there is more room than it seems": {
			plan: stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81, 82, 83, 84)}, room: 1, server: server{room: 4},
			open: tcpPorts(80, 81, 82, 83), refused: tcpPorts(84), calls: 4},
		"there is room for all, and it seems that there is none": {
			plan: stream.PortPlan{Missing: upTo(1000)}, room: -5, open: upTo(1000), calls: 11},
		"there is no room": {
			plan: stream.PortPlan{Current: tcpPorts(80), Missing: upTo(79)}, room: -5, server: server{room: 1}, refused: upTo(79), calls: 1},
		"there is room for as many as go": {
			plan:  stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81, 82, 83), Stale: tcpPorts(76, 77, 78)},
			force: true, room: -1, server: server{room: 3}, open: tcpPorts(80, 81, 82), refused: tcpPorts(83), calls: 3},
		"there is room for some, and one of them is bad": {
			plan: stream.PortPlan{Missing: tcpPorts(81, 82, 83, 84)}, room: 2, server: server{room: 2, bad: bad(81)},
			open: tcpPorts(82, 83), refused: tcpPorts(81, 84), calls: 5},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.room == 0 {
				tc.room = unlimited
			}
			s := newBisect(tc.room, tc.server.apply)
			if err := s.run(tc.plan, tc.force); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.open, tc.server.open); diff != "" && tc.calls > 0 {
				t.Errorf("open (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.refused, sorted(s.refused)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if tc.server.calls != tc.calls {
				t.Errorf("%d calls, want %d", tc.server.calls, tc.calls)
			}
			if want := len(tc.server.open) - len(tc.plan.Current); tc.server.open != nil && s.opened != want {
				t.Errorf("it counts %d opened ports, want %d", s.opened, want)
			}
			for port, message := range s.refused {
				if tc.server.bad[port] && message != invalid(port).Error() {
					t.Errorf("%s is refused with the words %q", port, message)
				}
			}
		})
	}
}

// TestAFullRangeTakesFewAttempts opens more ports than there is room for, with good and bad estimates.
func TestAFullRangeTakesFewAttempts(t *testing.T) {
	for n := int32(1); n < 3000; n = 2*n + 1 {
		for _, fit := range []int{1, int(n) / 3, int(n) - 1} {
			for _, room := range []int{fit, fit - 1, fit + 1, unlimited, -1} {
				s := server{room: max(fit, 1)}
				found := newBisect(room, s.apply)
				err := found.run(stream.PortPlan{Missing: upTo(n)}, false)
				most := 2*bits.Len(uint(n)) + 1
				if room == fit && fit > 0 {
					most = 2
				}
				if err != nil || s.calls > most || len(s.open) != min(s.room, int(n)) || len(found.refused)+len(s.open) != int(n) {
					t.Errorf("of %d ports %d fit, and it seems that %d do: %d calls, %d open, %d refused, %v",
						n, fit, room, s.calls, len(s.open), len(found.refused), err)
				}
			}
		}
	}
}

// TestWhatMayNotBeOpenedIsNotTried has somebody else hold a port on the address of a Service.
func TestWhatMayNotBeOpenedIsNotTried(t *testing.T) {
	var asked []stream.PortKey
	api := server{room: 2}
	s := newBisect(2, api.apply)
	s.claim = func(ports []stream.PortKey) ([]stream.PortKey, error) {
		asked = append(asked, ports...)
		return slices.DeleteFunc(slices.Clone(ports), func(p stream.PortKey) bool { return p.Port == 81 }), nil
	}
	if err := s.run(stream.PortPlan{Missing: tcpPorts(81, 82, 83, 84, 85)}, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tcpPorts(82, 83), api.open); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tcpPorts(84, 85), sorted(s.refused)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tcpPorts(81, 82, 83, 84, 85), asked); diff != "" {
		t.Error(diff)
	}
}

func TestTheSearchIsBounded(t *testing.T) {
	api := server{bad: map[stream.PortKey]bool{}}
	for _, p := range upTo(5000) {
		api.bad[p] = p.Port%3 == 0
	}
	s := newBisect(unlimited, api.apply)
	err := s.run(stream.PortPlan{Missing: upTo(5000)}, false)
	if err != nil || api.calls > 2*probes || len(s.refused)+len(api.open) != 5000 {
		t.Errorf("%d calls, %d refused, %d open, %v", api.calls, len(s.refused), len(api.open), err)
	}
}

func TestAnErrorIsNoRefusal(t *testing.T) {
	for name, down := range map[string]error{
		"the API server is away":  apierrors.NewServiceUnavailable("away"),
		"the Service has changed": apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "proxy", nil),
	} {
		t.Run(name, func(t *testing.T) {
			api := server{down: down}
			s := newBisect(unlimited, api.apply)
			if err := s.run(stream.PortPlan{Missing: tcpPorts(80, 81)}, true); !errors.Is(err, down) || len(s.refused) > 0 || api.calls != 1 {
				t.Errorf("got %v, %v after %d calls", s.refused, err, api.calls)
			}
		})
	}
}

func TestPortsThatCantBeClosed(t *testing.T) {
	api := server{bad: bad(80)}
	err := newBisect(unlimited, api.apply).run(stream.PortPlan{Current: tcpPorts(80), Stale: tcpPorts(81)}, true)
	var closing *closingError
	if !errors.As(err, &closing) || closing.Error() != invalid(tcpPorts(80)[0]).Error() {
		t.Errorf("got %v", err)
	}
}
