package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/doors"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// conflicts are the reasons of events that tell somebody who has asked in vain.
var conflicts = []string{
	v1beta1.ReasonPortConflict, v1beta1.ReasonHostConflict, v1beta1.ReasonAddressConflict, v1beta1.ReasonRouteConflict,
}

// byPod is the way by which a Pod answers at its own address.
const byPod doors.Way = "Pod"

// pods are those that answer at an address: found says whether doors do.
func (r *reader) pods(ctx context.Context, s *snapshot.Snapshot, point doors.Point, found bool) (at []doors.Door) {
	pods := kindOf("Pod")
	call := func(obj runtime.Object) {
		pod, is := obj.(*corev1.Pod)
		if !is || !answers(pod, point) {
			return
		}
		created := pod.CreationTimestamp
		at = append(at, doors.Door{
			Point: point.IP.String(), Way: byPod, On: "Node " + pod.Spec.NodeName, Addresses: []string{point.IP.String()},
			Holder: "Pod " + snapshot.Key(pod).String(), Namespace: pod.Namespace, Since: &created,
		})
	}
	if i := slices.IndexFunc(s.Nodes, func(n *corev1.Node) bool { return isAt(n, point) }); i >= 0 {
		r.extra(ctx, pods, "spec.nodeName="+s.Nodes[i].Name, call)
		return at
	}
	// The API server selects Pods by the first of their addresses alone.
	if r.extra(ctx, pods, "status.podIP="+point.IP.String(), call) && len(at) == 0 && !found {
		r.extra(ctx, pods, "", call)
	}
	return at
}

// isAt says whether a node has the address that is asked about.
func isAt(node *corev1.Node, point doors.Point) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == point.IP.String() })
}

// answers says whether a Pod may answer at an address: one of its own, or, with a port of the node, at the node's.
func answers(pod *corev1.Pod, point doors.Point) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	hasPort := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			protocol := v1beta1.Protocol(cmp.Or(string(p.Protocol), string(corev1.ProtocolTCP)))
			return p.HostPort != 0 && p.HostPort == point.Port && slices.Contains(point.Protocols, protocol)
		})
	})
	is := func(address string) bool { return address == point.IP.String() }
	onNode := slices.ContainsFunc(pod.Status.HostIPs, func(ip corev1.HostIP) bool { return is(ip.IP) }) || is(pod.Status.HostIP)
	own := slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return is(ip.IP) }) || is(pod.Status.PodIP)
	if pod.Spec.HostNetwork {
		return hasPort && (onNode || own)
	}
	return own || hasPort && onNode
}

// asked are those who have asked for a point in vain, the last first.
func (r *reader) asked(ctx context.Context, point doors.Point) (asked []Asked) {
	for _, reason := range conflicts {
		isRead := r.extra(ctx, kindOf("Event"), "reason="+reason, func(obj runtime.Object) {
			if e, is := obj.(*corev1.Event); is && isAbout(e.Message, point) {
				last := e.LastTimestamp
				if last.IsZero() {
					last = metav1.NewTime(cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time))
				}
				o := e.InvolvedObject
				asked = append(asked, Asked{
					Object: fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name), Reason: e.Reason, Message: e.Message, Last: &last,
				})
			}
		})
		if !isRead {
			break
		}
	}
	slices.SortStableFunc(asked, func(a, b Asked) int { return b.Last.Compare(a.Last.Time) })
	return asked
}

// extra reads objects that findings and doors are not made of, from the namespace of the user where not all may be read, and says whether
// it could read any. What can't be read is noted, once.
func (r *reader) extra(ctx context.Context, k *kind, fields string, call func(runtime.Object)) bool {
	defer r.progress.end()
	r.progress.begin(k.plural)
	_, err := r.widely(k, "", func(namespace string) error { return r.Each(ctx, k, namespace, fields, call) })
	switch {
	case apierrors.IsForbidden(err):
		r.note(Unread{k.plural, forbidden})
	case err != nil:
		r.note(Unread{k.plural, err.Error()})
	}
	return err == nil
}

// note notes what could not be read.
func (r *reader) note(u Unread) {
	if !slices.Contains(r.unread, u) {
		r.unread = append(r.unread, u)
	}
}

// isAbout says whether a message names a point, as Portcullis words conflicts.
func isAbout(message string, p doors.Point) bool {
	switch {
	case p.Host != "":
		return has(message, p.Host, "") && (p.Path == "" || has(message, p.Path, "/"))
	case p.IP.IsValid() && !has(message, p.IP.String(), ""):
		return false
	case p.Port == 0:
		return true
	}
	return slices.ContainsFunc(p.Protocols, func(protocol v1beta1.Protocol) bool {
		return has(message, fmt.Sprintf("%s/%d", protocol, p.Port), "")
	})
}

// has says whether a whole word is in a text: a name, an address or a path, and not one that it is a part of. more are the characters of
// words beside those of names.
func has(text, word, more string) bool {
	isPart := func(at string, i int) bool {
		const name = "-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		return i >= 0 && i < len(at) && strings.ContainsRune(name+more, rune(at[i]))
	}
	joins := "."
	if strings.Contains(word, ":") {
		joins += ":"
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(word)
		before := isPart(text, begin-1) || begin > 0 && strings.ContainsRune(joins+"/", rune(text[begin-1]))
		after := isPart(text, end) || end < len(text) && strings.ContainsRune(joins, rune(text[end])) && isPart(text, end+1)
		if !before && !after {
			return true
		}
		from = begin + 1
	}
}
