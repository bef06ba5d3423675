//go:build monitoring

package monitoring

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// patience is how long a test waits for what should come within moments: machines are busy.
const patience = 5 * time.Minute

// eventually waits until check returns nil, and fails the test with its last error when that takes too long.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && t.Context().Err() == nil; time.Sleep(200 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("waiting for %s: %v", what, err)
}

// prometheus is a running Prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts a Prometheus with a configuration, which may name files of dir.
func startPrometheus(t *testing.T, dir, config string) *prometheus {
	t.Helper()
	binary := program(t, "prometheus")
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--config.file=prometheus.yaml", "--storage.tsdb.path=data",
		"--web.listen-address="+address, "--log.level=warn")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	running, err := controlplane.Launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(0); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("log of Prometheus:\n%s", text)
		}
	})
	p := &prometheus{t, "http://" + address}
	if err := running.Answers(t.Context(), p.url+"/-/ready", patience); err != nil {
		t.Fatal(err)
	}
	return p
}

// get asks the HTTP API, and reads the data of the answer.
func (p *prometheus) get(path string, values url.Values, data any) error {
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+"/api/v1/"+path+"?"+values.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var result struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil {
		return err
	}
	if result.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, result.Error)
	}
	return json.Unmarshal(result.Data, data)
}

// values evaluates an expression now: the numbers it gives. What is not a number is left out.
func (p *prometheus) values(expr string) (numbers []float64, err error) {
	var data struct {
		Result []struct {
			Value [2]any `json:"value"`
		} `json:"result"`
	}
	if err := p.get("query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	for _, sample := range data.Result {
		text, _ := sample.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
			numbers = append(numbers, v)
		}
	}
	return numbers, nil
}

// unanswered are those of the queries that give no number yet, each with what it gives.
func (p *prometheus) unanswered(queries []query) (open []query, err error) {
	var problems []string
	for _, q := range queries {
		expr := strings.ReplaceAll(q.expr, "$__rate_interval", "15s")
		numbers, err := p.values(expr)
		if err == nil && len(numbers) > 0 {
			continue
		}
		open = append(open, q)
		problems = append(problems, fmt.Sprintf("%s: %s: %v", q.panel, expr, err))
	}
	if len(open) > 0 {
		return open, fmt.Errorf("no data for:\n%s", strings.Join(problems, "\n"))
	}
	return nil, nil
}

// names are the names of all metrics that were scraped.
func (p *prometheus) names() (names []string) {
	p.t.Helper()
	if err := p.get("label/__name__/values", nil, &names); err != nil {
		p.t.Fatal(err)
	}
	return names
}
