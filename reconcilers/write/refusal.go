package write

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsRefusal says whether an error is the API server's verdict on what was written, and not one to just try again.
func IsRefusal(err error) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.IsNotFound(err):
		return true
	case apierrors.IsInternalError(err):
		// Running out of node ports is reported as an internal error, and its text is all that tells it from others
		// (k8s.io/kubernetes/pkg/registry/core/service/storage/alloc.go).
		return strings.Contains(err.Error(), failedToAllocate)
	default:
		return tooLarge(err)
	}
}

// IsFull says whether what was written has been refused for how much it is, so that less of it may do: node ports run out, a
// quota does, or the object is too large.
func IsFull(err error) bool {
	return OutOfNodePorts(err.Error()) || tooLarge(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// tooLarge says whether an object has outgrown what etcd takes. The API server passes on the words of etcd or of gRPC,
// without a reason of its own.
func tooLarge(err error) bool {
	return strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "larger than max")
}

// failedToAllocate is what the API server says of what it has none left of.
const failedToAllocate = "failed to allocate"

// OutOfNodePorts says whether these are the words of the API server when no node port is left.
func OutOfNodePorts(words string) bool {
	isOfPort := strings.Contains(words, "nodePort") || strings.Contains(words, "NodePort") // and not a cluster IP
	return isOfPort && strings.Contains(words, failedToAllocate) && strings.Contains(words, "range is full")
}
