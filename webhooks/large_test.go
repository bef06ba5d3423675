package webhooks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestLargeRequestsWaitForEachOther has as many large requests answered as there is room for, and others come then.
func TestLargeRequestsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeServer{}
		answered := make(chan struct{})
		newDraining(fake).Register("/validate", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answered }))
		ask := func(size int64) (code chan int) {
			code = make(chan int, 1)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate?timeout=3s", http.NoBody)
			r.ContentLength = size
			go func() {
				answer := httptest.NewRecorder()
				fake.hook.ServeHTTP(answer, r)
				code <- answer.Code
			}()
			synctest.Wait()
			return code
		}
		largest, unknown := ask(99<<20), ask(-1)
		fits := ask(largeBodies - 2*mostBody)
		late, small := ask(largeBody+1), ask(largeBody)
		if got := <-late; got != http.StatusServiceUnavailable {
			t.Errorf("a request for which there is no room is told %d", got)
		}
		waits := ask(3 << 20)
		close(answered)
		for name, code := range map[string]chan int{
			"the largest": largest, "one of unknown size": unknown, "one that fits": fits, "a small one": small, "one that had to wait": waits,
		} {
			if got := <-code; got != http.StatusOK {
				t.Errorf("%s is told %d", name, got)
			}
		}
	})
}

// TestLargeRequestsOfAFullNamespaceAreAnsweredAtOnce has a tenant ask for a point by large requests, time and again, while its
// namespace may have no more: a large request of another waits for none of the seconds that small ones wait there.
func TestLargeRequestsOfAFullNamespaceAreAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		promises := &claim.Promises{
			Stored: func(context.Context, claim.Claimant) bool { return false }, Clock: clock.RealClock{}, Grace: claim.DefaultGrace, Most: 1,
		}
		open := func(ctx context.Context, uid types.UID) error {
			by := claim.Claimant{Holder: claim.StreamHolder("full", string(uid)), UID: uid}
			_, err := promises.Open(ctx, by, claim.Stream("public", v1beta1.TCP, 80))
			return err
		}
		if err := open(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		fake := &fakeServer{}
		newDraining(fake).Register("/validate", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := open(r.Context(), "another"); err != nil {
				http.Error(w, err.Error(), http.StatusTooManyRequests)
			}
		}))
		took := func(size int64) time.Duration {
			began, answer := time.Now(), httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate?timeout=3s", http.NoBody)
			r.ContentLength = size
			fake.hook.ServeHTTP(answer, r)
			if answer.Code != http.StatusTooManyRequests {
				t.Errorf("a request of %d bytes is told %d", size, answer.Code)
			}
			return time.Since(began)
		}
		if small, large := took(largeBody), took(mostBody); small == 0 || large != 0 {
			t.Errorf("a small request waits for %s, and a large one for %s", small, large)
		}
	})
}

// TestSlowRequestsTakeNoRoom has somebody announce large requests and send nothing of them: those of others wait no longer than an
// API server would.
func TestSlowRequestsTakeNoRoom(t *testing.T) {
	fake := &fakeServer{}
	begun := make(chan struct{}, 8)
	newDraining(fake).Register("/validate", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	server := httptest.NewServer(fake.hook)
	t.Cleanup(server.Close)
	for range largeBodies / mostBody {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "POST /validate?timeout=1s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", mostBody); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	body := bytes.NewReader(make([]byte, mostBody))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/validate?timeout=30s", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a large request of another is told %s", resp.Status)
	}
}
