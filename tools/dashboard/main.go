// Command dashboard writes the Grafana dashboard of Portcullis to standard output. What it shows is in rows.go.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(grafana("portcullis", "Portcullis", rows)); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}
