package write

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// badPort is the API server's refusal of a port of a Service.
var badPort = apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "proxy", field.ErrorList{
	field.Invalid(field.NewPath("spec", "ports"), 80, "is bad"),
})

func TestIsRefusal(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"invalid":                {badPort, true},
		"invalid, wrapped":       {fmt.Errorf("applying: %w", badPort), true},
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
			if got := IsRefusal(tc.err); got != tc.want {
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
		"invalid":                 {badPort, false},
		"no health check is left": {apierrors.NewInternalError(errors.New("failed to allocate a HealthCheck NodePort 0: range is full")), true},
		"no addresses are left":   {apierrors.NewInternalError(errors.New(`failed to allocate a serviceIP for Service "x": range is full`)), false},
		"a node port that is not": {apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "proxy", field.ErrorList{field.Invalid(nil, 1, "provided port is not in the valid range")}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsFull(tc.err); got != tc.want {
				t.Errorf("got %v for %v", got, tc.err)
			}
		})
	}
}
