package podtoip

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Kind is one kind of transition in the life of a Pod.
type Kind string

// The transitions of a Pod's life, in the order in which they come.
const (
	// Found: the Pod was there already when Portcullis began to watch.
	Found Kind = "found"
	// Added: the Pod was created.
	Added Kind = "added"
	// Scheduled: the Pod has a node.
	Scheduled Kind = "scheduled"
	// IPAssigned: the Pod has its first IP, or one again.
	IPAssigned Kind = "ip_assigned"
	// IPChanged: the Pod has another IP than before.
	IPChanged Kind = "ip_changed"
	// IPLost: the Pod lives on without its IP.
	IPLost Kind = "ip_lost"
	// Ready: the Pod is ready.
	Ready Kind = "ready"
	// NotReady: the Pod is ready no longer, and lives on.
	NotReady Kind = "not_ready"
	// Terminating: the Pod was told to end.
	Terminating Kind = "terminating"
	// Completed: the Pod has run to its end, was evicted, or failed.
	Completed Kind = "completed"
	// Gone: the Pod was deleted.
	Gone Kind = "gone"
)

// Kinds are all kinds of transitions.
var Kinds = []Kind{Found, Added, Scheduled, IPAssigned, IPChanged, IPLost, Ready, NotReady, Terminating, Completed, Gone}

// verbs say each kind in words.
var verbs = map[Kind]string{
	Found: "was there at the start", Added: "added", Scheduled: "is on its node", IPAssigned: "got its IP",
	IPChanged: "changed its IP", IPLost: "lost its IP", Ready: "is ready on its node", NotReady: "is not ready any more",
	Completed: "has finished", Terminating: "is terminating", Gone: "is gone",
}

// Verb says in words what happened to the Pod.
func (k Kind) Verb() string { return verbs[k] }

// Transition is one change in the life of a Pod.
type Transition struct {
	Kind Kind
	// Pod is the Pod as it was after the transition, or at its end.
	Pod *corev1.Pod
	// Former are the IPs that it had before, where they changed.
	Former []string
}

// Transitions are what happened between two versions of a Pod, in order. before is nil for a new Pod, after is nil for one
// that is gone. When after is another Pod of the same name, all of its transitions follow the end of the former one.
func Transitions(before, after *corev1.Pod) []Transition {
	switch {
	case before == nil:
		return append([]Transition{{Kind: Added, Pod: after}}, changes(&corev1.Pod{}, after)...)
	case after == nil:
		return []Transition{{Kind: Gone, Pod: before}}
	case before.UID != after.UID:
		return append(Transitions(before, nil), Transitions(nil, after)...)
	default:
		return changes(before, after)
	}
}

// changes are the transitions of a Pod that lives on.
func changes(before, after *corev1.Pod) []Transition {
	var transitions []Transition
	add := func(happened bool, kind Kind) {
		if happened {
			transitions = append(transitions, Transition{Kind: kind, Pod: after})
		}
	}
	add(before.Spec.NodeName != after.Spec.NodeName, Scheduled)
	if had, has := Addresses(before), Addresses(after); !slices.Equal(had, has) {
		transitions = append(transitions, Transition{Kind: ipKind(had, has), Pod: after, Former: had})
	}
	add(!isReady(before) && isReady(after), Ready)
	// That a Pod which ends is not ready any more goes without saying.
	add(isReady(before) && !isReady(after) && !Finished(after) && after.DeletionTimestamp == nil, NotReady)
	add(before.DeletionTimestamp == nil && after.DeletionTimestamp != nil, Terminating)
	add(!Finished(before) && Finished(after), Completed)
	return transitions
}

func ipKind(had, has []string) Kind {
	switch {
	case len(had) == 0:
		return IPAssigned
	case len(has) == 0:
		return IPLost
	default:
		return IPChanged
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
