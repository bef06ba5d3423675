package plugin

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/internal/doors"
)

// doorsOf is the command doors.
type doorsOf struct {
	*tool
	output output
	all    bool
}

func (t *tool) doorsCommand() *cobra.Command {
	d := &doorsOf{tool: t}
	cmd := &cobra.Command{
		Use:   "doors",
		Short: "List the open doors of a namespace, or of all",
		Long: `List the open doors of a namespace, or of all: by which way each is open, since when, where it leads, and whether
anybody is ready there.

A door is a port of a proxy (an entry of its ConfigMap), a port of a load balancer, of an external IP or of the nodes, a host
and path of an Ingress, a listener of a Gateway, or what a route has there. An entry is of the namespace that it leads to.`,
		Example: `  # The doors of your namespace
  kubectl portcullis doors

  # Those of another one, with addresses
  kubectl portcullis doors -n shop -o wide

  # Those of all namespaces
  kubectl portcullis doors -A`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: d.run,
	}
	d.output.addTo(cmd)
	cmd.Flags().BoolVarP(&d.all, "all-namespaces", "A", false, "the doors of all namespaces")
	return cmd
}

func (d *doorsOf) run(cmd *cobra.Command, _ []string) error {
	r, err := d.newReader(false)
	if err != nil {
		return err
	}
	s, err := r.read(cmd.Context(), true)
	if err != nil {
		return err
	}
	found := doors.All(s)
	if !d.all {
		found = doors.Of(found, r.namespace)
	}
	report := &Doors{TypeMeta: typeOf("Doors"), Doors: append([]doors.Door{}, found...), Unread: append([]Unread{}, r.unread...)}
	if err := d.output.print(d.Out, report, doorsTable(found, d.all)); err != nil {
		return err
	}
	tell(d.ErrOut, report.Unread)
	if len(found) == 0 {
		in := "namespace " + r.namespace
		if d.all {
			in = "any namespace"
		}
		line(d.ErrOut, "no open doors in %s", in)
	}
	return nil
}

func doorsTable(found []doors.Door, withNamespace bool) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("Point", false), column("Way", false), column("On", false), column("Holder", false), column("Age", false),
		column("Leads to", false), column("Ready", false), column("Addresses", true), column("Since", true),
	}}
	if withNamespace {
		table.ColumnDefinitions = append([]metav1.TableColumnDefinition{column("Namespace", false)}, table.ColumnDefinitions...)
	}
	for i := range found {
		d := &found[i]
		ready, since := "?", time.Time{}
		if d.Ready != nil {
			ready = fmt.Sprint(*d.Ready)
		}
		if d.LeadsTo == "" {
			ready = "-"
		}
		if d.Since != nil {
			since = d.Since.Time
		}
		by := "age of the object"
		if d.Claimed {
			by = "claim"
		}
		cells := []any{
			d.Point, string(d.Way), cmp.Or(d.On, "-"), d.Holder, age(since), cmp.Or(d.LeadsTo, "-"), ready,
			cmp.Or(strings.Join(d.Addresses, ","), "-"), since.UTC().Format(time.RFC3339) + " (" + by + ")",
		}
		if withNamespace {
			cells = append([]any{d.Namespace}, cells...)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table
}
