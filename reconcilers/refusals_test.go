package reconcilers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/internal/stream"
)

// TestRefusalsAreRemembered asks again and again about a Service on which port 81 was refused, and where there was room for 82
// and not for 83.
func TestRefusalsAreRemembered(t *testing.T) {
	for name, tc := range map[string]struct {
		after         time.Duration
		class, around string
		missing       []stream.PortKey
		stale         []stream.PortKey
		refused       []stream.PortKey
		others        []stream.PortKey
	}{
		"at once":                      {class: "public", missing: tcpPorts(81), refused: tcpPorts(81)},
		"shortly before a retry":       {after: watch.RefusedRetry - 2*time.Second, class: "public", missing: tcpPorts(81, 83), refused: tcpPorts(81, 83)},
		"at the retry":                 {after: watch.RefusedRetry, class: "public", missing: tcpPorts(81, 83), others: tcpPorts(81, 83)},
		"with another port to open":    {class: "public", missing: tcpPorts(81, 84), refused: tcpPorts(81, 84)},
		"when a port goes":             {class: "public", missing: tcpPorts(81, 83), stale: tcpPorts(82), others: tcpPorts(81, 83)},
		"under new circumstances":      {class: "public", around: "type: NodePort", missing: tcpPorts(81, 83), others: tcpPorts(81, 83)},
		"for another class":            {class: "internal", missing: tcpPorts(81, 83), others: tcpPorts(81, 83)},
		"when nothing of it is wanted": {class: "public"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(noon)
			r, api := newRefusals(clock), server{bad: bad(81), room: 2}
			plan := stream.PortPlan{Standing: tcpPorts(80), Missing: tcpPorts(81, 82, 83)}
			if _, missing := r.recall("public", "", plan); len(missing) != 3 {
				t.Fatal(missing)
			}
			s := newSearch(unlimited, api.apply)
			if err := s.run(plan, false); err != nil {
				t.Fatal(err)
			}
			r.remember("public", s)
			clock.SetTime(noon.Add(tc.after))
			refused, others := r.recall(tc.class, tc.around, stream.PortPlan{Missing: tc.missing, Stale: tc.stale})
			if diff := cmp.Diff(tc.refused, sorted(refused)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.others, others); diff != "" {
				t.Errorf("others (-want +got):\n%s", diff)
			}
			for port, words := range refused {
				if (words == invalid(port).Error()) != (port.Port == 81) {
					t.Errorf("%s is refused with the words %q", port, words)
				}
			}
		})
	}
}

// TestOneBadPortKeepsNoOtherFromBeingTried remembers a port that is bad, where there is room.
func TestOneBadPortKeepsNoOtherFromBeingTried(t *testing.T) {
	r, api := newRefusals(clocktesting.NewFakePassiveClock(noon)), server{bad: bad(81)}
	plan := stream.PortPlan{Missing: tcpPorts(81, 82)}
	r.recall("public", "", plan)
	s := newSearch(unlimited, api.apply)
	if err := s.run(plan, false); err != nil {
		t.Fatal(err)
	}
	r.remember("public", s)
	refused, others := r.recall("public", "", stream.PortPlan{Missing: tcpPorts(81, 83)})
	if diff := cmp.Diff(tcpPorts(81), sorted(refused)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tcpPorts(83), others); diff != "" {
		t.Error(diff)
	}
	r.forget("public")
	if _, others := r.recall("public", "", plan); len(others) != 2 {
		t.Errorf("it remembers all but %v", others)
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

func TestIsFull(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no node ports are left":  {apierrors.NewInternalError(errors.New("failed to allocate a nodePort: range is full")), true},
		"a quota is used up":      {apierrors.NewForbidden(services, "proxy", errors.New("exceeded quota: few, requested: services.nodeports=1")), true},
		"too large for etcd":      {errors.New("etcdserver: request is too large"), true},
		"too large a request":     {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		"forbidden":               {apierrors.NewForbidden(services, "proxy", errors.New("no")), false},
		"invalid":                 {invalid(tcpPorts(80)[0]), false},
		"no addresses are left":   {apierrors.NewInternalError(errors.New("failed to allocate a serviceIP: range is exhausted")), false},
		"a node port that is not": {apierrors.NewInvalid(serviceKind, "proxy", field.ErrorList{field.Invalid(nil, 1, "provided port is not in the valid range")}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isFull(tc.err); got != tc.want {
				t.Errorf("got %v for %v", got, tc.err)
			}
		})
	}
}
