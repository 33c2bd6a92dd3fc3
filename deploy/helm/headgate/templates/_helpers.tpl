{{- define "headgate.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "headgate.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "headgate.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "headgate.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "headgate.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- /* The Secret whose entries are environment variables; empty if there is none. */ -}}
{{- define "headgate.secret" -}}
{{- if .Values.secrets.existing }}{{ .Values.secrets.existing }}{{ else if .Values.secrets.values }}{{ include "headgate.name" . }}{{ end }}
{{- end }}

{{- define "headgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "headgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* Contradictions that the schema cannot explain. */ -}}
{{- define "headgate.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.independentReplicas) }}
{{- fail "replicas: more than one replica share nothing: each has its own client keys, limits, budgets, usage and stored responses. Set independentReplicas to true if that suits you, or use workers for more processes in one pod (README.md, \"Several replicas\")." }}
{{- end }}
{{- if and .Values.secrets.existing .Values.secrets.values }}
{{- fail "secrets: set existing or values, not both." }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not (include "headgate.secret" .)) }}
{{- fail "serviceMonitor: /metrics needs the admin token. Set AUTH_ADMIN in secrets.existing or secrets.values." }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress: set at least one host in ingress.hosts." }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
{{- fail "httpRoute: set the gateway in httpRoute.parentRefs." }}
{{- end }}
{{- end }}
