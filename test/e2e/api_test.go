package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// api speaks to the API server as the user of kubectl does, without a process for each request. It never tries again.
type api struct {
	client *http.Client
}

// newAPI starts kubectl proxy for one test. It listens on a socket, which is reached from every network namespace.
func newAPI(t *testing.T) *api {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "api")
	cmd := exec.Command(target.kubectl[0], slices.Concat(target.kubectl[1:], []string{"proxy", "--unix-socket=" + socket})...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a script may have started kubectl
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	a := &api{client: &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 100}, Timeout: 40 * time.Second}}
	eventually(t, "kubectl proxy to serve", func() error {
		_, err := a.do(t.Context(), http.MethodGet, "/readyz", nil)
		return err
	})
	return a
}

// refusal is an answer that is no yes.
type refusal struct {
	Code    int
	Message string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d: %s", r.Code, r.Message) }

// do makes one request and returns what was answered, or a *refusal.
func (a *api) do(ctx context.Context, method, path string, body any) (answer []byte, err error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		refused := &refusal{Code: resp.StatusCode, Message: string(answer)}
		_ = json.Unmarshal(answer, refused) // a Status says it better than its JSON
		return nil, refused
	}
	return answer, nil
}
