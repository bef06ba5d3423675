// Package plugin is kubectl-portcullis: it reads a cluster with the rights of whoever runs it, and says what internal/findings and
// internal/doors find there; of manifests, what applying them says; and by which manifests Portcullis takes over what there is. It asks the
// API server to get and to list, and for nothing else, but for the command move, which has StreamIngresses name another class.
package plugin

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// The exit statuses.
const (
	ExitFine     = 0
	ExitFindings = 1
	ExitUnread   = 2
)

// errFindings says that there are findings, and that they were told.
var errFindings = errors.New("there are findings")

// errTold says that something could not be done, and that it was told.
var errTold = errors.New("it was told")

// completer is the name by which kubectl asks plugins for completions.
const completer = "kubectl_complete-portcullis"

// tool is what all commands share.
type tool struct {
	genericiooptions.IOStreams
	config  *genericclioptions.ConfigFlags
	version string
	// open connects to the cluster. Tests have another one.
	open func(*tool) (cluster, error)
	// openToMove does so for the one command that writes.
	openToMove func(*tool) (mover, error)
}

// Run runs a command and returns its exit status. args begin with the name of the program.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, version string) int {
	return (&tool{IOStreams: streams, version: version, open: connect, openToMove: connectToMove}).run(ctx, args)
}

func (t *tool) run(ctx context.Context, args []string) int {
	root := t.command()
	words := args[1:]
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") == completer {
		words = append([]string{cobra.ShellCompRequestCmd}, words...)
	}
	root.SetArgs(words)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return ExitFine
	case errors.Is(err, errFindings):
		return ExitFindings
	case errors.Is(err, errTold):
		return ExitUnread
	default:
		line(t.ErrOut, "error: %s", err)
		return ExitUnread
	}
}

// command is the root of all commands.
func (t *tool) command() *cobra.Command {
	t.config = genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{
		Use:   "kubectl-portcullis",
		Short: "See who has which door of a cluster, which conflicts there are, what applying manifests says, and take over what there is",
		Long: `See who has which door of a cluster, which conflicts there are, what applying manifests says, and take over what there is.

It reads the cluster that kubectl talks to, with your rights, and changes nothing, but for the command move. Portcullis need not be
installed there.

The exit status is 0, 1 where audit or lint have findings that are not just notes, import has something to decide or move was stopped, or 2
where they could not look.`,
		Version:      t.version,
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl portcullis"},
	}
	root.SetIn(t.In)
	root.SetOut(t.Out)
	root.SetErr(t.ErrOut)
	t.config.AddFlags(root.PersistentFlags())
	root.AddCommand(t.auditCommand(), t.doorsCommand(), t.importCommand(), t.lintCommand(), t.moveCommand(), t.whoCommand())
	_ = root.RegisterFlagCompletionFunc("namespace", t.completing("Namespace"))
	return root
}

// completing offers the names of the objects of a kind. Who may not list them has to know them.
func (t *tool) completing(kind string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) (names []string, _ cobra.ShellCompDirective) {
		c, err := t.open(t)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_ = c.Each(cmd.Context(), kindOf(kind), "", "", func(obj runtime.Object) {
			if o, is := obj.(metav1.Object); is && strings.HasPrefix(o.GetName(), prefix) {
				names = append(names, o.GetName())
			}
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// Examples are those of the help of all commands, one line each.
func Examples() (lines []string) {
	for _, cmd := range (&tool{}).command().Commands() {
		for line := range strings.Lines(cmd.Example) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// namespace is the one that the flag or the kubeconfig file names, and whether the flag does.
func (t *tool) namespace() (name string, isGiven bool, err error) {
	return t.config.ToRawKubeConfigLoader().Namespace()
}
