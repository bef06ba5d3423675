package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// lines are what is logged, one after the other.
type lines chan string

// Write is called with one line.
func (l lines) Write(text []byte) (int, error) {
	l <- string(text)
	return len(text), nil
}

// refusing is an API server that takes no event.
type refusing struct{ answer error }

func (r *refusing) Create(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, r.answer
}
func (r *refusing) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, r.answer
}
func (r *refusing) Patch(context.Context, *eventsv1.Event, []byte) (*eventsv1.Event, error) {
	return nil, r.answer
}

// answers are what an API server says to an event, and whether somebody has to be told.
func answers() map[string]struct {
	err  error
	told bool
} {
	resource := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	terminating := apierrors.NewForbidden(resource, "e", errors.New("namespace shop is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return map[string]struct {
		err  error
		told bool
	}{
		"the namespace goes":    {terminating, false},
		"the namespace is gone": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), false},
		"a role is missing":     {apierrors.NewForbidden(resource, "e", errors.New("no RBAC policy matched")), true},
		"a quota is full":       {apierrors.NewForbidden(resource, "e", errors.New("exceeded quota")), true},
		"the event is invalid":  {apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "e", nil), true},
	}
}

// entry is what a line says.
type entry struct{ Level, Logger, Error, Stacktrace string }

func read(t *testing.T, line string) (e entry) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return e
}

// TestRefusedEvents holds what client-go has logged of events that the API server refuses: that one whose namespace goes is no error.
func TestRefusedEvents(t *testing.T) {
	for name, answer := range answers() {
		t.Run(name, func(t *testing.T) {
			told := make(lines, 10)
			o := defaults()
			zap.Level(zapcore.DebugLevel)(&o.zap)
			zap.WriteTo(told)(&o.zap)
			logger := o.logger().WithName(eventsLogger)
			broadcaster := events.NewBroadcaster(&refusing{answer: answer.err})
			if err := broadcaster.StartRecordingToSinkWithContext(logr.NewContext(t.Context(), logger)); err != nil {
				t.Fatal(err)
			}
			defer broadcaster.Shutdown()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
			broadcaster.NewRecorder(newScheme(), "portcullis").Eventf(pod, nil, corev1.EventTypeNormal, "Reason", "Action", "note")
			got := read(t, <-told)
			if got.Error != answer.err.Error() || (got.Level == "error") != answer.told || (got.Stacktrace != "") != answer.told {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestWhatIsLogged holds that nothing of an event whose namespace goes is logged unless somebody debugs, and that reconcilers, which would try
// again, still tell of the same answer.
func TestWhatIsLogged(t *testing.T) {
	for name, answer := range answers() {
		var out bytes.Buffer
		o := defaults()
		zap.WriteTo(&out)(&o.zap)
		logger := o.logger()
		logger.WithName(eventsLogger).WithValues("a", "b").Error(answer.err, "refused")
		if told := strings.Contains(out.String(), `"level":"error","ts"`); told != answer.told || !told && out.Len() > 0 {
			t.Errorf("%s: logged of an event: %q", name, out.String())
		}
		out.Reset()
		logger.WithName("other").Error(answer.err, "refused")
		if got := read(t, out.String()); got.Level != "error" || got.Stacktrace == "" {
			t.Errorf("%s: logged of something else: %q", name, out.String())
		}
	}
}
