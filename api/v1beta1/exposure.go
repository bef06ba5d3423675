package v1beta1

const (
	// AnnotationHTTP on a Service asks for an Ingress of the Service's name.
	AnnotationHTTP = "ingress/http"

	// AnnotationIngressClass on an Ingress is how the class was named before spec.ingressClassName was.
	AnnotationIngressClass = "kubernetes.io/ingress.class"

	// AnnotationMadeFor marks the Ingresses and Certificates that Portcullis made for a Service: the UID of the Service, an
	// @, and the resourceVersion of the Service that they were last written from. Services have no generation.
	AnnotationMadeFor = GroupName + "/made-for"
)

// Reasons for which a Service gets no Ingress. They are those of its events, as a Service has no conditions.
const (
	// ReasonInvalidAnnotation: the annotation can't be read.
	ReasonInvalidAnnotation = "InvalidAnnotation"
	// ReasonServicePortNotFound: the Service has not the port that is asked for, or it can't be told which one is meant.
	ReasonServicePortNotFound = "ServicePortNotFound"
	// ReasonHostConflict: host and path are held by another object.
	ReasonHostConflict = "HostConflict"
	// ReasonTooManyPoints: the annotation asks for more pairs of host and path than one Service gets.
	ReasonTooManyPoints = "TooManyPoints"
	// ReasonIngressNameTaken: an Ingress of the Service's name exists that the Service does not own.
	ReasonIngressNameTaken = "IngressNameTaken"
	// ReasonCertificateNameTaken: a Certificate of the Service's name exists that the Service does not own.
	ReasonCertificateNameTaken = "CertificateNameTaken"
	// ReasonCertManagerMissing: an issuer is named, and cert-manager is not installed.
	ReasonCertManagerMissing = "CertManagerMissing"
	// ReasonIngressRefused: the API server refused the Ingress or the Certificate.
	ReasonIngressRefused = "IngressRefused"
)

// Reasons of the events of a Service that has an Ingress.
const (
	// ReasonExposed: what was refused before is served now.
	ReasonExposed = "Exposed"
	// ReasonIngressUpdated: the Ingress was written anew, because the Service changed or somebody had changed the Ingress.
	ReasonIngressUpdated = "IngressUpdated"
	// ReasonIngressDeleted: the annotation is gone, and so is the Ingress.
	ReasonIngressDeleted = "IngressDeleted"
	// ReasonCertificateReady: the certificate is issued.
	ReasonCertificateReady = "CertificateReady"
	// ReasonCertificateNotReady: the certificate could not be issued.
	ReasonCertificateNotReady = "CertificateNotReady"
)
