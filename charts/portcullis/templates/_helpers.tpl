{{- /* The image, by its digest where there is one. */}}
{{- define "portcullis.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end }}
{{- end }}
