package plugin

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/doors"
	"jeffthecoder.xyz/portcullis/internal/findings"
)

// typeOf is the type of a report, which is no object of any API server.
func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "plugin." + v1beta1.GroupName + "/v1alpha1", Kind: kind}
}

// Audit is what audit says with -o json and -o yaml.
type Audit struct {
	metav1.TypeMeta `json:",inline"`
	Findings        []findings.Finding `json:"findings"`
	// Unread is what could not be read: there may be more findings.
	Unread []Unread `json:"unread"`
}

// DeepCopyObject copies the report, and not what is in it: nobody changes that.
func (a *Audit) DeepCopyObject() runtime.Object {
	c := *a
	return &c
}

// Doors is what doors says with -o json and -o yaml.
type Doors struct {
	metav1.TypeMeta `json:",inline"`
	Doors           []doors.Door `json:"doors"`
	Unread          []Unread     `json:"unread"`
}

// DeepCopyObject copies the report, and not what is in it: nobody changes that.
func (d *Doors) DeepCopyObject() runtime.Object {
	c := *d
	return &c
}

// Who is what who says with -o json and -o yaml.
type Who struct {
	metav1.TypeMeta `json:",inline"`
	Point           string `json:"point"`
	// Doors are those that the point is, the one that is served today first, as far as that is known.
	Doors []doors.Door `json:"doors"`
	// Conflicts are the findings about these doors.
	Conflicts []findings.Finding `json:"conflicts"`
	// Asked are those who have asked in vain, as far as events tell.
	Asked  []Asked  `json:"askedInVain"`
	Advice string   `json:"advice"`
	Unread []Unread `json:"unread"`
}

// Asked is somebody who has asked for a point in vain.
type Asked struct {
	Object  string       `json:"object"`
	Reason  string       `json:"reason"`
	Message string       `json:"message"`
	Last    *metav1.Time `json:"last,omitempty"`
}

// DeepCopyObject copies the report, and not what is in it: nobody changes that.
func (w *Who) DeepCopyObject() runtime.Object {
	c := *w
	return &c
}
