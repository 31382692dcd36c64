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

{{- /* What a pod's files have besides its configuration: its TLS identity and logins. */ -}}
{{- /* Arguments: the root, and whether the pod has an identity and a database. */ -}}
{{- define "mediator.projected" -}}
{{- $root := index . 0 -}}
{{- if index . 1 }}
{{- include "mediator.identity" $root }}
{{- end }}
{{- if eq $root.Values.custody.type "vault" }}
- serviceAccountToken: {path: vault/token, audience: {{ $root.Values.custody.vault.audience }}, expirationSeconds: 3600}
{{- end }}
{{- if and (index . 2) (eq $root.Values.storage.type "postgres") }}
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
