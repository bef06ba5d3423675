package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/internal/findings"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// audit is the command.
type audit struct {
	*tool
	output    output
	nodePorts portRange
	all       bool
	pipeline
}

func (t *tool) auditCommand() *cobra.Command {
	a := &audit{tool: t, nodePorts: portRange(snapshot.DefaultNodePorts)}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Find every conflict that there is today, and every door that leads nowhere",
		Long: `Find every conflict that there is today, and every door that leads nowhere, by the rules by which Portcullis decides.

With -n it looks at one namespace. What can't be read is said on standard error, and there may be more findings then.
The exit status is 0 without findings or with notes alone, 1 with others, and 2 where nothing could be read.`,
		Example: `  # All that is wrong in the cluster
  kubectl portcullis audit

  # With what is wrong in words, and what to do
  kubectl portcullis audit -o wide

  # One namespace
  kubectl portcullis audit -n shop

  # For a pipeline
  kubectl portcullis audit -o json --junit audit.xml --sarif audit.sarif`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.run,
	}
	a.output.addTo(cmd)
	cmd.Flags().BoolVarP(&a.all, "all-namespaces", "A", false, "look at all namespaces, as it does without -n")
	a.addFilesTo(cmd)
	cmd.Flags().Var(&a.nodePorts, "node-port-range", "the --service-node-port-range of the API server")
	return cmd
}

func (a *audit) run(cmd *cobra.Command, _ []string) error {
	namespace, isLimited, err := a.namespace()
	if err != nil {
		return err
	}
	if a.all || !isLimited {
		namespace, isLimited = "", false
	}
	r, err := a.newReader(isLimited)
	if err != nil {
		return err
	}
	s, err := r.read(cmd.Context(), false)
	if err != nil {
		return err
	}
	s.NodePorts = snapshot.Range(a.nodePorts)
	report := &Audit{TypeMeta: typeOf("Audit"), Unread: append([]Unread{}, r.unread...)}
	report.Findings = append([]findings.Finding{}, findings.All(s)...)
	if err := a.write(
		func() ([]byte, error) { return junit(report, s, namespace) },
		func() ([]byte, error) { return sarif(report, a.version) },
	); err != nil {
		return err
	}
	if err := a.output.print(a.Out, report, auditTable(report)); err != nil {
		return err
	}
	tell(a.ErrOut, report.Unread)
	fmt.Fprintln(a.ErrOut, summary(report.Findings, func(f *findings.Finding) findings.Level { return f.Level }))
	if slices.ContainsFunc(report.Findings, func(f findings.Finding) bool { return f.Level != findings.Note }) {
		return errFindings
	}
	return nil
}

func auditTable(report *Audit) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("Level", false), column("Rule", false), column("Point", false), column("Where", false), column("Objects", false),
		column("Wins", false), column("Age", false), column("Finding", true), column("To do", true),
	}}
	for i := range report.Findings {
		f := &report.Findings[i]
		var objects []string
		for _, o := range f.Objects[:min(3, len(f.Objects))] {
			objects = append(objects, o.String())
		}
		if more := len(f.Objects) - len(objects); more > 0 {
			objects = append(objects, fmt.Sprintf("%d more", more))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			string(f.Level), string(f.Rule), f.Point, cmp.Or(f.Scope, "-"), strings.Join(objects, ", "), cmp.Or(f.Wins, "-"), age(f.Since()),
			f.Text, f.Advice,
		}})
	}
	return table
}

// summary says how many findings there are, of each level.
func summary[F any](all []F, level func(*F) findings.Level) string {
	if len(all) == 0 {
		return "no findings"
	}
	n := map[findings.Level]int{}
	for i := range all {
		n[level(&all[i])]++
	}
	var parts []string
	for _, l := range []findings.Level{findings.Error, findings.Warning, findings.Note} {
		if n[l] > 0 {
			parts = append(parts, plural(n[l], string(l)))
		}
	}
	return plural(len(all), "finding") + ": " + strings.Join(parts, ", ")
}

// plural is a number of things.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// portRange is a flag.
type portRange snapshot.Range

// String is the range as Set reads it.
func (r *portRange) String() string { return fmt.Sprintf("%d-%d", r.From, r.To) }

// Set reads two ports, separated by a hyphen.
func (r *portRange) Set(text string) error {
	var from, to int32
	if n, err := fmt.Sscanf(text, "%d-%d", &from, &to); n != 2 || err != nil || from < 1 || to > 65535 || from > to {
		return fmt.Errorf("want two ports, such as %s", ptr.To(portRange(snapshot.DefaultNodePorts)))
	}
	r.From, r.To = from, to
	return nil
}

// Type is what the help calls the value.
func (r *portRange) Type() string { return "range" }
