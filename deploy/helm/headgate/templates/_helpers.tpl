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

{{- /* The variables of the shared stores. */ -}}
{{- define "headgate.stores" -}}
{{- with .Values.database }}{{ if .existingSecret -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef: { name: {{ .existingSecret }}, key: {{ .key }} }
- { name: DATABASE_MIGRATE, value: {{ ternary "auto" "never" (eq .migrate "auto") }} }
{{ end }}{{ end -}}
{{- with .Values.redis }}{{ if .existingSecret -}}
- name: REDIS_URL
  valueFrom:
    secretKeyRef: { name: {{ .existingSecret }}, key: {{ .key }} }
{{- end }}{{ end }}
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
{{- if not .Values.database.existingSecret }}
{{- if .Values.autoscaling.enabled }}
{{- fail "autoscaling: it needs a database, since a pod that is removed would take its client keys, budgets and usage with it. Set database.existingSecret (README.md, \"Several replicas\")." }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.independentReplicas) }}
{{- fail "replicas: without a database each replica has its own client keys, limits, budgets and usage. Set database.existingSecret, or independentReplicas to true if that suits you, or use workers for more processes in one pod (README.md, \"Several replicas\")." }}
{{- end }}
{{- end }}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) }}
{{- fail "autoscaling: maxReplicas is less than minReplicas." }}
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
