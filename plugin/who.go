package plugin

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/internal/doors"
	"jeffthecoder.xyz/portcullis/internal/findings"
)

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
(shop.example.com/api), or the address of a Pod or of a Service inside the cluster.`,
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
	found := append(doors.Find(doors.All(s), point), doors.Inside(s, point)...)
	between := conflictsOf(point, found, findings.All(s))
	if point.IP.IsValid() { // after the doors: these answer outside
		found = append(found, r.pods(cmd.Context(), s, point, len(found) > 0)...)
	}
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
	at := holdersAt(found)
	wins, loses := map[string]bool{}, map[string]bool{}
	for i := range all {
		f := &all[i]
		has := func(o findings.Object) bool { return at[f.Point][o.String()] || at[f.Scope+", "+f.Point][o.String()] }
		isElsewhere := f.Rule == findings.ExternalIPTaken && f.Level == findings.Note && point.Port != 0 // they do not meet at a port
		if f.Wins == "" || isElsewhere || !slices.ContainsFunc(f.Objects, has) {
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
		return cmp.Or(point.Compare(&a, &b), cmp.Compare(rank(a), rank(b)),
			ptr.Deref(a.Since, metav1.Time{}).Compare(ptr.Deref(b.Since, metav1.Time{}).Time))
	})
	return between
}

// holdersAt are who holds each point, as findings write it.
func holdersAt(found []doors.Door) map[string]map[string]bool {
	at := map[string]map[string]bool{}
	for i := range found {
		d := &found[i]
		for _, p := range d.Points() {
			if at[p] == nil {
				at[p] = map[string]bool{}
			}
			at[p][d.Holder] = true
			if d.Way == doors.ByEntry { // the ConfigMap, whoever it is for
				at[p][d.On] = true
			}
		}
	}
	return at
}
