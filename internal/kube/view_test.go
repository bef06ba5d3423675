package kube

import (
	"testing"
)

func TestSyncedWaitsForEverything(t *testing.T) {
	warm := false
	v := viewOf(t)
	v.warm = func() bool { return warm }
	if v.Synced() {
		t.Error("synced before the cache is")
	}
	if warm = true; v.Synced() != v.Occupancy.Synced() {
		t.Error("it does not ask whether the claims are known")
	}
}
