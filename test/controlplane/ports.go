package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// The ports that FreePorts gives: none that a kernel takes for outgoing connections by itself (from 32768 on Linux, from
// 49152 elsewhere), and none that Kubernetes takes for node ports (from 30000). A port that is free now may be one of
// those a moment later, before whoever it was meant for listens on it.
const (
	firstPort = 12000
	lastPort  = 29999
)

// kept are the locks of the ports that were given. The kernel gives them up when the process ends, however it ends.
var kept struct {
	sync.Mutex
	files []*os.File
}

// FreePorts returns n different ports on which nobody listens, and which FreePorts gives to nobody else on this machine
// while this process lives. It returns an error when there are no more of them.
func FreePorts(n int) (ports []int, err error) {
	kept.Lock()
	defer kept.Unlock()
	// Everybody begins somewhere else, so that few come to a port that is kept.
	span := lastPort - firstPort + 1
	begin := rand.IntN(span)
	for i := 0; i < span && len(ports) < n; i++ {
		port := firstPort + (begin+i)%span
		lock, err := keep(port)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			kept.files = append(kept.files, lock)
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("of the ports from %d to %d fewer than %d are free", firstPort, lastPort, n)
	}
	return ports, nil
}

// keep locks a port on which nobody listens. The lock is nil when it is another's, or when somebody listens.
func keep(port int) (lock *os.File, err error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("portcullis-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK), err == nil && !listenable(port):
		return nil, file.Close()
	case err != nil:
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// listenable says whether nobody listens on a port, neither of the loopback address nor of all.
func listenable(port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil || listener.Close() != nil {
			return false
		}
	}
	return true
}

// FreePort finds one port, as FreePorts does.
func FreePort() (int, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}
