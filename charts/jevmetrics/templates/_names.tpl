{{/* Names and labels of all that the chart makes. */}}

{{/* The release's name alone if it says what it is. Short enough for what is put behind it. */}}
{{- define "jevmetrics.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The operator: its Deployment, its Lease, its rights. */}}
{{- define "jevmetrics.operator" -}}
{{- include "jevmetrics.fullname" . }}-operator
{{- end }}

{{- define "jevmetrics.serviceAccount" -}}
{{- default (include "jevmetrics.operator" .) .Values.serviceAccount.name -}}
{{- end }}

{{/* Never changes, for a Deployment's selector cannot. */}}
{{- define "jevmetrics.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "jevmetrics.labels" -}}
{{ include "jevmetrics.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* An image: its digest says all; else its tag, by default this chart's appVersion. */}}
{{- define "jevmetrics.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .appVersion .image.tag) -}}
{{- end -}}
{{- end }}
