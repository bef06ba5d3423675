package kube

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/internal/guard"
)

// Guard has what others open guarded: the Gateway API is read from now on, if that concerns it.
func (g *Gateways) Guard(actions guard.Actions) {
	g.Guarded = actions
	if len(g.guardedKinds()) > 0 {
		g.Ask()
	}
}

// CheckRead is a check of readiness: whether all is read of what guarded kinds are decided by.
func (g *Gateways) CheckRead(req *http.Request) error {
	if len(g.guardedKinds()) == 0 {
		return nil
	}
	err := g.Read(req.Context())
	if g.unreadFor(IsUnread(err)) > readPatience {
		return nil
	}
	return err
}

// readPatience is how long a replica waits for guarded kinds to be read before it answers without: what else it decides does not wait for
// kinds that can't be read.
const readPatience = time.Minute

// Read is an error until all is read of what guarded kinds are decided by.
func (g *Gateways) Read(ctx context.Context) error {
	if len(g.guardedKinds()) == 0 {
		return nil
	}
	for _, kind := range g.guardedKinds() {
		if _, err := g.isInstalled(ctx, kind); err != nil {
			return err
		}
	}
	if _, err := g.prepared(ctx); err != nil {
		return err
	}
	return g.followed(ctx)
}

// missingFor is for how long a kind that is not installed is not looked for: that asks the API server, and each decision reads.
const missingFor = time.Second

// isInstalled says what isKnown does, but does not look again a moment later for a kind that was not there.
func (g *Gateways) isInstalled(ctx context.Context, kind client.Object) (known bool, err error) {
	name := fmt.Sprintf("%T", kind)
	if _, missing := g.missing.Get(name); missing {
		return false, nil
	}
	if known, err = g.isKnown(ctx, kind); err == nil && !known {
		g.missing.Set(name, nil, missingFor)
	}
	return known, err
}

// followed makes sure that departures of guarded objects are remembered.
func (g *Gateways) followed(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, kind := range g.guardedKinds() {
		name := fmt.Sprintf("%T", kind)
		if g.indexed[name] {
			continue
		}
		if known, err := g.isInstalled(ctx, kind); err != nil || !known {
			continue
		}
		if err := g.departures.follow(ctx, g.objects.informers, kind); err != nil {
			return err
		}
		g.indexed[name] = true
	}
	return nil
}

// Start reads what guarded kinds are decided by as soon as they are installed, until the context ends.
func (g *Gateways) Start(ctx context.Context) error {
	if len(g.guardedKinds()) == 0 {
		return nil
	}
	for {
		if err := g.Read(ctx); err != nil && !IsUnread(err) && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("could not read what is guarded, trying again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(readEvery):
		}
	}
}

// readEvery is how often it is looked whether guarded kinds are installed by now, and read.
const readEvery = 2 * time.Second

// NeedLeaderElection says that every replica reads: all of them answer admission requests.
func (g *Gateways) NeedLeaderElection() bool { return false }
