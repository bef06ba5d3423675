package refusal

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// HeirPath is where an object says to whom it hands over what it holds.
var HeirPath = field.NewPath("metadata", "annotations").Key(v1beta1.AnnotationHandOverTo)

// HandOver is how the holder of a point could let an object of its kind have it, as the end of a refusal.
func HandOver(to types.NamespacedName) string {
	return fmt.Sprintf("; or have its holder hand it over, by the annotation %s: %s", v1beta1.AnnotationHandOverTo, to)
}

// UnreadableHeir refuses an object of a kind that comes to say to whom it hands over what, but not so that anybody can read it.
func UnreadableHeir(before, after metav1.Object, isNew bool, kind, what string) Problems {
	value := after.GetAnnotations()[v1beta1.AnnotationHandOverTo]
	if value == "" || !isNew && before.GetAnnotations()[v1beta1.AnnotationHandOverTo] == value {
		return nil
	}
	heir, named := claim.NamedHeir(after)
	switch {
	case !named:
		return One(v1beta1.ReasonInvalidAnnotation, field.Invalid(HeirPath, value,
			fmt.Sprintf("must be namespace/name of the %s that may have %s", kind, what)))
	case heir == types.NamespacedName{Namespace: after.GetNamespace(), Name: after.GetName()}:
		return One(v1beta1.ReasonInvalidAnnotation, field.Invalid(HeirPath, value, "names the "+kind+" itself"))
	default:
		return nil
	}
}

// beingHanded says whose a point is about to be, where its holder hands it over.
func beingHanded(held *v1beta1.EdgeClaim) string {
	if heir := claim.HeirOf(held); heir != (claim.Holder{}) {
		return ", which is handing it over to " + heir.String()
	}
	return ""
}
