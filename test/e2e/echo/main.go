// Command echo is what the end-to-end tests send traffic to, and with what. Without arguments it answers on port 8080, by
// TCP and UDP, with the name of its host and the address of who asks. With a protocol and an address it asks there, and prints
// the answer. With "ask" before them it waits long for one, for who does not ask again. With "visit" before them it asks ten times a
// second until its standard input ends, prints of every attempt that failed when it began and ended, and why, and in the end how many
// there were.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const port = ":8080"

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2:
		var answer string
		// Much on a network of one machine. Who asks for one answer asks again.
		answer, err = ask(args[0], args[1], 2*time.Second)
		fmt.Print(answer)
	case len(args) == 3 && args[0] == "ask":
		var answer string
		answer, err = ask(args[1], args[2], 30*time.Second)
		fmt.Print(answer)
	case len(args) == 3 && args[0] == "visit":
		visit(args[1], args[2])
	default:
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ask asks for a name. An address where nobody listens says so at once.
func ask(protocol, address string, patience time.Duration) (answer string, err error) {
	conn, err := net.DialTimeout(protocol, address, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "who is there?\n"); err != nil {
		return "", err
	}
	name := make([]byte, 300)
	n, err := conn.Read(name)
	return string(name[:n]), err
}

// visit asks again and again until the standard input ends. A machine that is busy may let it wait.
func visit(protocol, address string) {
	left := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(left)
	}()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for visits := 1; ; visits++ {
		begin := time.Now()
		_, err := ask(protocol, address, 30*time.Second)
		if protocol == "udp" && errors.Is(err, os.ErrDeadlineExceeded) {
			_, err = ask(protocol, address, 30*time.Second) // a datagram may get lost; a closed door refuses
		}
		if err != nil {
			fmt.Printf("%s %s: %v\n", begin.Format(time.RFC3339Nano), time.Now().Format(time.RFC3339Nano), err)
		}
		select {
		case <-left:
			fmt.Printf("%d visits\n", visits)
			return
		case <-ticker.C:
		}
	}
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
				_, _ = packets.WriteTo([]byte(answerTo(name, from)), from)
			}
		}
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(conn, answerTo(name, conn.RemoteAddr()))
		_ = conn.Close()
	}
}

// answerTo is what a client is answered: who answers, and who asks as far as the host sees.
func answerTo(name string, client net.Addr) string {
	host, _, _ := net.SplitHostPort(client.String())
	return name + " " + host + "\n"
}
