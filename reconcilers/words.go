package reconcilers

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// event tells about an object. Another may be related to it.
func (b base) event(regarding, related runtime.Object, kind, reason, action, text string) {
	b.events.Eventf(regarding, related, kind, reason, action, "%s", cut(text, maxNote))
}
