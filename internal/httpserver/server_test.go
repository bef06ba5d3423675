package httpserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// TestLongHeaders: what a client may have kept in memory before anybody knows it is bounded.
func TestLongHeaders(t *testing.T) {
	listener, err := Listen("127.0.0.1:0", nil, 4)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	server := New("test", listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	go func() { ended <- server.Start(ctx) }()
	for length, want := range map[int]int{
		100:            http.StatusOK,
		mostHeader:     http.StatusOK, // the token of somebody with many groups
		6 * mostHeader: http.StatusRequestHeaderFieldsTooLarge,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.Repeat("x", length))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a header of %d bytes is answered %s, want %d", length, resp.Status, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestErrorLog(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 0})
	for _, line := range []string{"http: TLS handshake error from 10.0.0.1:2: EOF\n", "http: panic serving 10.0.0.1:2: oh\n"} {
		if _, err := fmt.Fprint(errorLog{logger}, line); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "panic serving") {
		t.Errorf("logged is %q, want only what is not a handshake", lines)
	}
}
