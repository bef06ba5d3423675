package adversary

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// act is something that somebody is about to do.
type act struct {
	// what it is, in one line.
	what string
	do   func(context.Context) error
}

// kind is a kind of acts. Which one it is follows from random numbers alone, and from no answer: so a seed replays them.
type kind struct {
	name   string
	weight int
	draw   func(*user, *rand.Rand) act
}

// act has everybody act until ctx ends, while o observes.
func (s *stage) act(ctx context.Context, o *observer, chosen *regexp.Regexp) {
	var actors sync.WaitGroup
	for i, u := range s.users {
		actors.Go(func() { s.actAs(ctx, u, ofTenants, chosen, uint64(i), *rate) })
	}
	administrator := &user{Client: s.Client, name: "administrator"}
	actors.Go(func() { s.actAs(ctx, administrator, ofAdministrator, chosen, 100, 0.4) })
	ofChance := []kind{
		{"kill", 7, func(_ *user, rng *rand.Rand) act { return s.replicas.kill(rng) }},
		{"disturb answers", 3, func(_ *user, rng *rand.Rand) act { return s.disturb(rng) }},
		{"break glass", 1, func(_ *user, rng *rand.Rand) act { return s.breakGlass(o, rng) }},
	}
	actors.Go(func() { s.actAs(ctx, &user{name: "chance"}, ofChance, chosen, 101, 0.07) })
	actors.Wait()
}

// actAs has one user begin some acts a second.
func (s *stage) actAs(ctx context.Context, u *user, kinds []kind, chosen *regexp.Regexp, index uint64, rate float64) {
	rng := rand.New(rand.NewPCG(*seed, index))
	var drawn []kind
	for _, k := range kinds {
		for range k.weight {
			if chosen.MatchString(k.name) {
				drawn = append(drawn, k)
			}
		}
	}
	if len(drawn) == 0 {
		return
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.history.perform(ctx, u.name, drawn[rng.IntN(len(drawn))].draw(u, rng))
	}
}

// history remembers the last acts and how they were answered.
type history struct {
	mu    sync.Mutex
	total int
	last  []string
}

// remembered is how many acts a failure tells.
const remembered = 200

// perform does something, and remembers the answer.
func (h *history) perform(ctx context.Context, who string, a act) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := a.do(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total++
	line := fmt.Sprintf("%s +%-6v %s: %s -> %s", began.UTC().Format("15:04:05.000"), time.Since(began).Round(time.Millisecond), who, a.what, answer(err))
	h.last = append(h.last, line)
	if len(h.last) > 2*remembered {
		h.last = append(h.last[:0], h.last[len(h.last)-remembered:]...)
	}
}

// answer is what the API server has said, short.
func answer(err error) string {
	const enough = 160
	if err == nil {
		return "done"
	}
	text := err.Error()
	if reason := apierrors.ReasonForError(err); reason != "" {
		text = string(reason) + ": " + text
	}
	return strings.ReplaceAll(text[:min(len(text), enough)], "\n", " ")
}

func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

func (h *history) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.last[max(0, len(h.last)-remembered):], "\n")
}

// pick is one of several.
func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// creates is the creation of an object.
func creates(u *user, obj client.Object, what string) act {
	return act{
		what: fmt.Sprintf("create %s %s: %s", kindOf(obj), client.ObjectKeyFromObject(obj), what),
		do:   func(ctx context.Context) error { return u.Create(ctx, obj.DeepCopyObject().(client.Object)) },
	}
}

// merges is a JSON merge patch of an object.
func merges(u *user, obj client.Object, patch string) act {
	return act{
		what: fmt.Sprintf("patch %s %s: %s", kindOf(obj), client.ObjectKeyFromObject(obj), patch),
		do: func(ctx context.Context) error {
			return u.Patch(ctx, obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
		},
	}
}

// deletes is the deletion of an object.
func deletes(u *user, obj client.Object) act {
	return act{
		what: fmt.Sprintf("delete %s %s", kindOf(obj), client.ObjectKeyFromObject(obj)),
		do:   func(ctx context.Context) error { return u.Delete(ctx, obj.DeepCopyObject().(client.Object)) },
	}
}

// then does acts one after the other, whatever becomes of each.
func then(acts ...act) act {
	return several(acts, func(ctx context.Context, errs []error) {
		for i := range acts {
			errs[i] = acts[i].do(ctx)
		}
	})
}

// atOnce does acts at the same time.
func atOnce(acts ...act) act {
	return several(acts, func(ctx context.Context, errs []error) {
		var all sync.WaitGroup
		for i := range acts {
			all.Go(func() { errs[i] = acts[i].do(ctx) })
		}
		all.Wait()
	})
}

func several(acts []act, do func(ctx context.Context, errs []error)) act {
	var what []string
	for _, a := range acts {
		what = append(what, a.what)
	}
	return act{what: strings.Join(what, "; "), do: func(ctx context.Context) error {
		errs := make([]error, len(acts))
		do(ctx, errs)
		return errors.Join(errs...)
	}}
}

func kindOf(obj client.Object) string {
	text := fmt.Sprintf("%T", obj)
	return text[strings.LastIndexByte(text, '.')+1:]
}
