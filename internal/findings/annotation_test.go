package findings

import (
	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// asking is a Service that carries the annotation.
func asking(value string, ports ...corev1.ServicePort) snapshot.Snapshot {
	svc := service("shop/web", 0, ports...)
	svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: value}
	return snapshot.Snapshot{Services: []*corev1.Service{svc}}
}

var annotationRows = map[string]row{
	"an annotation":       {in: asking("host=shop.example.com", tcp(80, 80))},
	"an empty annotation": {in: asking("", tcp(8080, 80))},
	"an annotation that can't be read": {
		in:   asking("hosts=shop.example.com", tcp(80, 80)),
		want: []string{"AnnotationUnreadable ingress/http: Service shop/web"},
		says: "did you mean host?",
	},
	"an annotation for a port that is not there": {
		in:   asking("port=https", tcp(80, 80)),
		want: []string{"AnnotationUnreadable ingress/http: Service shop/web"},
		says: "the Service has no port https",
	},
}
