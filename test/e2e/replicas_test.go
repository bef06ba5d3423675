package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// system is the namespace of Portcullis.
const system = "portcullis-system"

// replica is what the tests read of the pods of Portcullis.
type replica struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp *string
	}
	Spec   struct{ NodeName string }
	Status struct {
		PodIP             string
		ContainerStatuses []struct {
			Ready       bool
			ContainerID string
		}
	}

	// identity is that of the process in the Lease, while it leads.
	identity string
}

func (r replica) ready() bool {
	return r.Metadata.DeletionTimestamp == nil && len(r.Status.ContainerStatuses) == 1 && r.Status.ContainerStatuses[0].Ready
}

// replicas waits until there are two of them, both ready, and nothing of any other.
func replicas(t *testing.T) (found []replica) {
	t.Helper()
	eventually(t, "two ready replicas", func() error {
		var err error
		found, err = list[replica]("pods", "-n", system, "-l", "app.kubernetes.io/component=manager")
		if err != nil || len(found) != 2 || !found[0].ready() || !found[1].ready() {
			return fmt.Errorf("there are %+v: %w", found, err)
		}
		return nil
	})
	return found
}

// restart replaces all replicas as a user does, and waits until the new ones are there.
func restart(t *testing.T) {
	t.Helper()
	kubectl(t, "rollout", "restart", "deployment/portcullis", "-n", system)
	rollOut(t)
}

// rollOut waits until the replicas are those of the Deployment.
func rollOut(t *testing.T) {
	t.Helper()
	kubectl(t, "rollout", "status", "deployment/portcullis", "-n", system, "--timeout="+patience.String())
}

// leader waits until a replica that is there holds the Lease.
func leader(t *testing.T) (leading replica) {
	t.Helper()
	eventually(t, "a leader", func() error {
		lease, err := read[struct {
			Spec struct{ HolderIdentity string }
		}]("lease", "portcullis", "-n", system)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(lease.Spec.HolderIdentity, "_")
		if name == "" {
			return fmt.Errorf("the Lease is held by nobody")
		}
		leading, err = read[replica]("pod", name, "-n", system)
		leading.identity = lease.Spec.HolderIdentity
		return err
	})
	return leading
}

// awaitOther waits until another process than the former leads.
func awaitOther(t *testing.T, former replica) replica {
	t.Helper()
	var next replica
	eventually(t, "another leader", func() error {
		if next = leader(t); next.identity == former.identity {
			return fmt.Errorf("it is still %s", former.identity)
		}
		return nil
	})
	return next
}

// process is the program of a replica. The nodes of the script's cluster are namespaces of this machine, which sees all
// that runs on them.
func process(t *testing.T, of replica) (pid int) {
	t.Helper()
	_, container, _ := strings.Cut(of.Status.ContainerStatuses[0].ContainerID, "://")
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil || container == "" {
		t.Fatalf("%s is container %q: %v", of.Metadata.Name, container, err)
	}
	for _, file := range groups {
		group, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(group), container) {
			continue // it has ended, or is another's
		}
		if pid, err = strconv.Atoi(filepath.Base(filepath.Dir(file))); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatalf("%s has no process", of.Metadata.Name)
	return 0
}

// withArgs has the replicas run with further arguments until the test ends.
func withArgs(t *testing.T, args ...string) {
	t.Helper()
	const path = "/spec/template/spec/containers/0/args"
	former := kubectl(t, "get", "deployment", "portcullis", "-n", system, "-o", "jsonpath={.spec.template.spec.containers[0].args}")
	run := func(ops ...string) {
		kubectl(t, "patch", "deployment", "portcullis", "-n", system, "--type=json", "-p", "["+strings.Join(ops, ",")+"]")
		rollOut(t)
		replicas(t)
	}
	t.Cleanup(func() { run(fmt.Sprintf(`{"op":"replace","path":%q,"value":%s}`, path, former)) })
	var ops []string
	for _, arg := range args {
		ops = append(ops, fmt.Sprintf(`{"op":"add","path":%q,"value":%q}`, path+"/-", arg))
	}
	run(ops...)
}

// kill ends a replica as a crash would. It returns the time just before.
func kill(t *testing.T, victim replica) time.Time {
	t.Helper()
	id := process(t, victim)
	begin := time.Now()
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return begin
}

// endpoints watches which addresses the Service of the webhook sends requests to.
type endpoints struct {
	mu     sync.Mutex
	ready  []string
	goneAt map[string]time.Time
	// told is each change of what the EndpointSlices say, for the reader of a failure.
	told []change
}

// change is what the EndpointSlices have said from a time on.
type change struct {
	at   time.Time
	says string
}

// watchEndpoints looks ten times a second until the test ends.
func watchEndpoints(t *testing.T) *endpoints {
	t.Helper()
	a, e := newAPI(t), &endpoints{goneAt: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			e.look(ctx, a)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { cancel(); looking.Wait() })
	return e
}

func (e *endpoints) look(ctx context.Context, a *api) {
	answer, err := a.do(ctx, http.MethodGet, "/apis/discovery.k8s.io/v1/namespaces/"+system+
		"/endpointslices?labelSelector=kubernetes.io/service-name=portcullis-webhook", nil)
	if err != nil {
		return
	}
	var slicesOf struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []string
				Conditions struct{ Ready, Serving, Terminating bool }
			}
		}
	}
	if json.Unmarshal(answer, &slicesOf) != nil {
		return
	}
	var ready, all []string
	for _, s := range slicesOf.Items {
		for _, endpoint := range s.Endpoints {
			all = append(all, fmt.Sprintf("%v %+v", endpoint.Addresses, endpoint.Conditions))
			if endpoint.Conditions.Ready {
				ready = append(ready, endpoint.Addresses...)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, address := range e.ready {
		if !slices.Contains(ready, address) {
			e.goneAt[address] = time.Now()
		}
	}
	e.ready = ready
	slices.Sort(all)
	if says := strings.Join(all, ", "); len(e.told) == 0 || e.told[len(e.told)-1].says != says {
		e.told = append(e.told, change{at: time.Now(), says: says})
	}
}

// story is what the EndpointSlices have said, each time with how long that was after begin.
func (e *endpoints) story(begin time.Time) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var lines []string
	for _, c := range e.told {
		lines = append(lines, fmt.Sprintf("  %s: %s", c.at.Sub(begin).Round(100*time.Millisecond), c.says))
	}
	return strings.Join(lines, "\n")
}

// gone is when an address was taken out, and whether it was.
func (e *endpoints) gone(address string) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, was := e.goneAt[address]
	return at, was
}
