package controlplane

import "syscall"

// ownGroup keeps a terminal's Ctrl-C from the program, so that its owner decides in which order programs stop. The
// kernel kills it when its owner dies, whatever the reason.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
