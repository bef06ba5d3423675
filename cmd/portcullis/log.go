package main

import (
	"slices"

	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// logger logs as the flags say.
func (o *options) logger() logr.Logger {
	quiet := uberzap.WrapCore(func(core zapcore.Core) zapcore.Core { return quietEvents{core} })
	return zap.New(zap.UseFlagOptions(&o.zap), zap.RawZapOpts(quiet))
}

// eventsLogger is the name under which the manager has client-go log which events the API server refuses.
const eventsLogger = "events"

// quietEvents has an event that nobody can be told, because its namespace goes or is gone, logged for who debugs, and without a stack:
// whoever deletes a namespace has done nothing wrong, and neither has Portcullis. All other refusals stay errors.
type quietEvents struct{ zapcore.Core }

// With keeps the core quiet with further fields.
func (q quietEvents) With(fields []zapcore.Field) zapcore.Core {
	return quietEvents{q.Core.With(fields)}
}

// Check adds this core, and not the one inside, which would write everything as it is.
func (q quietEvents) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if q.Enabled(entry.Level) {
		return checked.AddCore(entry, q)
	}
	return checked
}

// Write writes an entry.
func (q quietEvents) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.LoggerName == eventsLogger && slices.ContainsFunc(fields, tellsOfNoNamespace) {
		if entry.Level, entry.Stack = zapcore.DebugLevel, ""; !q.Enabled(entry.Level) {
			return nil
		}
	}
	return q.Core.Write(entry, fields)
}

// tellsOfNoNamespace says whether a field is the answer of an API server that a namespace takes no more objects, or is not there.
func tellsOfNoNamespace(field zapcore.Field) bool {
	err, is := field.Interface.(error)
	return is && (apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err))
}
