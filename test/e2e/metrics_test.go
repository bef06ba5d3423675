package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMetricsAreRead reads the metrics of both replicas.
func TestMetricsAreRead(t *testing.T) { scrape(t) }

// monitor is what Prometheus reads of the ServiceMonitor.
type monitor struct {
	port, path, serverName, secret, key string
}

func readMonitor(t *testing.T) (m monitor) {
	t.Helper()
	file := filepath.Join(root, "config", "prometheus", "service_monitor.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, to := range map[string][]*string{
		`\n  - port: (\S+)\n`: {&m.port}, `\n    path: (\S+)\n`: {&m.path}, `\n      serverName: (\S+)\n`: {&m.serverName},
		`\n        secret:\n          name: (\S+)\n          key: (\S+)\n`: {&m.secret, &m.key},
	} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
		if len(found) != 1+len(to) {
			t.Fatalf("%s has no %s", file, pattern)
		}
		for i := range to {
			*to[i] = found[1+i]
		}
	}
	return m
}

// scrape reads the metrics of both replicas as Prometheus does: it finds them by the Service's EndpointSlices, trusts the
// authority in the Secret and nothing else, expects the name that the ServiceMonitor gives, and shows the token of an
// account. Without the role the account is refused.
func scrape(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("curl")
	needs(t, err == nil, "curl is what reads metrics here")
	m := readMonitor(t)
	var names []string
	for _, r := range replicas(t) {
		names = append(names, r.Metadata.Name)
	}
	slices.Sort(names)
	targets := m.targets(t)
	if found := targets.pods; !slices.Equal(found, names) {
		t.Fatalf("the Service leads to %v, and the replicas are %v", found, names)
	}
	trusted := kubectl(t, "get", "secret", m.secret, "-n", system, "-o", "jsonpath={.data."+strings.ReplaceAll(m.key, ".", `\.`)+"}")
	authority, err := base64.StdEncoding.DecodeString(trusted)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	ns := newNamespace(t, "metrics")
	kubectl(t, "create", "serviceaccount", "prometheus", "-n", ns)
	token := strings.TrimSpace(kubectl(t, "create", "token", "prometheus", "-n", ns))
	answers := func(code, with string) {
		t.Helper()
		for _, pod := range names {
			eventually(t, pod+" to answer "+code, func() error {
				answer, err := m.get(pod, targets.port, file, token)
				if err == nil && (!strings.HasSuffix(answer, "\n"+code) || !strings.Contains(answer, with)) {
					err = fmt.Errorf("it answers %.200q and so on, without %q or not with %s", answer, with, code)
				}
				return err
			})
		}
	}
	answers("403", "")
	kubectl(t, "create", "clusterrolebinding", ns, "--clusterrole=portcullis-metrics-reader", "--serviceaccount="+ns+":prometheus")
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding", ns) })
	answers("200", "\nportcullis_webhook_certificate_expiry_timestamp_seconds ")
}

// metricsTargets are the pods that the Service for metrics leads to, and their port.
type metricsTargets struct {
	pods []string
	port int
}

// targets waits until there are two.
func (m monitor) targets(t *testing.T) (found metricsTargets) {
	t.Helper()
	eventually(t, "two targets", func() error {
		slicesOf, err := list[struct {
			Endpoints []struct{ TargetRef struct{ Name string } }
			Ports     []struct {
				Name string
				Port int
			}
		}]("endpointslices", "-n", system, "-l", "kubernetes.io/service-name=portcullis-metrics")
		found = metricsTargets{}
		for _, s := range slicesOf {
			for _, p := range s.Ports {
				if p.Name == m.port {
					found.port = p.Port
				}
			}
			for _, e := range s.Endpoints {
				found.pods = append(found.pods, e.TargetRef.Name)
			}
		}
		if err != nil || len(found.pods) != 2 || found.port == 0 {
			return fmt.Errorf("they are %+v: %w", found, err)
		}
		return nil
	})
	slices.Sort(found.pods)
	return found
}

// get is what a replica answers, with the status code as its last line.
func (m monitor) get(pod string, port int, authority, token string) (string, error) {
	address, stop, err := forward(pod, port)
	if err != nil {
		return "", err
	}
	defer stop()
	out, err := atForward("curl", "--silent", "--show-error", "--max-time", "20",
		"--cacert", authority, "--capath", filepath.Dir(authority), // of which nothing has the name that is looked for
		"--connect-to", m.serverName+":443:"+address, "--header", "Authorization: Bearer "+token,
		"--write-out", `\n%{http_code}`, "https://"+m.serverName+m.path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("curl: %w: %s", err, out)
	}
	return string(out), nil
}
