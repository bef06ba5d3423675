package plugin

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// formats are those of -o.
var formats = []string{"table", "wide", "json", "yaml"}

// output is the flag -o.
type output string

func (o *output) addTo(cmd *cobra.Command) {
	*o = "table"
	cmd.Flags().VarP(o, "output", "o", "how it is told: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// String is the format.
func (o *output) String() string { return string(*o) }

// Set reads a format.
func (o *output) Set(text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("want one of %s", strings.Join(formats, ", "))
	}
	*o = output(text)
	return nil
}

// Type is what the help calls the value.
func (o *output) Type() string { return "format" }

// print writes a report: as it is, or as a table.
func (o *output) print(to io.Writer, report runtime.Object, table *metav1.Table) error {
	switch *o {
	case "json":
		var text bytes.Buffer
		if err := (&printers.JSONPrinter{}).PrintObj(report, &text); err != nil {
			return err
		}
		_, err := io.WriteString(to, inJSON(text.String()))
		return err
	case "yaml":
		return (&printers.YAMLPrinter{}).PrintObj(report, to)
	}
	if len(table.Rows) == 0 {
		return nil
	}
	for i := range table.Rows {
		for j, cell := range table.Rows[i].Cells {
			table.Rows[i].Cells[j] = clean(fmt.Sprint(cell))
		}
	}
	var text bytes.Buffer
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: *o == "wide"}).PrintObj(table, &text); err != nil {
		return err
	}
	if !hasColors(to) {
		_, err := text.WriteTo(to)
		return err
	}
	_, err := io.WriteString(to, colored(text.String()))
	return err
}

// column is one of a table; those that are wide are told with -o wide alone.
func column(name string, wide bool) metav1.TableColumnDefinition {
	c := metav1.TableColumnDefinition{Name: name, Type: "string"}
	if wide {
		c.Priority = 1
	}
	return c
}

// colors are those of lines, by their first word.
var colors = map[string]string{"error": "\x1b[31m", "warning": "\x1b[33m", "note": "\x1b[36m"}

// colored has the first word of each line in its color, and the first line in bold letters.
func colored(text string) string {
	const end = "\x1b[0m"
	var all strings.Builder
	isFirst := true
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(line, " ")
		switch color := colors[word]; {
		case isFirst:
			fmt.Fprintf(&all, "\x1b[1m%s%s\n", strings.TrimSuffix(line, "\n"), end)
		case color != "":
			fmt.Fprintf(&all, "%s%s%s%s", color, word, end, line[len(word):])
		default:
			all.WriteString(line)
		}
		isFirst = false
	}
	return all.String()
}

// hasColors says whether what is written is seen by somebody who has not asked for no colors.
func hasColors(to io.Writer) bool {
	return isTerminal(to) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(to io.Writer) bool {
	f, is := to.(*os.File)
	return is && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor
}

// age is how long ago something was, as kubectl has it.
func age(since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since))
}
