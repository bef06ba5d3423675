package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var definitionResource = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// definitionsOf is an API server that knows CustomResourceDefinitions.
type definitionsOf struct {
	client.Reader
	created  map[string]time.Time
	deleting map[string]bool
	err      error
	asked    int
}

func (d *definitionsOf) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	d.asked++
	plural, _, _ := strings.Cut(key.Name, ".nginx-stream.jeffthecoder.xyz")
	created, there := d.created[plural]
	switch {
	case d.err != nil:
		return d.err
	case !there:
		return apierrors.NewNotFound(definitionResource, key.Name)
	}
	obj.SetCreationTimestamp(metav1.NewTime(created))
	if d.deleting[plural] {
		obj.SetDeletionTimestamp(&metav1.Time{Time: created})
	}
	return nil
}

func allDefined(at time.Time) map[string]time.Time {
	created := map[string]time.Time{}
	for i, plural := range definitions {
		created[plural] = at.Add(-time.Duration(i) * time.Hour)
	}
	return created
}

// TestKinds asks for the kinds when each of them, in turn, is being deleted or gone, and when they can't be asked for.
func TestKinds(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	check := func(server *definitionsOf) (time.Time, error) {
		return NewKinds(server, funcr.New(func(string, string) {}, funcr.Options{})).Check(t.Context())
	}
	uninstalling := func(err error) bool {
		var e *UninstallingError
		return errors.As(err, &e)
	}
	if since, err := check(&definitionsOf{created: allDefined(noon)}); err != nil || !since.Equal(noon) {
		t.Errorf("with all kinds since noon it is %v, %v", since, err)
	}
	for _, plural := range definitions {
		server := &definitionsOf{created: allDefined(noon), deleting: map[string]bool{plural: true}}
		if _, err := check(server); !uninstalling(err) || !strings.Contains(err.Error(), plural) {
			t.Errorf("while %s are being deleted: %v", plural, err)
		}
		delete(server.created, plural)
		if _, err := check(server); !uninstalling(err) || !strings.Contains(err.Error(), plural) {
			t.Errorf("without %s: %v", plural, err)
		}
	}
	for _, err := range []error{
		apierrors.NewForbidden(definitionResource, "edgeclaims", errors.New("no role")), apierrors.NewUnauthorized("no account"),
	} {
		if _, got := check(&definitionsOf{err: err}); !uninstalling(got) {
			t.Errorf("%v is taken for %v", err, got)
		}
	}
	away := errors.New("the API server is away")
	if _, err := check(&definitionsOf{err: away}); !errors.Is(err, away) || uninstalling(err) {
		t.Errorf("not to know is told as %v", err)
	}
}

// TestKindsAreRemembered: that Portcullis is being uninstalled is asked for and told rarely, that it is not is asked for
// anew each time.
func TestKindsAreRemembered(t *testing.T) {
	var told []string
	server := &definitionsOf{created: allDefined(time.Unix(1000, 0))}
	clock := clocktesting.NewFakePassiveClock(time.Unix(2000, 0))
	k := NewKinds(server, funcr.New(func(_, args string) { told = append(told, args) }, funcr.Options{}))
	k.clock = clock
	expect := func(here bool, asked, lines int) {
		t.Helper()
		if _, err := k.Check(t.Context()); (err == nil) != here || server.asked != asked || len(told) != lines {
			t.Errorf("got %v after %d requests, want %v after %d; told: %q", err, server.asked, here, asked, told)
		}
	}
	expect(true, 5, 0)
	expect(true, 10, 0)
	server.deleting = map[string]bool{"addresspools": true}
	expect(false, 11, 1)
	expect(false, 11, 1)
	clock.SetTime(clock.Now().Add(goneFor))
	expect(false, 12, 1)
	server.deleting = nil
	expect(false, 12, 1)
	clock.SetTime(clock.Now().Add(goneFor))
	expect(true, 17, 2)
	expect(true, 22, 2)
}

// TestKindsThatMayNotBeAskedFor: rights that go with the rest are no error, rights that are missed for long are one.
func TestKindsThatMayNotBeAskedFor(t *testing.T) {
	denied := apierrors.NewForbidden(definitionResource, "edgeclaims", errors.New("no role"))
	server := &definitionsOf{created: allDefined(time.Unix(1000, 0)), err: denied}
	clock := clocktesting.NewFakePassiveClock(time.Unix(2000, 0))
	k := NewKinds(server, funcr.New(func(string, string) {}, funcr.Options{}))
	k.clock = clock
	expect := func(after time.Duration, uninstalling, fails bool) {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		_, err := k.Check(t.Context())
		var e *UninstallingError
		if errors.As(err, &e) != uninstalling || (err != nil) != fails || fails && !uninstalling && !errors.Is(err, denied) {
			t.Errorf("got %v", err)
		}
	}
	expect(0, true, true)
	expect(deniedFor-time.Second, true, true)
	expect(goneFor, false, true)
	expect(time.Hour, false, true)
	server.err = nil
	expect(time.Second, false, false)
	server.err = denied
	expect(time.Hour, true, true)
}
