package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// serve runs a registry, behind a door, and returns its address. From now on the test has no credentials.
func serve(t *testing.T, door func(http.Handler) http.Handler) string {
	t.Helper()
	configure(t, `{}`)
	handler := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	server := httptest.NewServer(door(handler))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// configure is the Docker configuration of the test.
func configure(t *testing.T, config string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// open lets everybody in, and password whoever says the right one.
func open(h http.Handler) http.Handler { return h }

func password(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, secret, _ := r.BasicAuth(); user != "robot" || secret != "open sesame" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// readOnly lets everybody pull and nobody push.
func readOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, `{"errors":[{"code":"DENIED","message":"requested access is denied"}]}`, http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// pushed pushes an image and returns the reference that it was told.
func pushed(t *testing.T, o options) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), o, standIn, &out); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func TestPush(t *testing.T) {
	o := asked(t, serve(t, open)+"/team/portcullis:v1", "--push")
	said := pushed(t, o)
	repository, digest, _ := strings.Cut(said, "@")
	if repository != o.given {
		t.Errorf("it says %q", said)
	}
	programs := map[string][]byte{}
	for _, p := range both {
		program, err := standIn(t.Context(), o.version, p)
		if err != nil {
			t.Fatal(err)
		}
		if programs[p.Architecture], err = readStatic(program, p); err != nil {
			t.Fatal(err)
		}
	}
	// By tag and by digest it is the same.
	for _, reference := range []string{o.given, o.tag.Context().Name() + "@" + digest} {
		parsed, err := name.ParseReference(reference)
		if err != nil {
			t.Fatal(err)
		}
		index, err := remote.Index(parsed, remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Error(err)
		}
		checkIndex(t, index, readOrigin(t.Context(), ".", o.version), programs)
	}
	if _, err := os.Stat(o.archive); err == nil {
		t.Error("there is an archive that nobody asked for")
	}
}

func TestPushAgainChangesNothing(t *testing.T) {
	o := asked(t, serve(t, open)+"/portcullis:v1", "--push")
	if first, again := pushed(t, o), pushed(t, o); first != again {
		t.Errorf("first %s, then %s", first, again)
	}
}

func TestPushTakesCredentialsFromTheDockerConfiguration(t *testing.T) {
	o := asked(t, serve(t, password)+"/portcullis:v1", "--push")
	configure(t, `{"auths":{"`+o.tag.RegistryStr()+`":{"username":"robot","password":"open sesame"}}}`)
	if said := pushed(t, o); !strings.HasPrefix(said, o.given+"@sha256:") {
		t.Errorf("it says %q", said)
	}
}

func TestPushIsRefusedBeforeAnythingIsCompiled(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for what, c := range map[string]struct {
		registry, want string
	}{
		"no credentials": {serve(t, password), "does not let you push portcullis (docker login gives credentials"},
		"no permission":  {serve(t, readOnly), "DENIED: requested access is denied"},
		"no registry":    {strings.TrimPrefix(gone.URL, "http://"), "connection refused"},
	} {
		err := run(t.Context(), asked(t, c.registry+"/portcullis:v1", "--push"), noCompiler(t), io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.registry) {
			t.Errorf("%s: the error is %v, want %q", what, err, c.want)
			continue
		}
		if strings.Contains(strings.TrimSpace(err.Error()), "\n") {
			t.Errorf("%s: the error has more than one line: %q", what, err)
		}
	}
}

// TestAnInterruptEndsTheQuestion asks a registry that never answers.
func TestAnInterruptEndsTheQuestion(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	address := serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done() // until the client has gone
		})
	})
	err := run(ctx, asked(t, address+"/portcullis:v1", "--push"), noCompiler(t), io.Discard)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
