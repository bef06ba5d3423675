package controlplane

import (
	"net"
	"sync"
	"testing"
)

// TestNobodyIsGivenTheSamePort asks for many ports at once. The locks make no difference between who asks in this process
// and who asks in another.
func TestNobodyIsGivenTheSamePort(t *testing.T) {
	const askers, each = 20, 50
	var mu sync.Mutex
	given := map[int]int{}
	var asking sync.WaitGroup
	for range askers {
		asking.Go(func() {
			ports, err := FreePorts(each)
			if err != nil || len(ports) != each {
				t.Errorf("FreePorts(%d) = %v, %v", each, ports, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, port := range ports {
				given[port]++
			}
		})
	}
	asking.Wait()
	for port, times := range given {
		if times > 1 {
			t.Errorf("port %d was given %d times", port, times)
		}
	}
}

func TestAPortWithAListenerIsNotKept(t *testing.T) {
	for _, host := range []string{"127.0.0.1:0", ":0"} {
		listener, err := net.Listen("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		if lock, err := keep(port); err != nil || lock != nil {
			t.Errorf("with a listener at %s, keep(%d) = %v, %v", host, port, lock, err)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
