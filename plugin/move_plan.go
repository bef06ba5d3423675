package plugin

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// movePlan is what is to be done to have streams go from one class to another, by namespace and name. It is made of what is stored alone:
// who runs the command again goes on where it was stopped.
type movePlan struct {
	// underWay are those that name the new class already, and are open at their old door alone.
	underWay []*v1beta1.StreamIngress
	// left are those that are yet to name it.
	left []*v1beta1.StreamIngress
	// deleted are those of them that are being deleted: they are given nothing more.
	deleted []*v1beta1.StreamIngress
	// unnamed are those that have no class yet: which one they get is not known.
	unnamed []*v1beta1.StreamIngress
}

// planMove sorts streams out.
func planMove(streams []*v1beta1.StreamIngress, from, to string) (plan movePlan) {
	streams = slices.SortedFunc(slices.Values(streams), func(a, b *v1beta1.StreamIngress) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range streams {
		switch class := classOf(s); {
		case class == "":
			plan.unnamed = append(plan.unnamed, s)
		case class != from && (class != to || !comesFrom(s, from) || !wasOpen(s) || hasArrived(s, to)):
		case s.DeletionTimestamp != nil:
			plan.deleted = append(plan.deleted, s)
		case class == from:
			plan.left = append(plan.left, s)
		default:
			plan.underWay = append(plan.underWay, s)
		}
	}
	return plan
}

// classOf is the class of a stream: the one that it names, or else the one that serves it; empty for one that has none yet.
func classOf(s *v1beta1.StreamIngress) string { return cmp.Or(s.Spec.ClassName, s.Status.ClassName) }

// comesFrom says whether a stream has a door of a class, as far as its status tells.
func comesFrom(s *v1beta1.StreamIngress, class string) bool {
	return s.Status.ClassName == class || s.Status.Previous != nil && s.Status.Previous.ClassName == class
}

// wasOpen says whether a stream is open at the door from which it goes. One that is not has none to lose, and may never be open.
func wasOpen(s *v1beta1.StreamIngress) bool {
	return s.Status.Previous != nil || meta.IsStatusConditionTrue(s.Status.Conditions, v1beta1.ConditionProgrammed)
}

// hasArrived says whether a stream, as it is now, is open behind a class.
func hasArrived(s *v1beta1.StreamIngress, class string) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionProgrammed)
	return s.Status.ClassName == class && c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == s.Generation
}

// isRefused says whether a stream, as it is now, has been judged, and may not have what it asks for: it is of a class that only warns.
func isRefused(s *v1beta1.StreamIngress) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionAccepted)
	return c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == s.Generation
}

// whyNot says why a stream has not arrived, in the words of its conditions.
func whyNot(s *v1beta1.StreamIngress) string {
	for _, kind := range []string{v1beta1.ConditionAccepted, v1beta1.ConditionProgrammed} {
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != s.Generation {
			return "nothing is known of the change yet: does Portcullis run, with a leader?"
		}
		if c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return "its status is of class " + s.Status.ClassName
}

// doorOf is the port at which a stream is.
func doorOf(s *v1beta1.StreamIngress) string {
	return stream.PortKey{Protocol: s.ProtocolOrDefault(), Port: s.Status.Listen}.String()
}
