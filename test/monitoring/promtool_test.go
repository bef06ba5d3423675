//go:build monitoring

package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program is the path of prometheus or promtool, which `make monitoring` has built.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("PROMETHEUS_ASSETS")
	if dir == "" {
		t.Fatal("PROMETHEUS_ASSETS is not set: run `make monitoring`")
	}
	return filepath.Join(dir, name)
}

// TestAlerts lets every alert fire in its scenario, and none in a healthy hour.
func TestAlerts(t *testing.T) {
	promtool := program(t, "promtool")
	dir := t.TempDir()
	_, rules := alerts(t)
	for name, content := range map[string][]byte{"rules.yaml": rules, "alerts.yaml": read(t, "test", "monitoring", "alerts.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "alerts.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
