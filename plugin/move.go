package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// moveCommand is the command, the only one that changes anything.
type moveCommand struct {
	*tool
	from, to, selector, dryRun string
	all                        bool
	batch                      int
	timeout                    time.Duration
	// looksEvery is how often streams are looked at that are under way.
	looksEvery time.Duration
}

// What --dry-run can be, as kubectl has it.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

const streamsPlural = "streamingresses"

func (t *tool) moveCommand() *cobra.Command {
	m := &moveCommand{tool: t, looksEvery: looksEvery}
	cmd := &cobra.Command{
		Use:   "move --from CLASS --to CLASS [NAME...]",
		Short: "Move StreamIngresses from one class to another, some at a time",
		Long: `Move StreamIngresses from one class to another, some at a time, by changing spec.className.

The door of each stays open until it is open behind the new class, which is waited for (condition Programmed), and five seconds
longer. The first that is refused, or is not open in time, stops the command; its old door stays open. Run again, it first waits for
those that name the new class already, and goes on with those that are left. A stream that names no class is of the one that serves it.

Have the manifests of the streams name the new class, too: whoever applies them as they were moves them back.

The exit status is 0 if all are moved, 1 if the command was stopped or, in a dry run, any is refused, and 2 if it could not look.`,
		Example: `  # Ask of each stream of your namespace whether it could move
  kubectl portcullis move --from public --to edge --dry-run=server

  # Move one of them
  kubectl portcullis move --from public --to edge postgres

  # Move those of all namespaces, 20 at a time, and give each 20 five minutes
  kubectl portcullis move --from public --to edge -A --batch=20 --timeout=5m

  # Move one back
  kubectl portcullis move --from edge --to public postgres`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              m.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&m.from, "from", "", "the `class` from which streams move")
	flags.StringVar(&m.to, "to", "", "the `class` to which they move")
	flags.BoolVarP(&m.all, "all-namespaces", "A", false, "the streams of all namespaces")
	flags.StringVarP(&m.selector, "selector", "l", "", "only streams with these `labels`, such as team=shop")
	flags.IntVar(&m.batch, "batch", 10, "how `many` move at a time")
	flags.DurationVar(&m.timeout, "timeout", 2*time.Minute, "how `long` those that move at a time may take to be open")
	flags.StringVar(&m.dryRun, "dry-run", dryRunNone, `none, client (say which would move), or server (and have each judged, as if it moved)`)
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	for _, name := range []string{"from", "to"} {
		_ = cmd.MarkFlagRequired(name)
		_ = cmd.RegisterFlagCompletionFunc(name, t.completing("StreamIngressClass"))
	}
	_ = cmd.RegisterFlagCompletionFunc("dry-run",
		cobra.FixedCompletions([]string{dryRunNone, dryRunClient, dryRunServer}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check says what is wrong with the flags.
func (m *moveCommand) check(names []string) error {
	switch {
	case m.from == "" || m.to == "":
		return errors.New("--from and --to must name a class")
	case m.from == m.to:
		return fmt.Errorf("--from and --to are both %s", m.from)
	case m.batch < 1:
		return fmt.Errorf("--batch is %d: it must be 1 or more", m.batch)
	case m.timeout <= 0:
		return fmt.Errorf("--timeout is %s: it must be more than 0", m.timeout)
	case !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, m.dryRun):
		return fmt.Errorf("--dry-run is %q: want one of %s, %s, %s", m.dryRun, dryRunNone, dryRunClient, dryRunServer)
	case len(names) > 0 && (m.all || m.selector != ""):
		return errors.New("names can't be given beside --all-namespaces or --selector")
	default:
		return nil
	}
}

func (m *moveCommand) run(cmd *cobra.Command, names []string) error {
	if err := m.check(names); err != nil {
		return err
	}
	c, err := m.openToMove(m.tool)
	if err != nil {
		return err
	}
	streams, err := m.read(cmd.Context(), c, names)
	if err != nil {
		return err
	}
	plan := planMove(streams, m.from, m.to)
	for _, s := range plan.deleted {
		line(m.ErrOut, "%s is being deleted, and is left as it is", nameOf(s))
	}
	for _, s := range plan.unnamed {
		line(m.ErrOut, "%s has no class yet, and is left as it is; once it has one, run the same command again", nameOf(s))
	}
	if len(plan.left)+len(plan.underWay) == 0 {
		return cmp.Or(m.nothing(), plan.incomplete())
	}
	work := &moving{moveCommand: m, cluster: c}
	switch m.dryRun {
	case dryRunClient:
		for _, s := range plan.left {
			line(m.Out, "%s moved (dry run)", nameOf(s))
		}
		for _, s := range plan.underWay {
			line(m.ErrOut, "%s names class %s already, and is not open there yet", nameOf(s), m.to)
		}
		return plan.incomplete()
	case dryRunServer:
		return work.tryAll(cmd.Context(), plan)
	}
	err = work.run(cmd.Context(), plan)
	if err == nil && len(names) == 0 {
		err = work.lookForMore(cmd.Context())
	}
	return work.end(plan, err)
}

// incomplete says that not all can be moved, nil if all can.
func (p *movePlan) incomplete() error {
	if len(p.unnamed) > 0 {
		return errFindings
	}
	return nil
}

// lookForMore looks for streams that came while others were moved.
func (m *moving) lookForMore(ctx context.Context) error {
	streams, err := m.read(ctx, m.cluster, nil)
	if err != nil {
		return err
	}
	plan := planMove(streams, m.from, m.to)
	if left := len(plan.left) + len(plan.underWay); left > 0 {
		return stopped("%d are yet to move that came, or were changed, meanwhile", left)
	}
	return nil
}

// nothing says that there is nothing to do, and where.
func (m *moveCommand) nothing() error {
	namespace, _, err := m.namespace()
	where := "namespace " + namespace
	if m.all {
		where = "any namespace"
	}
	line(m.ErrOut, "no StreamIngress of class %s is left to move in %s", m.from, where)
	return err
}

// read reads the streams that are asked for.
func (m *moveCommand) read(ctx context.Context, c mover, names []string) (streams []*v1beta1.StreamIngress, err error) {
	selector, err := labels.Parse(m.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	namespace, _, err := m.namespace()
	if err != nil {
		return nil, err
	}
	if m.all {
		namespace = ""
	}
	found := map[string]*v1beta1.StreamIngress{}
	err = c.Each(ctx, kindOf("StreamIngress"), namespace, "", func(obj runtime.Object) {
		if s, is := obj.(*v1beta1.StreamIngress); is && selector.Matches(labels.Set(s.Labels)) {
			streams, found[s.Name] = append(streams, s), s
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", streamsPlural, err)
	}
	if len(names) == 0 {
		return streams, nil
	}
	streams = nil
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		s := found[name]
		if s == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1beta1.GroupName, Resource: streamsPlural}, name)
		}
		if class := classOf(s); class != "" && class != m.from && class != m.to {
			return nil, fmt.Errorf("StreamIngress %s is of class %q, and not of %q", snapshot.Key(s), class, m.from)
		}
		streams = append(streams, s)
	}
	return streams, nil
}

// end says what was done, and how to go on where it was stopped.
func (m *moving) end(plan movePlan, err error) error {
	if err == nil && m.lost > 0 {
		err = stopped("%d were changed by somebody else meanwhile", m.lost)
	}
	if err == nil {
		line(m.ErrOut, "%d moved from class %s to class %s; have their manifests name class %s, too", m.moved, m.from, m.to, m.to)
		return plan.incomplete()
	}
	line(m.ErrOut, "error: %s", err)
	total := len(plan.underWay) + len(plan.left)
	line(m.ErrOut, "stopped: %d of %d moved from class %s to class %s", m.moved, total, m.from, m.to)
	for _, s := range m.underWay {
		line(m.ErrOut, "%s stays open in class %s until it is in class %s; to have it back: "+
			"kubectl portcullis move -n %s --from %s --to %s %s", nameOf(s), m.from, m.to, s.Namespace, m.to, m.from, s.Name)
	}
	line(m.ErrOut, "to go on, run the same command again")
	var stop *stopError
	if errors.As(err, &stop) {
		return errFindings
	}
	return errTold
}
