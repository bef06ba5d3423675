package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// creator is one of several users who want the same thing at the same time: with a namespace and connections of its own.
type creator struct {
	client.Client
	namespace string

	mu   sync.Mutex
	open map[net.Conn]bool
}

// creators makes n users and their namespaces, <prefix>-0 and so on.
func (w *fixture) creators(prefix string, n int) []*creator {
	w.t.Helper()
	all := make([]*creator, n)
	for i := range all {
		c := &creator{namespace: fmt.Sprintf("%s-%d", prefix, i), open: map[net.Conn]bool{}}
		config := w.Config()
		config.Dial, config.WarningHandlerWithContext = c.dial, hears{}
		var err error
		if c.Client, err = client.New(config, client.Options{Scheme: harness.Scheme(), Mapper: w.Client.RESTMapper()}); err != nil {
			w.t.Fatal(err)
		}
		w.create(namespace(c.namespace))
		all[i] = c
	}
	return all
}

// heard are the warnings that came with the answers to requests.
type heard struct {
	mu    sync.Mutex
	texts []string
}

// hearing is a context with which the requests of creators are made, to have their warnings.
func hearing(ctx context.Context) (context.Context, *heard) {
	h := &heard{}
	return context.WithValue(ctx, heardKey{}, h), h
}

type heardKey struct{}

// said are the warnings in one text.
func (h *heard) said() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.texts, "\n")
}

// hears keeps warnings for whom is hearing, and drops all others.
type hears struct{}

// HandleWarningHeaderWithContext keeps a warning.
func (hears) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, text string) {
	if h, ok := ctx.Value(heardKey{}).(*heard); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.texts = append(h.texts, text)
	}
}

func (c *creator) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = true
	return conn, nil
}

// cut closes all connections of a user, as a crash of its machine would.
func (c *creator) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close()
		delete(c.open, conn)
	}
}

// insist creates an object, and tries again for as long as it is told neither yes nor no: a busy API server has time-outs
// of its own.
func (c *creator) insist(ctx context.Context, obj client.Object) error {
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Second) {
		err = c.Create(ctx, obj)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			return nil
		case apierrors.IsInvalid(err):
			return err
		}
	}
	return err
}

// create creates a stream as `kubectl create` does, and apply as `kubectl apply --server-side` does.
func create(ctx context.Context, c client.Client, s *v1beta1.StreamIngress) error {
	return c.Create(ctx, s)
}

func apply(ctx context.Context, c client.Client, s *v1beta1.StreamIngress) error {
	s.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("StreamIngress"))
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		return err
	}
	delete(fields, "status")
	said := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
	return c.Apply(ctx, said, client.FieldOwner("user"), client.ForceOwnership)
}

// answers are what the users of one round were told.
type answers struct {
	// yes are the numbers of those who were told yes.
	yes []int
	// no is how many were refused.
	no int
	// unclear are the errors that are no verdict.
	unclear []error
}

// all lets every user try at the same moment.
func all(users []*creator, try func(i int, c *creator) error) answers {
	errs := make([]error, len(users))
	begin := make(chan struct{})
	var group sync.WaitGroup
	for i, c := range users {
		group.Go(func() {
			<-begin
			errs[i] = try(i, c)
		})
	}
	close(begin)
	group.Wait()
	var got answers
	for i, err := range errs {
		switch {
		case err == nil:
			got.yes = append(got.yes, i)
		case apierrors.IsInvalid(err):
			got.no++
		default:
			got.unclear = append(got.unclear, fmt.Errorf("%s: %w", users[i].namespace, err))
		}
	}
	return got
}

// tally counts what came of many rounds.
type tally struct {
	rounds, decided, yes, no, unclear int
	last                              error
}

// mustBeOne adds a round for one free port: one yes, and none only when somebody got no verdict.
func (y *tally) mustBeOne(w *fixture, round int, got answers) {
	w.t.Helper()
	y.add(got)
	if len(got.yes) > 1 {
		w.t.Errorf("round %d: %d users were told yes for one port: %v", round, len(got.yes), got.yes)
	}
	if len(got.yes) == 0 && len(got.unclear) == 0 {
		w.t.Errorf("round %d: the port was free, and all %d users were refused", round, got.no)
	}
}

func (y *tally) add(got answers) {
	y.rounds++
	y.yes += len(got.yes)
	y.no += got.no
	y.unclear += len(got.unclear)
	if len(got.unclear) == 0 {
		y.decided++
	} else {
		y.last = got.unclear[0]
	}
}

// report logs the counts. Where nothing was disturbed, most rounds have to be free of errors, or nothing was tested.
func (y *tally) report(w *fixture, disturbed bool) {
	w.t.Helper()
	w.t.Logf("%d rounds, %d without errors: %d yes, %d no, %d without a verdict, the last: %v",
		y.rounds, y.decided, y.yes, y.no, y.unclear, y.last)
	if !disturbed && y.decided*2 < y.rounds {
		w.t.Errorf("only %d of %d rounds had a verdict for everybody, the last error was: %v", y.decided, y.rounds, y.last)
	}
}

// decisions is how many decisions on objects of a kind a replica has counted.
func decisions(w *fixture, r *harness.Replica, kind string) (total float64) {
	w.t.Helper()
	for line, value := range metrics(w, r.Metrics+"/metrics", http.DefaultClient) {
		if strings.HasPrefix(line, "portcullis_admission_decisions_total{") && strings.Contains(line, `kind="`+kind+`"`) {
			total += value
		}
	}
	return total
}

// metrics reads an endpoint: values by name and labels.
func metrics(w *fixture, url string, from *http.Client) map[string]float64 {
	w.t.Helper()
	values, err := scrape(w.t.Context(), url, from)
	must(w, err)
	return values
}

func scrape(ctx context.Context, url string, from *http.Client) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := from.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, text, found := cutLast(lines.Text())
		if value, err := strconv.ParseFloat(text, 64); found && err == nil && !strings.HasPrefix(name, "#") {
			values[name] = value
		}
	}
	return values, lines.Err()
}

// failedOpen is how many requests the API server has let pass as no replica answered in time, of webhooks whose name begins so.
func (w *fixture) failedOpen(webhook string) (n int) {
	w.t.Helper()
	c, err := rest.HTTPClientFor(w.Config())
	must(w, err)
	for name, value := range metrics(w, w.Config().Host+"/metrics", c) {
		if strings.HasPrefix(name, "apiserver_admission_webhook_fail_open_count{") && strings.Contains(name, `"`+webhook) {
			n += int(value)
		}
	}
	return n
}

// cutLast splits at the last space.
func cutLast(line string) (before, after string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}
