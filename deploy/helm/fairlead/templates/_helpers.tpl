{{- define "fairlead.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name }}{{ end -}}
{{- end }}

{{- define "fairlead.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "fairlead.selector" . }}
{{- end }}

{{- define "fairlead.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fairlead.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- define "fairlead.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "fairlead.name" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{/* The config of every pod, before what each kind of pod adds. */}}
{{- define "fairlead.config" -}}
{{- $set := dict "state" "/var/lib/fairlead/state" "metrics" (dict "listen" "0.0.0.0:9090") -}}
{{- if .Values.access }}{{ $_ := set $set "access" "access.yaml" }}{{ end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $set) -}}
{{- end }}

{{- define "fairlead.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "fairlead.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The config, the access file and the secret in one folder, so that relative paths work. */}}
{{- define "fairlead.configVolume" -}}
- name: config
  projected:
    defaultMode: 0440
    sources:
      - configMap: {name: {{ .map }}}
      {{- if .root.Values.access }}
      - configMap: {name: {{ include "fairlead.name" .root }}-access}
      {{- end }}
      - secret: {name: {{ .root.Values.secret }}}
      {{- if .tls }}
      - secret:
          name: {{ .tls }}
          items: [{key: tls.crt, path: api.pem}, {key: tls.key, path: api.key}]
      {{- end }}
- name: tmp
  emptyDir: {}
{{- end }}

{{- define "fairlead.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}
