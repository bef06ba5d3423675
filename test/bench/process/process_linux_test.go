package process

import (
	"os"
	"os/exec"
	"testing"
)

func TestProcess(t *testing.T) {
	sleep := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	if got := Children(os.Getpid())["sleep"]; got != sleep.Process.Pid {
		t.Errorf("the child is %d, want %d", got, sleep.Process.Pid)
	}
	me := os.Getpid()
	if Memory(me) <= 0 || Peak(me) < Memory(me)/2 || CPUSeconds(me) <= 0 {
		t.Errorf("memory %v, peak %v, CPU %v", Memory(me), Peak(me), CPUSeconds(me))
	}
	if before := Spent(); before <= 0 || exec.CommandContext(t.Context(), "go", "version").Run() != nil || Spent() <= before {
		t.Errorf("%v s are spent, and %v s after another program", before, Spent())
	}
	if Memory(-1) != 0 || Peak(-1) != 0 || CPUSeconds(-1) != 0 {
		t.Error("a process that is not there uses something")
	}
	if CPUModel() == "" || TotalMemory() == "" || Load() == "" {
		t.Error("a fact is empty")
	}
}
