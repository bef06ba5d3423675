// Package empty is the least that a webhook can be: the same server as that of Portcullis, with a handler that says yes to
// everything and does not even look at what it is asked. What it adds to a request, every webhook does.
package empty

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"jeffthecoder.xyz/portcullis/webhooks"
)

// Path is where the server says yes.
const Path = "/yes"

// Serve serves on the address and with the certificate that the arguments name, until ctx is done.
func Serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("empty", flag.ContinueOnError)
	port := flags.Int("port", 0, "port to listen on")
	dir := flags.String("cert-dir", "", "directory of the certificate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(*dir, "tls.crt"), filepath.Join(*dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("certificate of the empty webhook: %w", err)
	}
	server := webhooks.NewServer(net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)), &tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	})
	yes := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
	server.Register(Path, &admission.Webhook{Handler: yes})
	return server.Start(ctx)
}

// Certify writes a certificate for localhost into a directory, and returns it.
func Certify(dir string) ([]byte, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("certificate of the empty webhook: %w", err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return certificate, nil
}
