package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// kept is what must stay in all objects of a kind: in each map every entry, in each list every element, and every other
// value as it is. Who only looks before and after does not see what was closed for a moment.
type kept struct {
	// path is where the API server has the objects.
	path string
	// fields are paths in each object, such as "spec.ports".
	fields []string
	// except are those objects whose names begin so; empty for none.
	except string
}

// history is what was told of objects, change by change, since a test began to look.
type history struct {
	api     *api
	changes int
	mu      sync.Mutex
	stop    func()
	// before is what every object said when the test began to look, and lost is what one of them did not say any more.
	before map[string]facts
	lost   []string
}

// facts are what an object says of the fields that are to stay.
type facts []string

// watchHistory looks at objects until the test ends. What is there now has to stay.
func watchHistory(t *testing.T, all ...kept) *history {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := &history{api: newAPI(t), before: map[string]facts{}}
	var looking sync.WaitGroup
	h.stop = func() { cancel(); looking.Wait() }
	t.Cleanup(h.stop)
	versions := make([]string, len(all))
	for i, k := range all {
		seen, version, err := h.list(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) == 0 {
			t.Fatalf("there is nothing to keep at %s", k.path)
		}
		for name, says := range seen {
			h.before[k.path+" "+name] = says
		}
		versions[i] = version
	}
	for i, k := range all { // nobody writes to h.before any more
		looking.Go(func() { h.look(ctx, k, versions[i]) })
	}
	return h
}

// unchanged fails the test with everything that was lost, if only for a moment.
func (h *history) unchanged(t *testing.T) {
	t.Helper()
	h.stop()
	count := 0
	for _, says := range h.before {
		count += len(says)
	}
	t.Logf("%d facts about %d objects, in %d changes", count, len(h.before), h.changes)
	if h.changes == 0 {
		t.Error("nothing was seen to change")
	}
	for i, what := range h.lost {
		if i == enough {
			t.Errorf("and so on, %d in all", len(h.lost))
			return
		}
		t.Error(what)
	}
}

// look follows every change. When a watch ends, as all do, it goes on where that ended, or compares all there is.
func (h *history) look(ctx context.Context, k kept, version string) {
	for ctx.Err() == nil {
		var err error
		if version, err = h.watch(ctx, k, version); err == nil || ctx.Err() != nil {
			continue
		}
		seen, now, err := h.list(ctx, k)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		version = now
		for object := range h.before {
			if name, is := strings.CutPrefix(object, k.path+" "); is {
				h.compare(object, seen[name])
			}
		}
	}
}

// list reads the objects by name, and the version to watch from.
func (h *history) list(ctx context.Context, k kept) (seen map[string]facts, version string, err error) {
	answer, err := h.api.do(ctx, http.MethodGet, k.path, nil)
	if err != nil {
		return nil, "", err
	}
	var all struct {
		Metadata struct{ ResourceVersion string }
		Items    []map[string]any
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, "", err
	}
	seen = map[string]facts{}
	for _, object := range all.Items {
		if name := nameOf(object); k.except == "" || !strings.HasPrefix(name, k.except) {
			seen[name] = k.factsOf(object)
		}
	}
	return seen, all.Metadata.ResourceVersion, nil
}

// watch follows changes from a version on until the API server ends the watch, and returns the version that it came to.
func (h *history) watch(ctx context.Context, k kept, version string) (last string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://localhost"+k.path+"?watch=true&allowWatchBookmarks=true&resourceVersion="+version, http.NoBody)
	if err != nil {
		return version, err
	}
	resp, err := (&http.Client{Transport: h.api.client.Transport}).Do(req) // without the time limit of other requests
	if err != nil {
		return version, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return version, fmt.Errorf("the API server answers %s", resp.Status)
	}
	for events := json.NewDecoder(bufio.NewReader(resp.Body)); ; {
		var event struct {
			Type   string
			Object map[string]any
		}
		if err := events.Decode(&event); err != nil {
			return version, nil // every watch ends
		}
		if event.Type == "ERROR" {
			return version, errors.New("the version is too old")
		}
		version, _ = at(event.Object, "metadata.resourceVersion").(string)
		name := k.path + " " + nameOf(event.Object)
		switch event.Type {
		case "ADDED", "MODIFIED":
			h.compare(name, k.factsOf(event.Object))
		case "DELETED":
			h.compare(name, nil)
		}
	}
}

// compare notes what an object does not say any more.
func (h *history) compare(object string, says facts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes++
	for _, fact := range h.before[object] {
		if !slices.Contains(says, fact) {
			h.lost = append(h.lost, fmt.Sprintf("%s: %s has lost %s", time.Now().Format("15:04:05.000"), object, fact))
		}
	}
}

// factsOf is what an object says of the fields that are to stay.
func (k kept) factsOf(object map[string]any) (says facts) {
	for _, field := range k.fields {
		switch value := at(object, field).(type) {
		case map[string]any:
			for key, entry := range value {
				says = append(says, fmt.Sprintf("%s[%s] = %s", field, key, text(entry)))
			}
		case []any:
			for _, element := range value {
				says = append(says, fmt.Sprintf("%s has %s", field, text(lasting(element))))
			}
		default:
			says = append(says, fmt.Sprintf("%s = %s", field, text(value)))
		}
	}
	return says
}

// lasting is what has to stay of an element: of a condition, that it is met.
func lasting(element any) any {
	if condition, is := element.(map[string]any); is && condition["type"] != nil && condition["status"] != nil {
		return map[string]any{"type": condition["type"], "status": condition["status"]}
	}
	return element
}

// at is the value at a path of an object, nil if there is none.
func at(object map[string]any, path string) any {
	var value any = object
	for name := range strings.SplitSeq(path, ".") {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}

func nameOf(object map[string]any) string {
	namespace, _ := at(object, "metadata.namespace").(string)
	name, _ := at(object, "metadata.name").(string)
	return strings.TrimPrefix(namespace+"/"+name, "/")
}

func text(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(content)
}
