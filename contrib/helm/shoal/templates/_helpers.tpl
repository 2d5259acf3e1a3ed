{{- define "shoal.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "shoal.labels" -}}
app.kubernetes.io/name: shoal
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Name of the UDP port beside a port; Kubernetes allows 15 letters. */ -}}
{{- define "shoal.http3" -}}
{{- printf "%s-h3" (.name | trunc 12 | trimSuffix "-") -}}
{{- end -}}

{{- define "shoal.members" -}}
{{ include "shoal.name" . }}-nodes.{{ .Release.Namespace }}.svc
{{- end -}}
