// Command echo is what the end-to-end tests send traffic to, and with what. Without arguments it answers on port 8080, by
// TCP and UDP, with the name of its host. With a protocol and an address it asks there, and prints the answer.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const port = ":8080"

func main() {
	var err error
	if len(os.Args) == 3 {
		err = ask(os.Args[1], os.Args[2])
	} else {
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ask asks for a name. Two seconds are much on a network of one machine.
func ask(protocol, address string) error {
	conn, err := net.DialTimeout(protocol, address, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "who is there?\n"); err != nil {
		return err
	}
	answer := make([]byte, 300)
	n, err := conn.Read(answer)
	if err != nil {
		return err
	}
	fmt.Print(string(answer[:n]))
	return nil
}

func serve() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	packets, err := net.ListenPacket("udp", port)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", port)
	if err != nil {
		return err
	}
	go func() {
		for question := make([]byte, 300); ; {
			if _, from, err := packets.ReadFrom(question); err == nil {
				_, _ = packets.WriteTo([]byte(name+"\n"), from)
			}
		}
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(conn, name+"\n")
		_ = conn.Close()
	}
}
