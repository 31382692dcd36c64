{{- define "mediator.labels" -}}
app.kubernetes.io/name: mediator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* Arguments: the root and a component. */ -}}
{{- define "mediator.selector" -}}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "mediator.image" -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- end -}}

{{- define "mediator.securityContext" -}}
runAsUser: 10001
runAsGroup: 10001
runAsNonRoot: true
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* A Service's DNS name. Arguments: the root and a component. */ -}}
{{- define "mediator.host" -}}
{{ (index . 0).Release.Name }}-{{ index . 1 }}.{{ (index . 0).Release.Namespace }}.svc
{{- end -}}

{{- /* A pod's TLS identity, made by kubelet and registrar. */ -}}
{{- define "mediator.identity" }}
{{- if eq .Values.identity "token" }}
- serviceAccountToken: {path: identity/token, audience: mediator-registrar, expirationSeconds: 3600}
{{- else }}
- podCertificate:
    signerName: actionproof.github.io/mediator
    keyType: ED25519
    credentialBundlePath: identity/pod.pem
    maxExpirationSeconds: 86400
- clusterTrustBundle:
    signerName: actionproof.github.io/mediator
    labelSelector: {}
    path: identity/authorities.pem
{{- end }}
{{- end -}}

{{- /* The ConfigMap with the CA for pods with tokens, which the registrar writes. */ -}}
{{- define "mediator.authorities" -}}
{{ .Release.Name }}-{{ ternary "roots" "authorities" .Values.trial }}
{{- end -}}

{{- /* The namespaces of agents. */ -}}
{{- define "mediator.namespaces" -}}
{{- $names := list -}}{{- range .Values.rules.agents }}{{ $names = append $names .namespace }}{{ end -}}
{{ $names | uniq | toJson }}
{{- end -}}

{{- /* The files besides its configuration that a process may name: their texts by their names. */ -}}
{{- define "mediator.texts" -}}
{{- $texts := dict -}}
{{- range $name, $text := dict "vault-ca.pem" .Values.custody.vault.ca "log-policy.txt" .Values.files.logPolicy
  "tracing-ca.pem" .Values.tracing.ca "audit-ca.pem" .Values.auditExport.ca -}}
{{- if $text }}{{ $_ := set $texts $name $text }}{{ end -}}
{{- end -}}
{{ $texts | toJson }}
{{- end -}}

{{- /* A collector in a configuration file. Arguments: its values, and what it is for. */ -}}
{{- define "mediator.collector" -}}
{{- with index . 0 -}}
endpoint: {{ .endpoint | quote }}{{ if .ca }}, ca: {{ index $ 1 }}-ca.pem{{ end -}}
{{- if .secret }}, headersFile: {{ index $ 1 }}/headers{{ end -}}
{{- end -}}
{{- end -}}

{{- /* What a pod's files have besides its configuration: its TLS identity and logins. */ -}}
{{- /* Arguments: the root and a component. */ -}}
{{- define "mediator.projected" -}}
{{- $root := index . 0 -}}
{{- if ne (index . 1) "registrar" }}
{{- include "mediator.identity" $root }}
{{- with $root.Values.tracing.secret }}
- secret: {name: {{ . }}, items: [{key: headers, path: tracing/headers}]}
{{- end }}
{{- end }}
{{- if has (index . 1) (list "sidecar" "proxy") }}
{{- with $root.Values.auditExport.secret }}
- secret: {name: {{ . }}, items: [{key: headers, path: audit/headers}]}
{{- end }}
{{- end }}
{{- if eq $root.Values.custody.type "vault" }}
- serviceAccountToken: {path: vault/token, audience: {{ $root.Values.custody.vault.audience }}, expirationSeconds: 3600}
{{- end }}
{{- if and (ne (index . 1) "control") (eq $root.Values.storage.type "postgres") }}
- secret: {name: {{ $root.Values.storage.secret }}, items: [{key: dsn, path: database/dsn}]}
{{- end }}
{{- end -}}

{{- /* The parts of a configuration file that all processes have. Arguments: the root and a component. */ -}}
{{- define "mediator.process" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.identity "token" }}
tls: {token: identity/token, authorities: authorities.pem}
{{- else }}
tls: {certificate: identity/pod.pem, key: identity/pod.pem, authorities: identity/authorities.pem}
{{- end }}
registrar: {tcp: {{ printf "%s:8443" (include "mediator.host" (list $root "registrar")) | quote }}}
probes: {listen: "0.0.0.0:9090"}
{{- with $root.Values.tracing }}
{{- if .endpoint }}
tracing: { {{- include "mediator.collector" (list . "tracing") }}, sample: {{ .sample }}}
{{- end }}
{{- end }}
trust:
  registry: {{ ternary "registry.jwk" "roots/registry.jwk" (eq (index . 1) "sidecar") }}
  auditor: {{ ternary "auditor.jwk" "roots/auditor.jwk" (eq (index . 1) "sidecar") }}
  bundle: /var/lib/mediator/trust/trust.json
custody:
{{- include "mediator.custody" $root | nindent 2 }}
{{- end -}}

{{- define "mediator.custody" -}}
type: {{ .Values.custody.type }}
{{- if eq .Values.custody.type "vault" }}
vault:
  address: {{ .Values.custody.vault.address | quote }}
  transit: {{ .Values.custody.vault.transit | quote }}
  {{- if .Values.custody.vault.ca }}
  ca: vault-ca.pem
  {{- end }}
  keys:
    [origin-proof-key, trigger-receipt-key, policy-decision-key, action-grant-key, runtime-key, session-key,
     request-proof-key, interaction-receipt-key, agent-statement-key, transparency-log-key, web-bot-auth-key,
     appraiser-key, registry, tls-authority-key]
  auth:
    kubernetes:
      mount: {{ .Values.custody.vault.mount | quote }}
      role: "mediator-{role}"
      tokenFile: vault/token
{{- end }}
{{- end -}}
