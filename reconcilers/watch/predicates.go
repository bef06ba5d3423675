package watch

import (
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// SpecOrMetadataChanged leaves out changes of the status.
func SpecOrMetadataChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// Becomes leaves out all changes but those by which an object becomes, or is no longer, something.
func Becomes(is func(client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return is(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return is(e.ObjectOld) != is(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return is(e.Object) },
	}
}

// StreamChanged leaves out changes of a stream that do not concern its proxy. The status does where it says what the spec
// leaves open, and which door stays open while the stream moves.
func StreamChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1beta1.StreamIngress), e.ObjectNew.(*v1beta1.StreamIngress)
		return before.Generation != after.Generation || before.UID != after.UID ||
			after.Spec.ClassName == "" && before.Status.ClassName != after.Status.ClassName ||
			after.Spec.Listen == nil && before.Status.Listen != after.Status.Listen ||
			doorOf(before.Status.Previous) != doorOf(after.Status.Previous)
	}}
}

// doorOf is a door without the time at which it is closed, the zero value for none.
func doorOf(p *v1beta1.PreviousDoor) v1beta1.PreviousDoor {
	door := ptr.Deref(p, v1beta1.PreviousDoor{})
	door.CloseTime = nil
	return door
}
