package certs

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var secrets = schema.GroupResource{Resource: "secrets"}

func TestMirrorMakesAMissingSecret(t *testing.T) {
	terminating := apierrors.NewForbidden(secrets, testSecret, errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	noNamespace := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, testNamespace)
	for name, test := range map[string]struct {
		answer error
		again  bool
		fails  bool
	}{
		"nobody else does":               {},
		"another replica was first":      {answer: apierrors.NewAlreadyExists(secrets, testSecret)},
		"the namespace is not there yet": {answer: noNamespace, again: true},
		"the namespace is going":         {answer: terminating, again: true},
		"it is not allowed":              {answer: apierrors.NewForbidden(secrets, testSecret, errors.New("no")), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			writer := &secretWriter{answer: test.answer}
			m, published := newMirror(t, secretReader{}, writer)
			result, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: m.key()})
			if (err != nil) != test.fails || (result.RequeueAfter > 0) != test.again {
				t.Errorf("Reconcile returned %v, %v", result, err)
			}
			if writer.created == nil || *published != 0 {
				t.Errorf("created %v, published %d times", writer.created, *published)
			}
		})
	}
}

func TestMirrorPublishesTheSecret(t *testing.T) {
	pair := newAuthority(t).pair(t, "mirrored.test", 1)
	good := pair.files()
	good[caFile], good[caKeyFile] = []byte("authority"), []byte("its key")
	for name, test := range map[string]struct {
		data map[string][]byte
		want int
	}{
		"with a certificate":    {good, 1},
		"that is not filled in": {map[string][]byte{certFile: nil, keyFile: nil}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, published := newMirror(t, secretReader{&corev1.Secret{Data: test.data}}, &secretWriter{})
			for range 3 {
				if _, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: m.key()}); err != nil {
					t.Fatal(err)
				}
			}
			if *published != test.want {
				t.Errorf("published %d times, want %d", *published, test.want)
			}
			if matches, _ := filepath.Glob(filepath.Join(m.opts.Dir, "*", caKeyFile)); len(matches) > 0 {
				t.Errorf("the authority's key is in %v", matches)
			}
		})
	}
}

func TestMirrorLooksAtItsOwnSecretOnly(t *testing.T) {
	writer := &secretWriter{}
	m, _ := newMirror(t, secretReader{}, writer)
	other := client.ObjectKey{Namespace: testNamespace, Name: "other"}
	if _, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: other}); err != nil || writer.created != nil {
		t.Errorf("another Secret led to %v, %v", writer.created, err)
	}
}

func newMirror(t *testing.T, reader client.Reader, writer client.Writer) (*mirror, *int) {
	t.Helper()
	published := new(int)
	return &mirror{
		opts:   Options{Dir: t.TempDir(), Namespace: testNamespace, SecretName: testSecret},
		reader: reader, writer: writer, published: func() { *published++ },
		issue: func() (*corev1.Secret, error) { return &corev1.Secret{}, nil },
		log:   (&logLines{}).logger(),
	}, published
}

// secretReader has one Secret, whatever it is called, or none.
type secretReader struct{ secret *corev1.Secret }

func (r secretReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if r.secret == nil {
		return apierrors.NewNotFound(secrets, key.Name)
	}
	r.secret.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func (secretReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nothing needs a list")
}

// secretWriter answers writes with an error, or nil, and keeps what was asked for.
type secretWriter struct {
	client.Writer
	answer           error
	created, updated client.Object
}

func (w *secretWriter) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	w.created = object
	return w.answer
}

func (w *secretWriter) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	w.updated = object
	return w.answer
}
