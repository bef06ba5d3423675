package lint

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Problem is why an object is refused.
type Problem struct {
	// Reason is that of a cause in the status that the API server answers with, such as FieldValueDuplicate, or of the status.
	Reason string
	// Field is the path of a field, empty where it is about none.
	Field   string
	Message string
}

// problemsOf are those in an error of the API.
func problemsOf(err error) (problems []Problem) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return []Problem{{Reason: string(metav1.StatusReasonInternalError), Message: err.Error()}}
	}
	s := status.Status()
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			problems = append(problems, Problem{Reason: string(cause.Type), Field: clearPath(cause.Field), Message: cause.Message})
		}
	}
	if len(problems) == 0 {
		problems = []Problem{{Reason: string(s.Reason), Message: s.Message}}
	}
	return problems
}

// clearPath is a path of a field, empty for that of none.
func clearPath(path string) string {
	if path == "<nil>" {
		return ""
	}
	return path
}

// unknownField is the reason of a field that the kind of an object does not have.
const unknownField = "UnknownField"

// strict is the error of fields that the kind of an object does not have, nil for none.
func strict(u *unstructured.Unstructured, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	status := apierrors.NewBadRequest("")
	said := make([]string, 0, len(paths))
	status.ErrStatus.Details = &metav1.StatusDetails{Kind: u.GetKind(), Name: u.GetName()}
	for _, path := range paths {
		path = strings.TrimPrefix(path, ".")
		said = append(said, fmt.Sprintf("unknown field %q", path))
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: unknownField, Field: path, Message: said[len(said)-1],
		})
	}
	status.ErrStatus.Message = "strict decoding error: " + strings.Join(said, ", ")
	return status
}

// noKind is what is said of an object of a kind that Portcullis does not have.
func noKind(u *unstructured.Unstructured) Problem {
	return Problem{
		Reason: string(metav1.StatusReasonNotFound), Field: "kind",
		Message: fmt.Sprintf("no matches for kind %q in version %q", u.GetKind(), u.GetAPIVersion()),
	}
}
