// Package report tells users what became of what they asked for, by conditions and events, and keeps what was last reported about
// Services, which have no conditions.
package report

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// How long texts may be, in bytes. The API server refuses a status or an event with a longer one as a whole.
const (
	// MaxCondition is for the message of a condition.
	MaxCondition = 32 * 1024
	// MaxRefusal is for the message of a refused port.
	MaxRefusal = 1024
	// MaxNote is for the text of an event.
	MaxNote = 1024
)

// Cut makes a text as short as it may be.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..." // the cut may go through a letter
}

// SetCondition sets a condition among others. It says whatever there is room for.
func SetCondition(conditions *[]metav1.Condition, c metav1.Condition) {
	c.Message = Cut(c.Message, MaxCondition)
	meta.SetStatusCondition(conditions, c)
}

// Emit emits an event about an object. Another may be related to it.
func Emit(to events.EventRecorder, regarding, related runtime.Object, kind, reason, action, text string) {
	to.Eventf(regarding, related, kind, reason, action, "%s", Cut(text, MaxNote))
}

// ConditionChanged emits the event of a condition of an object that changed. Of what was handed over HandedOver has told.
func ConditionChanged(to events.EventRecorder, obj client.Object, c metav1.Condition) {
	if c.Reason == v1beta1.ReasonHandedOver {
		return
	}
	kind := corev1.EventTypeNormal
	if c.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	Emit(to, obj, nil, kind, c.Reason, c.Type, c.Message)
}

// Failed is a condition that is not met because of problems.
func Failed(problems refusal.Problems) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: problems[0].Reason, Message: Text(problems)}
}

// Text says all problems in one line.
func Text(problems refusal.Problems) string { return problems.ErrorList().ToAggregate().Error() }
