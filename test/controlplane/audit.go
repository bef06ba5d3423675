package controlplane

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// auditPolicy records every change that reached its end, once.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// readsToo is the policy that records every request, when it has reached its end, and watches when they begin.
const readsToo = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, Panic]
rules:
- level: Metadata
`

// Request is what somebody asked of the API server, and what came of it.
type Request struct {
	// User who asked, and with which Verb: create, update, patch or delete, and get, list or watch.
	User, Verb string
	// Resource is the plural, with its group and subresource: "configmaps", "streamingresses.example.com/status".
	Resource string
	// Namespace and Name of the object.
	Namespace, Name string
	// Code is the status of the answer: below 400 it was granted. One that changed nothing counts as granted, too.
	Code int
	// RequestURI has the query, for example dryRun=All.
	RequestURI string
	// FailedOpen says that the API server let it pass a webhook that did not answer in time, by the failurePolicy Ignore.
	FailedOpen bool
}

// failedOpenPrefix begins the annotations by which an audit event tells that.
const failedOpenPrefix = "failed-open.validating.webhook.admission.k8s.io/"

// Write is a Request that asked for a change.
type Write = Request

// Writes returns every write since the control plane was first started with Options.Audit, oldest first.
func (cp *ControlPlane) Writes() ([]Write, error) {
	requests, err := cp.Requests()
	return slices.DeleteFunc(requests, func(r Request) bool {
		return r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
	}), err
}

// Requests returns every write, and with Options.AuditReads every other request, too. A watch is there when it has
// begun, and once more when it has ended.
func (cp *ControlPlane) Requests() ([]Request, error) {
	file, err := os.Open(cp.auditLog())
	if err != nil {
		return nil, fmt.Errorf("read requests, was Options.Audit set? %w", err)
	}
	requests, err := parseRequests(file)
	return requests, errors.Join(err, file.Close())
}

// parseRequests reads an audit log that is being written: its last line is left out until it has ended.
func parseRequests(log io.Reader) ([]Request, error) {
	var requests []Request
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		r, err := parseRequest(line)
		if err != nil {
			return nil, err
		}
		requests = append(requests, r)
	}
}

// parseRequest reads one line of the audit log.
func parseRequest(line []byte) (Request, error) {
	var event struct {
		Verb, RequestURI string
		User             struct{ Username string }
		ObjectRef        struct{ Resource, Subresource, APIGroup, Namespace, Name string }
		ResponseStatus   struct{ Code int }
		Annotations      map[string]string
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, fmt.Errorf("audit log: %w", err)
	}
	ref := event.ObjectRef
	resource := ref.Resource
	if ref.APIGroup != "" {
		resource += "." + ref.APIGroup
	}
	if ref.Subresource != "" {
		resource += "/" + ref.Subresource
	}
	failedOpen := false
	for key := range event.Annotations {
		failedOpen = failedOpen || strings.HasPrefix(key, failedOpenPrefix)
	}
	return Request{
		FailedOpen: failedOpen,
		User:       event.User.Username, Verb: event.Verb, Resource: resource, Namespace: ref.Namespace, Name: ref.Name,
		Code: event.ResponseStatus.Code, RequestURI: event.RequestURI,
	}, nil
}

func (cp *ControlPlane) auditLog() string {
	return filepath.Join(cp.opts.Dir, "logs", "audit.log")
}

// auditArgs writes the policy and returns the flags that make the API server follow it. The log is written before a
// request is answered and never rotated, so that nothing is missed.
func (cp *ControlPlane) auditArgs() ([]string, error) {
	policy := filepath.Join(cp.opts.Dir, "audit-policy.yaml")
	content := auditPolicy
	if cp.opts.AuditReads {
		content = readsToo
	}
	if err := os.WriteFile(policy, []byte(content), 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + cp.auditLog(),
		"--audit-log-mode=blocking-strict", "--audit-log-maxsize=100000",
	}, nil
}
