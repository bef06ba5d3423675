//go:build !linux

package controlplane

import "syscall"

// ownGroup keeps a terminal's Ctrl-C from the program, so that its owner decides in which order programs stop.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
