package plugin

import (
	"os"

	"github.com/spf13/cobra"
)

// pipeline are the files that findings are written to for pipelines, none where empty.
type pipeline struct{ junit, sarif string }

func (p *pipeline) addFilesTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.junit, "junit", "", "also write the findings to this `file`, as JUnit has them")
	cmd.Flags().StringVar(&p.sarif, "sarif", "", "also write the findings to this `file`, in SARIF 2.1.0")
}

// write writes the files that are asked for.
func (p *pipeline) write(junit, sarif func() ([]byte, error)) error {
	for _, file := range []struct {
		path string
		text func() ([]byte, error)
	}{{p.junit, junit}, {p.sarif, sarif}} {
		if file.path == "" {
			continue
		}
		text, err := file.text()
		if err == nil {
			err = os.WriteFile(file.path, text, 0o644) //nolint:gosec // others read it, too
		}
		if err != nil {
			return err
		}
	}
	return nil
}
