package podtoip

import (
	"fmt"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Mode says which Pods get PodToIPs. The zero value is no mode.
type Mode string

const (
	// Off gives no Pod a PodToIP.
	Off Mode = "off"
	// Labeled gives one to the Pods of namespaces that are labeled so.
	Labeled Mode = "labelled" //nolint:misspell // the flag is spelled so
	// All gives one to every Pod.
	All Mode = "all"
)

// String is the mode as the command line spells it.
func (m Mode) String() string { return string(m) }

// Set reads a mode from the command line. It makes a *Mode a flag.Value.
func (m *Mode) Set(value string) error {
	switch Mode(value) {
	case Off, Labeled, All:
		*m = Mode(value)
		return nil
	default:
		return fmt.Errorf("must be one of %s, %s and %s", Off, Labeled, All)
	}
}

// Covers says whether the Pods of a namespace get PodToIPs, by the namespace's labels.
func (m Mode) Covers(labels map[string]string) bool {
	switch m {
	case All:
		return true
	case Labeled:
		return labels[v1beta1.LabelPodToIP] == v1beta1.PodToIPEnabled
	default:
		return false
	}
}
