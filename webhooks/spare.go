package webhooks

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// spare are the connections that nobody uses and that are kept for the next request. They are few on purpose: when a
// node dies, nobody closes its connections, and the API server finds out about each by a request that fails. Requests on
// new connections go where the Service leads, and so to replicas that live.
//
// But each API server has one while its requests follow each other, for a new connection may lead to a dead node even
// when the Service does not: the kernel goes on with what it has once decided for the same two ports, and does so for two
// minutes after an attempt that nobody answered. Who has a connection, and waits for another one, takes the first that
// is free.
type spare struct {
	now func() time.Time

	mu sync.Mutex
	// since is when each has had its last answer, by its remote address.
	since map[netip.AddrPort]time.Time
	// busy is how many requests are being answered.
	busy int
	// second is the current one, and requests are those of it and of the one before.
	second           int64
	requests, before int
}

const (
	// perSpare is how many requests a second are worth another spare connection. Where many come, a dead connection is
	// found out at once, and new ones for all of them would cost. For the same reason there are as many as requests that
	// are being answered: of a crowd half the connections stay, and go one by one with the requests that come after it.
	perSpare = 50
	// forgotten is how long the API server keeps a connection that it does not use.
	forgotten = 90 * time.Second
	// dialing is how long the API server may take for a new connection.
	dialing = time.Second
)

func newSpare(now func() time.Time) *spare {
	return &spare{now: now, since: map[netip.AddrPort]time.Time{}}
}

// use takes note of a request on a connection.
func (s *spare) use(remote netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn()
	s.requests++
	s.busy++
	now := s.now()
	_, known := s.since[remote]
	delete(s.since, remote)
	for other, since := range s.since {
		// Whoever opens a connection has none to spare: of a crowd's connections the API server keeps 25, and before
		// Kubernetes 1.37 those for another path are of no use to it.
		outdated := !known && other.Addr() == remote.Addr() && now.Sub(since) > dialing
		if outdated || now.Sub(since) > forgotten {
			delete(s.since, other)
		}
	}
}

// keep says whether a connection is worth keeping, on which the request is about to be answered that was noted by use.
// It is of no worth when nobody waits for the answer.
func (s *spare) keep(remote netip.AddrPort, awaited bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn()
	s.busy--
	kept := 0
	for other := range s.since {
		if other.Addr() == remote.Addr() {
			kept++
		}
	}
	// The request after a single one may come when the node is long gone.
	single := s.requests+s.before < 2
	if !awaited || single || kept > max(s.busy, max(s.requests, s.before)/perSpare) {
		return false
	}
	s.since[remote] = s.now()
	return true
}

// turn begins another second when it is time.
func (s *spare) turn() {
	second := s.now().Unix()
	if second == s.second {
		return
	}
	if second != s.second+1 {
		s.requests = 0 // there was none in the one before
	}
	s.second, s.before, s.requests = second, s.requests, 0
}

// reply asks for its connection to be closed unless it is kept. That is said in the answer, as late as can be.
type reply struct {
	http.ResponseWriter
	keep func() bool
	said bool
}

// Write implements http.ResponseWriter.
func (r *reply) Write(b []byte) (int, error) {
	r.say()
	return r.ResponseWriter.Write(b)
}

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(code int) {
	r.say()
	r.ResponseWriter.WriteHeader(code)
}

func (r *reply) say() {
	if !r.said && !r.keep() {
		r.Header().Set("Connection", "close")
	}
	r.said = true
}
