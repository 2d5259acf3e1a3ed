{{- define "shoal.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "shoal.labels" -}}
app.kubernetes.io/name: shoal
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "shoal.members" -}}
{{ include "shoal.name" . }}-nodes.{{ .Release.Namespace }}.svc
{{- end -}}
