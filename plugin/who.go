package plugin

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/doors"
	"jeffthecoder.xyz/portcullis/internal/findings"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// conflicts are the reasons of events that tell somebody who has asked in vain.
var conflicts = []string{
	v1beta1.ReasonPortConflict, v1beta1.ReasonHostConflict, v1beta1.ReasonAddressConflict, v1beta1.ReasonRouteConflict,
}

// byPod is the way by which a Pod answers at its own address.
const byPod doors.Way = "Pod"

// who is the command.
type who struct {
	*tool
	output output
}

func (t *tool) whoCommand() *cobra.Command {
	w := &who{tool: t}
	cmd := &cobra.Command{
		Use:   "who POINT",
		Short: "Say who has a port, an address, or a host and path, and how to get it",
		Long: `Say who has a port, an address, or a host and path, since when, who has asked for it in vain, and how to get it.

POINT is a port (tcp/5432, udp/53, 5432), an address or a port there (192.0.2.7, 192.0.2.7:443), a host, or a path there
(shop.example.com/api), or the address of a Pod.`,
		Example: `  # Who has a port
  kubectl portcullis who tcp/5432

  # Who answers at an address
  kubectl portcullis who 192.0.2.7:443

  # Who serves a path
  kubectl portcullis who shop.example.com/api`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: w.run,
	}
	w.output.addTo(cmd)
	return cmd
}

func (w *who) run(cmd *cobra.Command, args []string) error {
	point, err := doors.ParsePoint(args[0])
	if err != nil {
		return err
	}
	r, err := w.newReader(false)
	if err != nil {
		return err
	}
	s, err := r.read(cmd.Context(), true)
	if err != nil {
		return err
	}
	found := doors.Find(doors.All(s), point)
	if point.IP.IsValid() {
		found = append(found, r.pods(cmd.Context(), point.IP)...)
	}
	between := conflictsOf(point, found, findings.All(s))
	asked := r.asked(cmd.Context(), point)
	report := &Who{
		TypeMeta: typeOf("Who"), Point: point.String(), Doors: append([]doors.Door{}, found...), Conflicts: between,
		Asked: append([]Asked{}, asked...), Advice: doors.Advice(point, found, s), Unread: append([]Unread{}, r.unread...),
	}
	if err := w.output.print(w.Out, report, doorsTable(found, true)); err != nil {
		return err
	}
	if w.output == "table" || w.output == "wide" {
		for i := range between {
			line(w.Out, "in conflict: %s; who wins today: %s", between[i].Text, between[i].Wins)
		}
		for _, a := range asked {
			line(w.Out, "asked in vain: %s, %s: %s", a.Object, a.Reason, a.Message)
		}
		line(w.Out, "to get it: %s", report.Advice)
	}
	tell(w.ErrOut, report.Unread)
	return nil
}

// conflictsOf are the findings that are about some of the doors, and say who wins. It puts the doors first that are closest to the
// point, then those of who wins, then the oldest.
func conflictsOf(point doors.Point, found []doors.Door, all []findings.Finding) []findings.Finding {
	between := []findings.Finding{}
	wins, loses := map[string]bool{}, map[string]bool{}
	for i := range all {
		f := &all[i]
		has := func(d doors.Door) bool {
			isAt := f.Point == d.Point || f.Point == strings.Join(d.Addresses, ",")+" "+d.Point
			return isAt && slices.ContainsFunc(f.Objects, func(o findings.Object) bool { return o.String() == d.Holder })
		}
		if f.Wins == "" || !slices.ContainsFunc(found, has) {
			continue
		}
		between = append(between, *f)
		for _, o := range f.Objects {
			loses[o.String()] = o.String() != f.Wins && f.Wins != findings.Undetermined
		}
		wins[f.Wins] = true
	}
	rank := func(d doors.Door) int {
		switch {
		case wins[d.Holder]:
			return 0
		case loses[d.Holder]:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(found, func(a, b doors.Door) int {
		return cmp.Or(point.Compare(&a, &b), cmp.Compare(rank(a), rank(b)), ptr.Deref(a.Since, metav1.Time{}).Compare(ptr.Deref(b.Since, metav1.Time{}).Time))
	})
	return between
}

// pods are those that have an address.
func (r *reader) pods(ctx context.Context, ip netip.Addr) (found []doors.Door) {
	pods := kindOf[*corev1.Pod, corev1.PodList]("Pod", "pods", corev1.SchemeGroupVersion, nil)
	call := func(obj runtime.Object) {
		pod, is := obj.(*corev1.Pod)
		if !is || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			return
		}
		key := snapshot.Key(pod).String()
		created := pod.CreationTimestamp
		found = append(found, doors.Door{
			Point: ip.String(), Way: byPod, On: "Node " + pod.Spec.NodeName, Addresses: []string{ip.String()}, Holder: "Pod " + key,
			Namespace: pod.Namespace, Since: &created,
		})
	}
	r.extra(ctx, &pods, "status.podIP="+ip.String(), call)
	return found
}

// asked are those who have asked for a point in vain, the last first.
func (r *reader) asked(ctx context.Context, point doors.Point) (asked []Asked) {
	events := kindOf[*corev1.Event, corev1.EventList]("Event", "events", corev1.SchemeGroupVersion, nil)
	for _, reason := range conflicts {
		isRead := r.extra(ctx, &events, "reason="+reason, func(obj runtime.Object) {
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
// it could. What can't be read is noted.
func (r *reader) extra(ctx context.Context, k *kind, fields string, call func(runtime.Object)) bool {
	defer r.progress.end()
	r.progress.begin(k.plural)
	err := r.Each(ctx, k, "", fields, call)
	if apierrors.IsForbidden(err) {
		if err = r.Each(ctx, k, r.namespace, fields, call); err == nil {
			r.unread = append(r.unread, r.partly(k))
			return false
		}
	}
	switch {
	case err == nil:
		return true
	case apierrors.IsForbidden(err):
		r.unread = append(r.unread, Unread{k.plural, forbidden})
	default:
		r.unread = append(r.unread, Unread{k.plural, err.Error()})
	}
	return false
}

// isAbout says whether a message names a point, as Portcullis words conflicts.
func isAbout(message string, p doors.Point) bool {
	has := func(word string) bool {
		_, after, found := strings.Cut(message, word)
		return found && (after == "" || !strings.ContainsAny(after[:1], "0123456789abcdefghijklmnopqrstuvwxyz"))
	}
	switch {
	case p.Host != "":
		return has(p.Host) && (p.Path == "" || has(p.Path))
	case p.IP.IsValid() && !has(p.IP.String()):
		return false
	case p.Port == 0:
		return true
	}
	return slices.ContainsFunc(p.Protocols, func(protocol v1beta1.Protocol) bool { return has(fmt.Sprintf("%s/%d", protocol, p.Port)) })
}
