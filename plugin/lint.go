package plugin

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/internal/findings"
	"jeffthecoder.xyz/portcullis/plugin/lint"
)

// lintCommand is the command.
type lintCommand struct {
	*tool
	output  output
	files   resource.FilenameOptions
	server  bool
	options lint.Options
	pipeline
}

func (t *tool) lintCommand() *cobra.Command {
	l := &lintCommand{tool: t}
	cmd := &cobra.Command{
		Use:   "lint -f FILENAME",
		Short: "Say of manifests what applying them says, without a cluster",
		Long: `Say of manifests what applying them, in the order given, to a cluster with Portcullis says, without a cluster.

Each is judged by the schema of its kind and by the rules of Portcullis, beside all that are given before it. With --server, the cluster
is there before them; it is only read. The flags from --cluster-domain to --reserved-node-ports that replicas of Portcullis have, too, are
to be those of the replicas.

The exit status is 0 if nothing is refused, 1 if anything is, and 2 where manifests, or the cluster, could not be read.`,
		Example: `  # What a directory holds, and directories in it
  kubectl portcullis lint -R -f manifests

  # What another program writes, such as helm template
  kubectl portcullis lint -f -

  # A kustomization, beside what the cluster has
  kubectl portcullis lint -k overlays/production --server

  # For a pipeline
  kubectl portcullis lint -f manifests -o json --junit lint.xml --sarif lint.sarif`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: l.run,
	}
	l.output.addTo(cmd)
	l.addFilesTo(cmd)
	flags := cmd.Flags()
	flags.StringSliceVarP(&l.files.Filenames, "filename", "f", nil, "`files`, directories and URLs of manifests; - is standard input")
	flags.StringVarP(&l.files.Kustomize, "kustomize", "k", "", "a `directory` with a kustomization")
	flags.BoolVarP(&l.files.Recursive, "recursive", "R", false, "read directories in directories, too")
	flags.BoolVar(&l.server, "server", false, "beside what the cluster has")
	flags.BoolVar(&l.options.CertManager, "cert-manager", true, "cert-manager is installed; with --server it is looked whether it is")
	settings := flag.NewFlagSet("", flag.ContinueOnError)
	l.options.Settings.Bind(settings)
	flags.AddGoFlagSet(settings)
	_ = cmd.MarkFlagDirname("kustomize")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	return cmd
}

func (l *lintCommand) run(cmd *cobra.Command, _ []string) error {
	log.SetLogger(logr.Discard()) // what the webhooks would log is in their verdicts
	if err := l.options.Settings.Validate(); err != nil {
		return err
	}
	namespace, isGiven, err := l.namespace()
	if err != nil {
		return err
	}
	all, unreadable := l.readManifests(l.files)
	if len(all) == 0 {
		return cmp.Or(unreadable, errors.New("no manifests"))
	}
	report := &Lint{TypeMeta: typeOf("Lint"), Findings: []LintFinding{}, Unread: []Unread{}}
	linter, err := l.linter(cmd.Context(), report)
	if err != nil {
		return err
	}
	for _, m := range all {
		unreadable = errors.Join(unreadable, report.add(cmd.Context(), linter, m, namespace, isGiven))
	}
	tell(l.ErrOut, report.Unread)
	if unreadable != nil {
		report.Unread = append(report.Unread, Unread{What: "manifests", Why: unreadable.Error()})
	}
	if err := l.write(
		func() ([]byte, error) { return lintJUnit(report) },
		func() ([]byte, error) { return lintSARIF(report, l.version) },
	); err != nil {
		return err
	}
	if err := l.output.print(l.Out, report, lintTable(report)); err != nil {
		return err
	}
	levels := summary(report.Findings, func(f *LintFinding) findings.Level { return f.Level })
	fmt.Fprintln(l.ErrOut, levels+" in "+plural(report.Objects, "object"))
	if unreadable != nil {
		return unreadable
	}
	if slices.ContainsFunc(report.Findings, func(f LintFinding) bool { return f.Level == findings.Error }) {
		return errFindings
	}
	return nil
}

// linter is one with what the cluster has, if that is asked for.
func (l *lintCommand) linter(ctx context.Context, report *Lint) (*lint.Linter, error) {
	if !l.server {
		return lint.New(ctx, l.options)
	}
	found, unread, err := l.readCluster(ctx)
	if err != nil {
		return nil, err
	}
	report.Unread = append(report.Unread, unread...)
	l.options.CertManager, l.options.KnowsNamespaces = found.certManager, found.namespaces
	linter, err := lint.New(ctx, l.options)
	if err != nil {
		return nil, err
	}
	err = linter.Add(found.objects...)
	return linter, err
}

// add applies a manifest, which is in a namespace if it names none, and adds what that says.
func (l *Lint) add(ctx context.Context, linter *lint.Linter, m *manifest, namespace string, isGiven bool) error {
	if linter.IsNamespaced(m.GroupVersionKind()) {
		switch named := m.GetNamespace(); {
		case named == "":
			m.SetNamespace(namespace)
		case isGiven && named != namespace:
			l.find(m, findings.Error, lint.Problem{
				Reason: "NamespaceMismatch", Field: "metadata.namespace",
				Message: fmt.Sprintf("the namespace %s does not match the namespace %s of -n", named, namespace),
			})
			return nil
		}
	}
	verdict, err := linter.Apply(ctx, m.Unstructured)
	if err != nil {
		return fmt.Errorf("%s: %w", m.file, err)
	}
	if verdict.Judged {
		l.Objects++
	}
	for _, p := range verdict.Refusals {
		l.find(m, findings.Error, p)
	}
	for _, text := range verdict.Warnings {
		field, _, _ := strings.Cut(text, ": ")
		if strings.ContainsAny(field, " ") {
			field = ""
		}
		l.find(m, findings.Note, lint.Problem{Reason: "Warning", Field: field, Message: strings.TrimPrefix(text, field+": ")})
	}
	return nil
}

// find adds a finding.
func (l *Lint) find(m *manifest, level findings.Level, p lint.Problem) {
	l.Findings = append(l.Findings, LintFinding{
		Level: level, Rule: p.Reason, Object: objectOf(m), File: m.file, Line: m.lineOf(p.Field), Field: p.Field, Text: p.Message,
	})
}

// objectOf is a manifest's kind, namespace and name.
func objectOf(m *manifest) string {
	if m.GetNamespace() == "" {
		return m.GetKind() + " " + m.GetName()
	}
	return m.GetKind() + " " + m.GetNamespace() + "/" + m.GetName()
}

func lintTable(report *Lint) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("Level", false), column("Where", false), column("Object", false), column("Rule", true), column("Finding", false),
	}}
	for i := range report.Findings {
		f := &report.Findings[i]
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{string(f.Level), f.where(), f.Object, f.Rule, f.inWords()}})
	}
	return table
}
