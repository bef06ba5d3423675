// Package report tells users what became of what they asked for: by conditions, by events, and by what was told about Services,
// which have no conditions.
package reconcilers

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/rules"
)

// How long texts may be, in bytes. The API server refuses a status or an event with a longer one as a whole.
const (
	// maxCondition is for the message of a condition.
	maxCondition = 32 * 1024
	// maxRefusal is for the message of a refused port.
	maxRefusal = 1024
	// maxNote is for the text of an event.
	maxNote = 1024
)

// cut makes a text as short as it may be.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..." // the cut may go through a letter
}

// setCondition sets a condition among others. It says whatever there is room for.
func setCondition(conditions *[]metav1.Condition, c metav1.Condition) {
	c.Message = cut(c.Message, maxCondition)
	meta.SetStatusCondition(conditions, c)
}

// emit emits an event about an object. Another may be related to it.
func emit(to events.EventRecorder, regarding, related runtime.Object, kind, reason, action, text string) {
	to.Eventf(regarding, related, kind, reason, action, "%s", cut(text, maxNote))
}

// conditionChanged emits the event of a condition of an object that changed.
func conditionChanged(to events.EventRecorder, obj client.Object, c metav1.Condition) {
	kind := corev1.EventTypeNormal
	if c.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	emit(to, obj, nil, kind, c.Reason, c.Type, c.Message)
}

// failed is a condition that is not met because of problems.
func failed(problems rules.Problems) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: problems[0].Reason, Message: text(problems)}
}

// text says all problems in one line.
func text(problems rules.Problems) string { return problems.ErrorList().ToAggregate().Error() }
